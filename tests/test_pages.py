"""The pages of the passes say what is true now: the texts of their example, and the reasons that can be given."""

import re

import pytest
import torch

from fusekit.ir import parse, print_graph
from fusekit.pipeline import Options, run_passes
from fusekit.trace import record
from fusekit.why.reasons import SENTENCES
from tests.conftest import ROOT

PAGES = {path.stem: path.read_text("utf-8") for path in sorted((ROOT / "docs" / "passes").glob("*.md"))}
STEPS = ("trace", "alias-groups", "functionalize", "segment")


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Each step of the pages' program as text, without the lines of its source."""
    program = re.search(r"```python\n(.*?)```", PAGES["README"], re.DOTALL)
    assert program
    names: dict[str, object] = {"torch": torch}
    exec(program[1], names)
    steps = run_passes(record(names["f"], names["args"]).graph, Options())
    return {step.name: print_graph(step.graph, lines=False).strip() for step in steps}


@pytest.mark.parametrize("step", STEPS)
def test_a_page_shows_the_graph_that_the_pass_makes(step, texts):
    page = "README" if step == "trace" else step
    shown = re.search(rf"```ir {step}\n(.*?)```", PAGES[page], re.DOTALL)
    assert shown, f"docs/passes/{page}.md has no block of {step}"
    assert shown[1].strip() == texts[step], f"docs/passes/{page}.md should show\n{texts[step]}"
    assert print_graph(parse(texts[step])).strip() == texts[step]


def test_every_step_has_a_page_and_every_page_a_step(texts):
    assert tuple(texts) == STEPS
    assert set(PAGES) == {"README", *STEPS} - {"trace"}


def test_every_reason_stands_on_one_page():
    listed = [
        name for text in PAGES.values() for name in re.findall(r"^\| `([a-z-]+)` \| (?!\d|none)", text, re.MULTILINE)
    ]
    assert sorted(set(listed) - {"trace"}) == sorted(SENTENCES)
    assert len(listed) == len(set(listed))


def test_the_example_of_the_text_is_a_graph():
    text = re.search(r"```ir\n(.*?)```", (ROOT / "docs" / "text.md").read_text("utf-8"), re.DOTALL)
    assert text
    assert print_graph(parse(text[1])) == text[1]
