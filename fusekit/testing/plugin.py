"""Nothing: the plugin is ``fusekit.pytest_plugin``. An install with older metadata still asks for this name."""
