"""Pages say what is true now: the texts of their examples, and the reasons that passes can give.

``pytest tests/test_pages.py --update-golden`` writes the texts anew; the diff is for review.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fusekit.ir import parse, print_graph
from fusekit.passes import PIPELINE
from fusekit.pipeline import Options, run_passes
from fusekit.trace import record
from fusekit.why.reasons import SENTENCES
from tests.conftest import ROOT

PASSES = ROOT / "docs" / "passes"
STEPS = ("trace", *(one.name for one in PIPELINE))


def block(page: Path, language: str) -> str:
    """The first fenced block of ``language`` on a page."""
    found = re.search(_fence(language), page.read_text("utf-8"), re.DOTALL)
    assert found, f"{page.name} has no block of {language}"
    return found[1]


def _fence(language: str) -> str:
    return rf"(?<=```{re.escape(language)}\n)(.*?)(?=```)"


@pytest.fixture
def shows(request: pytest.FixtureRequest):
    """A function that holds a block of a page against what it should be, or writes it."""

    def compare(page: Path, language: str, text: str) -> None:
        text = text.strip() + "\n"
        if request.config.getoption("--update-golden"):
            whole = page.read_text("utf-8")
            page.write_text(re.sub(_fence(language), lambda _: text, whole, count=1, flags=re.DOTALL), "utf-8")
        assert block(page, language) == text, f"{page.name} differs: run with --update-golden and read the diff"

    return compare


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Each step of the pages' program as text, without the lines of its source."""
    names: dict[str, object] = {"torch": torch}
    exec(block(PASSES / "README.md", "python"), names)
    steps = run_passes(record(names["f"], names["args"]).graph, Options())
    return {step.name: print_graph(step.graph, lines=False) for step in steps}


@pytest.mark.parametrize("step", STEPS)
def test_a_page_shows_the_graph_that_the_pass_makes(step, texts, shows):
    shows(PASSES / f"{'README' if step == 'trace' else step}.md", f"ir {step}", texts[step])
    assert print_graph(parse(texts[step])) == texts[step]


def test_every_step_has_a_page_and_every_page_a_step(texts):
    assert tuple(texts) == STEPS
    assert {page.stem for page in PASSES.glob("*.md")} == {"README", *STEPS} - {"trace"}


def test_every_reason_stands_on_one_page():
    rows = re.compile(r"^\| `([a-z-]+)` \| [^|]* \|$", re.MULTILINE)  # two columns; options have three
    listed = [name for step in STEPS[1:] for name in rows.findall((PASSES / f"{step}.md").read_text("utf-8"))]
    assert sorted(listed) == sorted(SENTENCES)


def test_the_example_of_the_text_is_a_graph(shows):
    page = ROOT / "docs" / "text.md"
    shows(page, "ir", print_graph(parse(block(page, "ir"))))


def test_the_readmes_example_prints_what_the_readme_shows(tmp_path, shows):
    (tmp_path / "example.py").write_text(block(ROOT / "README.md", "python"), "utf-8")
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, env=here, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    shows(ROOT / "README.md", "text", done.stdout)
    assert (tmp_path / "f.svg").read_text("utf-8").startswith("<")
