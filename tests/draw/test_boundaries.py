"""Every boundary of every picture, and of the text, tells why it is there."""

from __future__ import annotations

import html
import re

import pytest
import torch

import fusekit as fk
from fusekit.programs import PROGRAMS, PROGRAMS_REAL, SMALL

TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)


@pytest.mark.parametrize("program", [*PROGRAMS, *PROGRAMS_REAL], ids=lambda p: p.name)
def test_a_boundary_shows_its_reason(program) -> None:
    x = fk.explore(program.fn, *program.make(SMALL, torch.float32))
    for step in (s.name for s in x.steps if s.graph.boundaries()):
        graph = x[step].graph
        titles = [html.unescape(found) for found in TITLE.findall(x.diagram(step=step, view="segments").svg)]
        text = x.text(step)
        for first, then, tensor, _ in graph.boundaries():
            said = [e for e in x.why(first, then) if e.verdict == "did"]
            assert said, (first, then)
            mine = [t for t in titles if f"{tensor} crosses" in t and any(str(e.reason) in t for e in said)]
            assert mine, f"{program.name} {step}: no tooltip for {tensor} from {first} to {then}"
            assert re.search(rf"segment: \{first} \{then} did [a-z-]+\(", text), (first, then)


def stored_for_a_call(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = a.exp()
    return y @ w + y


def test_a_picture_names_blocks_by_letter_and_leaves_the_remedy_to_the_tooltip() -> None:
    x = fk.explore(stored_for_a_call, torch.rand(33, 33), torch.rand(33, 33))
    picture = x.diagram("segment").svg
    words = " ".join(re.findall(r"<text[^>]*>(.*?)</text>", picture))
    assert "must be written before it is read" in words and not re.search(r"@\d", words)
    assert "a kernel in place of" not in words and "a kernel in place of" in picture
