"""Passes by users: a plain function from a graph to a PassResult, or a small class, beside ours.

What it makes is held against the invariants that it declares (``ensures``), else against those of the stage that it was
given. An error inside it names the pass and the user's line::

    def squares(graph):
        draft = graph.draft("squares")
        for op in graph.ops():
            ...  # draft.replace(op, ..., because=fk.Reason.say("x**2 is x*x"))
        return draft.finish()

    fk.explore(f, x, options=fk.Options(passes=[*fk.PIPELINE[:2], squares, *fk.PIPELINE[2:]]))
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from fusekit.errors import FusekitError, InvalidGraph
from fusekit.ir import Graph, Invariant, PassResult
from fusekit.ir.invariants import VALUES, broken
from fusekit.passes.base import Pass

PACKAGE = str(Path(__file__).parents[1])
Body = Callable[[Graph], PassResult]


@dataclass(frozen=True)
class UserPass:
    """A function, or an object that can be called, as a pass; ``ensures`` is empty where it declares nothing."""

    name: str
    body: Body
    expects: tuple[Invariant, ...] = ()
    ensures: tuple[Invariant, ...] = ()

    def __call__(self, graph: Graph) -> PassResult:
        """Raises FusekitError that names the pass and its line, for whatever goes wrong inside."""
        try:
            made = cast("object", self.body(graph))
        except FusekitError as error:
            where = error.where or _line_of(error)
            raise type(error)(f"the pass {self.name} failed: {error.what}", where, error.fix) from error
        except Exception as error:
            kind = type(error).__name__
            raise FusekitError(f"the pass {self.name} failed: {kind}: {error}", _line_of(error)) from error
        if not isinstance(made, PassResult):
            fix = "end it with: return draft.finish()"
            raise FusekitError(f"the pass {self.name} gave {made!r:.60}, not a PassResult", self._where(), fix)
        return made

    def check(self, graph: Graph, before: tuple[Invariant, ...]) -> tuple[Invariant, ...]:
        """What holds of the graph that it made: what it ensures, else what held ``before``. Raises InvalidGraph for
        a graph that breaks that, or what kernels rely on."""
        held = self.ensures or before
        if problem := broken(graph, dict.fromkeys((VALUES[0], *held, *VALUES))):
            name, node, what = problem
            what = f"the pass {self.name} broke {name}: {node} {what}"
            raise InvalidGraph(what, self._where() or node, "what held of the graph before must hold after it")
        return held

    def _where(self) -> str | None:
        code = getattr(self.body, "__code__", None) or getattr(type(self.body).__call__, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None


def as_pass(one: object) -> Pass | None:
    """A pass as the pipeline runs it; None for what is none: no call, or no name to be had."""
    if type(one).__module__.partition(".")[0] == "fusekit":
        return cast(Pass, one) if callable(one) and hasattr(one, "name") else None
    name = getattr(one, "name", None) or str(getattr(one, "__name__", "")).replace("_", "-").strip("-")
    if not callable(one) or isinstance(one, type) or not name or name == "<lambda>":
        return None
    declared = cast(
        "tuple[tuple[Invariant, ...], ...]", tuple(tuple(getattr(one, k, ())) for k in ("expects", "ensures"))
    )
    return cast(Pass, UserPass(str(name), cast(Body, one), *declared))


def _line_of(error: Exception) -> str | None:
    """The innermost line outside of this package."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(PACKAGE)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
