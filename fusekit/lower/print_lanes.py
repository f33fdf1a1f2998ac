"""Statements over vectors as functions of one lane: a run of them becomes one function, which ``each_lane`` applies.

Runs that differ in names only share their function: unrolled copies compile once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.lower.expressions import Literal, Name, Parameter
from fusekit.lower.printing import Line
from fusekit.lower.program import Accumulate, Assign, Finish, Statement, Test

_WORD = re.compile(r"[A-Za-z_]\w*")
Text = tuple[str, tuple[NodeId, ...]]


def is_lanewise(statement: Statement) -> bool:
    """Is it computed lane by lane from names? (A literal or a copied scalar is not: it is only repeated.)"""
    match statement:
        case Assign(value=value, lanes=lanes):
            return lanes and not isinstance(value, Literal | Parameter | Name)
        case Accumulate(lanes=lanes) | Finish(lanes=lanes) | Test(lanes=lanes):
            return lanes
        case _:
            return False


@dataclass(frozen=True)
class Run:
    """Lines of one lane in order; ``inputs`` are read before they are made, ``outputs`` are needed afterwards."""

    lines: tuple[Text, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ops: tuple[NodeId, ...]

    def spelled(self) -> tuple[object, ...]:
        """The run with names replaced by their numbers, without the comments."""
        number: dict[str, str] = {}
        for name in (*self.inputs, *(_target(text) for text, _ in self.lines)):
            for part in name.split(", "):
                number.setdefault(part, f"_{len(number)}")

        def renamed(text: str) -> str:
            return _WORD.sub(lambda found: number.get(found[0], found[0]), text.split("  # ")[0])

        lines = tuple(renamed(text) for text, _ in self.lines)
        return lines, tuple(map(renamed, self.inputs)), tuple(map(renamed, self.outputs))


def _target(text: str) -> str:
    return text.partition(" = ")[0]


@dataclass
class Functions:
    """The functions of one lane of a module, each once."""

    graph: Graph
    fresh: Callable[[str], str]
    lines: list[Line] = field(default_factory=list[Line])
    _known: dict[tuple[object, ...], str] = field(default_factory=dict[tuple[object, ...], str])

    def name_of(self, run: Run) -> str:
        """The function of a run; written where it is new."""
        key = run.spelled()
        if key not in self._known:
            name = self._known[key] = self.fresh("_".join(["lane", *self._words(run.ops)]))
            self.add([(f"def {name}({', '.join(run.inputs)}):", ())])
            self.lines += [(f"    {text}", ops) for text, ops in run.lines]
            self.lines.append((f"    return {', '.join(run.outputs)}", ()))
        return self._known[key]

    def add(self, lines: Iterable[Line]) -> None:
        """Lines of one more function."""
        self.lines += [("", ()), ("", ())]
        self.lines += lines

    def _words(self, ops: Sequence[NodeId]) -> list[str]:
        """The first few ops of the run."""
        targets = dict.fromkeys(self.graph.op(op).target for op in ops)
        return list(dict.fromkeys(target.split(".")[1].strip("_") for target in targets))[:3]
