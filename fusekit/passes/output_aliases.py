"""output-aliases: an output that is only a view is never computed: its base is stored once, and the view is rebuilt.

From each store of an output one walks up the views that it is taken through, to the first tensor that is no view, or
that some other computation needs in just that shape; there the program is cut, once for all outputs on the same bytes.
Layouts are free until here: a base that nobody sees gets the layout that makes the output what eager gives. Before and
after, for ``y = (x + 1).view(-1)``::

    ^window %view.v = fk.window(%add.v, …)            ^store = fk.store(%add.v, %add)
    ^store = fk.store(%view.v, %view)           ->    ^2 %view = aten.view.default(%add, [-1])
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from fusekit.ids import NodeId
from fusekit.ir import FUNCTIONAL, Graph, Invariant, PassResult, core
from fusekit.memory import Kind, relate
from fusekit.passes import cost
from fusekit.passes.base import is_view
from fusekit.passes.rewrite import Rewriter
from fusekit.passes.values import Value
from fusekit.why import Reason


@dataclass(frozen=True)
class OutputAliases:
    """The pass."""

    name: ClassVar[str] = "output-aliases"
    expects: ClassVar[tuple[Invariant, ...]] = FUNCTIONAL
    ensures: ClassVar[tuple[Invariant, ...]] = FUNCTIONAL

    def __call__(self, graph: Graph) -> PassResult:
        work = _Aliases(graph, Rewriter(graph, self.name))
        for stores in _last_stores(graph).values():
            work.block(stores)
        work.note_views()
        work.rewriter.draft.sweep()
        return work.rewriter.draft.finish(self.ensures)


@dataclass(frozen=True)
class _Base:
    """Where the elements of a store are better put: a place, or only its layout, and the value over its space."""

    store: NodeId
    place: NodeId
    value: Value


@dataclass
class _Aliases:
    """One run of the pass."""

    graph: Graph
    rewriter: Rewriter
    stored: set[NodeId] = field(default_factory=set[NodeId])  # places that had a store

    def note_views(self) -> None:
        """Outputs that are views and never had a store of their own."""
        for tensor in dict.fromkeys(self.graph.outputs()):
            *_, base = self._up(tensor)
            block = self.graph.block_of(tensor)
            if base == tensor or tensor in self.stored or block is None:
                continue
            name = "stored-in-base" if self.graph.block(block).kind == "fresh" else "view-of-argument"
            self.rewriter.draft.note((tensor,), Reason.of(name, base=base), (base,))

    def block(self, stores: list[NodeId]) -> None:
        """All stores of the program's end to one block that it makes."""
        self.stored.update(map(self._place, stores))
        found = [self._base(store, stores) for store in stores]
        kept: list[_Base] = []
        for base in sorted(found, key=lambda b: self._rank(b.place)):
            home = next((k for k in kept if self._holds(k.place, base.place)), None)
            if home is None:
                kept.append(base)
                continue
            place = self._place(base.store)
            self.rewriter.draft.remove(base.store)
            if place != home.place:
                self.rewriter.draft.note((place,), Reason.of("stored-in-base", base=home.place), (home.place,))
        for base in kept:
            place = self._place(base.store)
            if base.place != place:
                self.rewriter.store(base.store, base.value, base.place)
                self.rewriter.draft.note((place,), Reason.of("stored-in-base", base=base.place), (base.place,))

    def _base(self, store: NodeId, group: list[NodeId]) -> _Base:
        """The walk up from one output."""
        value, place = self.rewriter.value(self.graph.operands(store)[0]), self._place(store)
        best = last = _Base(store, place, value)
        for parent in self._up(place):
            if parent == place:
                continue
            if self._is_needed(last.value, group):
                shape = str(list(last.value.shape))
                self.rewriter.draft.decline((place,), Reason.of("needed-through-view", shape=shape))
                break
            relation = relate(self.graph.layout(parent), self.graph.layout(place))
            if relation.kind is not Kind.INSIDE:
                break  # the output is a part of it: the whole has a store of its own
            payload = self.graph.tensor(parent)
            above = self.rewriter.values.window(value, relation.index, payload.shape)
            last = _Base(store, parent, self.rewriter.values.bits(above, payload.dtype))
            if _weight(last.value) <= _weight(best.value):
                best = last
        if last.place != best.place:
            self.rewriter.draft.decline((place,), Reason.of("base-is-no-simpler", base=last.place), (last.place,))
        return best

    def _is_needed(self, value: Value, group: list[NodeId]) -> bool:
        """Does anything but the stores of this block need a view in its own shape?"""
        return isinstance(value.what, core.Window) and not set(self.rewriter.users(value)) <= set(group)

    def _up(self, tensor: NodeId) -> Iterator[NodeId]:
        """The tensor, what it is a view of, and so on."""
        yield tensor
        while self.graph.has_producer(tensor) and is_view(self.graph, self.graph.producer(tensor)):
            tensor = self.graph.operands(self.graph.producer(tensor))[0]
            yield tensor

    def _rank(self, place: NodeId) -> tuple[int, int]:
        """Larger places first, then those with fewer views above."""
        return -self.graph.layout(place).numel, sum(1 for _ in self._up(place))

    def _holds(self, place: NodeId, other: NodeId) -> bool:
        if place == other:
            return True
        return relate(self.graph.layout(other), self.graph.layout(place)).kind is Kind.INSIDE

    def _place(self, store: NodeId) -> NodeId:
        return self.graph.operands(store)[1]


def _weight(value: Value) -> int:
    """What the index of a view costs."""
    return sum(map(cost.heaviness, value.what.index)) if isinstance(value.what, core.Window) else 0


def _last_stores(graph: Graph) -> dict[NodeId, list[NodeId]]:
    """The stores of each block that the program makes, by block: those of its last flush."""
    flushes = {op: what.flush for op in graph.ops() if isinstance(what := graph.op(op).what, core.Store)}
    last = max((flush for flush in flushes.values() if flush is not None), default=None)
    found: dict[NodeId, list[NodeId]] = {}
    for op, flush in flushes.items():
        block = graph.block_of(graph.operands(op)[1])
        if block is not None and graph.block(block).kind == "fresh" and flush == last:
            found.setdefault(block, []).append(op)
    return found
