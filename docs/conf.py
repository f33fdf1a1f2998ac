"""Sphinx: the pages of this folder as a web site (`make docs`)."""

project = "fusekit"
extensions = ["myst_nb", "sphinxcontrib.mermaid"]
html_theme = "furo"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_fence_as_directive = ["mermaid"]
nb_execution_mode = "off"
# Pages also link to files of the project around this folder, which a site doesn't have.
suppress_warnings = ["myst.xref_missing"]
