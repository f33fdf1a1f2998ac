"""Golden texts: for each pass one file of titled cases, each a program and what the pass makes of it.

``pytest tests/passes/test_golden.py --update-golden`` writes what the passes give now; its diff is for review.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from fusekit.ir import parse, print_graph
from fusekit.passes import PIPELINE, Pass

FOLDER = Path(__file__).parent / "golden"
PASSES: dict[str, Pass] = {p.name: p for p in PIPELINE}


@dataclass(frozen=True)
class Case:
    title: str
    given: str
    expected: str


def read(path: Path) -> list[Case]:
    """Cases start with ``### title``; ``---`` parts the program from the result."""
    cases = []
    for part in path.read_text().split("### ")[1:]:
        title, _, body = part.partition("\n")
        given, _, expected = body.partition("---\n")
        cases.append(Case(title, given, expected))
    return cases


def result(name: str, case: Case) -> str:
    made = PASSES[name](parse(case.given))
    return print_graph(made.graph, made.explanations)


@pytest.mark.parametrize("name", list(PASSES))
def test_golden(name: str, request: pytest.FixtureRequest) -> None:
    path = FOLDER / f"{name}.ir"
    cases = read(path)
    assert cases
    if request.config.getoption("--update-golden"):
        parts = [f"### {c.title}\n{c.given}---\n{result(name, c)}\n" for c in cases]
        path.write_text("".join(parts))
        return
    for case in cases:
        assert result(name, case) == case.expected.rstrip("\n") + "\n", case.title


@pytest.mark.parametrize("name", list(PASSES))
def test_passes_are_pure(name: str) -> None:
    """The same text in, the same text out, twice; and the graph that went in prints as before."""
    for case in read(FOLDER / f"{name}.ir"):
        graph = parse(case.given)
        before = print_graph(graph)
        first, second = PASSES[name](graph), PASSES[name](graph)
        assert print_graph(first.graph, first.explanations) == print_graph(second.graph, second.explanations)
        assert print_graph(graph) == before


def test_every_pass_has_a_golden_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.ir")} == set(PASSES)
