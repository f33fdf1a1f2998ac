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
from dataclasses import dataclass
from typing import ClassVar

from fusekit.ids import NodeId
from fusekit.index import loop_vars
from fusekit.ir import FUNCTIONAL, Graph, Invariant, Layout, Op, Operand, PassResult, Tensor
from fusekit.memory import Kind, algebra, relate
from fusekit.passes import cost
from fusekit.passes.base import is_view
from fusekit.passes.rewrite import STORE, Rewriter
from fusekit.passes.spaces import merged_index
from fusekit.passes.values import WINDOW, Value, value_index
from fusekit.why import Reason


@dataclass(frozen=True)
class OutputAliases:
    """The pass."""

    name: ClassVar[str] = "output-aliases"
    expects: ClassVar[tuple[Invariant, ...]] = FUNCTIONAL
    ensures: ClassVar[tuple[Invariant, ...]] = FUNCTIONAL

    def __call__(self, graph: Graph) -> PassResult:
        work = _Aliases(graph, Rewriter(graph, self.name))
        work.note_views()
        for stores in _last_stores(graph).values():
            work.block(stores)
        work.through_views()
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

    def note_views(self) -> None:
        """Outputs that are views of memory which nothing in the program stores as a whole: arguments and results of
        library calls."""
        for tensor in dict.fromkeys(self.graph.outputs()):
            *_, base = self._up(tensor)
            block = self.graph.block_of(tensor)
            if base == tensor or block is None:
                continue
            kind = self.graph.block(block).kind
            if kind != "fresh":
                self.rewriter.draft.note((tensor,), Reason.of("view-of-argument", base=base, kind=kind), (base,))

    def block(self, stores: list[NodeId]) -> None:
        """All stores of the program's end to one block that it makes."""
        found = [self._base(store) for store in stores]
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

    def _base(self, store: NodeId) -> _Base:
        """The walk up from one output."""
        value, place = self.rewriter.value(self.graph.operands(store)[0]), self._place(store)
        best = _Base(store, place, value)
        for parent in self._up(place):
            if parent == place:
                continue
            if self._is_needed(best.value):
                self.rewriter.draft.decline((place,), Reason.of("needed-through-view", shape=str(list(best.value.shape))))
                break
            relation = relate(self.graph.layout(parent), self.graph.layout(place))
            if relation.kind is not Kind.INSIDE:
                break  # a part of it: the whole has a store of its own
            payload = self.graph.tensor(parent)
            above = self.rewriter.values.window(value, relation.index, payload.shape)
            above = self.rewriter.values.bits(above, payload.dtype)
            if _weight(above) > _weight(best.value):
                self.rewriter.draft.decline((place,), Reason.of("base-is-no-simpler", base=parent), (parent,))
                break
            best = _Base(store, parent, above)
        return best

    def _is_needed(self, value: Value) -> bool:
        """Does a computation need a view in its own shape?"""
        return value.kind == WINDOW and any(self.graph.op(op).target != STORE for op in self.rewriter.users(value))

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

    # ---- a base that the program has no name for

    def through_views(self) -> None:
        """Stores of a reshape that only merges: what it merges is stored, and the output is a view of that."""
        outputs = frozenset(self.graph.outputs())
        for store in self.graph.ops():
            if self.graph.op(store).target == STORE and store in self.rewriter.draft:
                self._split(store, outputs)

    def _split(self, store: NodeId, outputs: frozenset[NodeId]) -> None:
        value, place = self.rewriter.value(self.graph.operands(store)[0]), self._place(store)
        layout = self.graph.layout(place)
        if value.kind != WINDOW or value.shape != layout.shape:
            return
        inner = value.operands[0]
        if value_index(value) != merged_index(inner.shape, value.shape):
            return
        if any(op != store for op in self.rewriter.users(value)):
            self.rewriter.draft.decline((place,), Reason.of("needed-through-view", shape=str(list(value.shape))))
            return
        split = algebra.reshape(layout, inner.shape)
        if isinstance(split, Reason):
            self.rewriter.draft.decline((place,), split)
            return
        base = self._add_place(place, split)
        self.rewriter.store(store, inner, base)
        self.rewriter.draft.note((place,), Reason.of("stored-in-base", base=base), (base,))
        if place in outputs and not self.graph.has_producer(place):
            view = Op("aten.view.default", (Operand(0), value.shape), origin=self.graph.op(value.of).origin if value.of else None)
            self.rewriter.draft.add_op(view, (base,), (place,), id="^view")

    def _add_place(self, place: NodeId, layout: Layout) -> NodeId:
        block = self.graph.block_of(place)
        payload = Tensor(layout.dtype, layout.shape)
        return self.rewriter.draft.add_tensor(payload, id=f"{place}.base", block=block, layout=layout, role="new")


def _weight(value: Value) -> int:
    """What the index of a view costs."""
    return sum(map(cost.heaviness, value_index(value))) if value.kind == WINDOW else 0


def _last_stores(graph: Graph) -> dict[NodeId, list[NodeId]]:
    """The stores of each block that the program makes, by block: those of its last flush."""
    stores = [op for op in graph.ops() if graph.op(op).target == STORE]
    last = max((flush for op in stores if isinstance(flush := graph.op(op).kwarg("flush"), int)), default=None)
    found: dict[NodeId, list[NodeId]] = {}
    for op in stores:
        block = graph.block_of(graph.operands(op)[1])
        if block is not None and graph.block(block).kind == "fresh" and graph.op(op).kwarg("flush") == last:
            found.setdefault(block, []).append(op)
    return found


__all__ = ["OutputAliases", "loop_vars"]
