"""tidy: ops that undo or repeat one another go, and ops on one tensor go in front of what repeats its elements.

Every rewrite keeps the bits that eager gives: a cast goes only where the type between holds every value, a negation
only in pairs. Broadcasts, squeezes and permutes have become one index already. Before and after::

    ^1 %neg = aten.neg.default(%x.in)
    ^2 %neg.1 = aten.neg.default(%neg)          ->     ^3 %sin = aten.sin.default(%x.in)
    ^3 %sin = aten.sin.default(%neg.1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fusekit.ids import NodeId
from fusekit.ir import FUNCTIONAL, Graph, Invariant, PassResult, core
from fusekit.passes.base import is_value_op
from fusekit.passes.rewrite import Rewriter
from fusekit.passes.simpler import RULES
from fusekit.passes.values import InMemory, Value
from fusekit.why import Reason

MOST = 16  # rewrites of one op


@dataclass(frozen=True)
class Tidy:
    """The pass."""

    name: ClassVar[str] = "tidy"
    expects: ClassVar[tuple[Invariant, ...]] = FUNCTIONAL
    ensures: ClassVar[tuple[Invariant, ...]] = FUNCTIONAL

    def __call__(self, graph: Graph) -> PassResult:
        work = _Tidy(Rewriter(graph, self.name))
        for op in graph.ops():
            if is_value_op(graph, op):
                work.step(op)
            elif isinstance(graph.what(op), core.Store):
                work.rewriter.rewire(op, 0, work.now[graph.operands(op)[0]])
        work.rewriter.draft.sweep()
        return work.rewriter.draft.finish(self.ensures)


class _Tidy:
    """One run of the pass: every value op once, in order, on what its operands have become."""

    def __init__(self, rewriter: Rewriter):
        self.rewriter, self.graph = rewriter, rewriter.graph
        self.now: dict[NodeId, Value] = {}

    def step(self, op: NodeId) -> None:
        (result,) = self.graph.results(op)
        values, old = self.rewriter.values, self.rewriter.value(result)
        if isinstance(old.what, InMemory):
            self.now[result] = old
            return
        values.current = op
        operands = tuple(self.now[t] for t in self.graph.operands(op))
        new = values.raw(old.what, operands, old.shape, old.dtype)
        if self.rewriter.node(new) not in (None, result):
            self.rewriter.draft.note((op,), Reason.of("computed-already", op=str(self.rewriter.node(new))))
        for _ in range(MOST):
            found = next((found for rule in RULES if (found := rule(self.rewriter, new)) is not None), None)
            if found is None or found[0] is new:
                break
            new, reason = found
            self.rewriter.draft.note((op,), reason)
        self.now[result] = new
        self._write(op, result, old, new, operands)

    def _write(self, op: NodeId, result: NodeId, old: Value, new: Value, operands: tuple[Value, ...]) -> None:
        """The op makes the new value; where another does already, it is left for the sweep."""
        if self.rewriter.node(new) is None:
            self.rewriter.turn(old, new, result)
        elif new is old:
            for k, operand in enumerate(operands):
                self.rewriter.rewire(op, k, operand)
