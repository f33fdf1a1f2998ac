"""sink-reshapes: a reshape that merges moves below what is computed after it, down to the store, which then needs none.

``op(view(t), w)`` is ``view(op(t, view(w)))``. Where the inverse of the reshape only splits dimensions, the second form
computes over the space of ``t``, reads every other operand through a split of its own dimensions, which costs nothing,
and stores through a split of the place's layout, which every layout has. A group norm written with views and then
weight, bias and SiLU in the viewed-back shape so runs over one space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from fusekit.ids import NodeId
from fusekit.index import Form, Var
from fusekit.ir import FUNCTIONAL, Graph, Invariant, Layout, Op, Operand, PassResult, Tensor, core
from fusekit.memory import algebra
from fusekit.passes.rewrite import Rewriter
from fusekit.passes.spaces import Groups, groups, merged_index, split_index, split_shape
from fusekit.passes.values import InMemory, Value
from fusekit.why import Reason


@dataclass(frozen=True)
class SinkReshapes:
    """The pass."""

    name: ClassVar[str] = "sink-reshapes"
    expects: ClassVar[tuple[Invariant, ...]] = FUNCTIONAL
    ensures: ClassVar[tuple[Invariant, ...]] = FUNCTIONAL

    def __call__(self, graph: Graph) -> PassResult:
        work = _Sink(graph, Rewriter(graph, self.name))
        for store in graph.ops():
            if isinstance(graph.what(store), core.Store) and store not in work.done:
                work.store(store)
        work.rewriter.draft.sweep()
        return work.rewriter.draft.finish(self.ensures)


@dataclass
class _Cone:
    """What stores over one space compute in it: pointwise values and the views that they begin with."""

    stores: dict[NodeId, None]
    values: dict[int, Value]
    reshapes: list[Value]

    @staticmethod
    def of(store: NodeId, value: Value) -> _Cone:
        cone = _Cone({store: None}, {}, [])
        cone.add(value)
        return cone

    def add(self, value: Value) -> None:
        todo = [value]
        while todo:
            v = todo.pop()
            if v.number not in self.values:
                self.values[v.number] = v
                if isinstance(v.what, core.Elementwise):
                    todo += v.operands
                elif isinstance(v.what, core.Window) and v.shape == value.shape and _divisions(v):
                    self.reshapes.append(v)


@dataclass
class _Sink:
    """One run of the pass."""

    graph: Graph
    rewriter: Rewriter
    done: set[NodeId] = field(default_factory=set[NodeId])

    def store(self, store: NodeId) -> None:
        """The reshape that the store's value begins with, brought down to the store, with all stores that share it."""
        cone = _Cone.of(store, self.rewriter.value(self.graph.operands(store)[0]))
        self.done.add(store)
        shape = self._shape(store)
        target = next((v for v in cone.reshapes if self._merges(v)), None)
        if target is None:
            return
        outside = self._close(cone, shape)
        self.done.update(cone.stores)
        if outside is not None:
            because = Reason.of("needed-in-its-shape", op=self.graph.op(outside).target, shape=str(list(shape)))
            self.rewriter.draft.decline((store,), because, (outside,))
            return
        found = groups(shape, target.operands[0].shape)
        assert found is not None
        respaced = _Respaced(self.rewriter, found)
        values = {s: respaced(self.rewriter.value(self.graph.operands(s)[0])) for s in cone.stores}
        if respaced.costs:
            because = Reason.of("sink-divides", operand=respaced.costs, shape=str(list(target.operands[0].shape)))
            self.rewriter.draft.decline((store,), because)
            return
        computed = [v for v in cone.values.values() if isinstance(v.what, core.Elementwise)]
        for v in sorted(computed, key=lambda v: v.number):
            self.rewriter.turn(v, respaced(v))
        for one, value in values.items():
            self._sink(one, value, target)

    def _merges(self, view: Value) -> bool:
        merged = merged_index(view.operands[0].shape, view.shape)
        return merged is not None and view.what == core.Window(merged)

    def _close(self, cone: _Cone, shape: tuple[int, ...]) -> NodeId | None:
        """Take in every store that needs a value of the cone; what else needs one, if anything does."""
        todo = list(cone.values.values())
        while todo:
            value = todo.pop()
            if not isinstance(value.what, core.Elementwise) and value not in cone.reshapes:
                continue
            for op in self.rewriter.users(value):
                if isinstance(self.graph.what(op), core.Store):
                    cone.stores[op] = None
                    continue
                (result,) = self.graph.results(op)
                made = self.rewriter.value(result)
                if made.number in cone.values:
                    continue
                if not isinstance(made.what, core.Elementwise) or made.shape != shape:
                    return op
                before = len(cone.values)
                cone.add(made)
                todo += list(cone.values.values())[before:]
        return next((s for s in cone.stores if self._shape(s) != shape), None)

    def _shape(self, store: NodeId) -> tuple[int, ...]:
        return self.graph.layout(self.graph.operands(store)[1]).shape

    def _sink(self, store: NodeId, value: Value, target: Value) -> None:
        """The store of ``value`` through a split of its place; an output is rebuilt as a view of that."""
        place = self.graph.operands(store)[1]
        split = algebra.reshape(self.graph.layout(place), value.shape)
        assert isinstance(split, Layout), split
        block, draft = self.graph.block_of(place), self.rewriter.draft
        payload = Tensor(split.dtype, split.shape)
        base = draft.add_tensor(payload, id=f"{place}.base", block=block, layout=split, role="new")
        because = Reason.of("reshape-sunk", shape=str(list(value.shape)))
        self.rewriter.store(store, value, base, because=because)
        early = any(self.graph.position(op) < self.graph.position(store) for op in self.graph.users(place))
        if place in self.graph.outputs() and not early and not self.graph.has_producer(place):
            line = self.graph.op(target.of).origin if target.of is not None else None
            view = Op(core.Call("aten.view.default", (Operand(0), target.shape)), line)
            after = self.graph.ops()[self.graph.position(store) + 1]
            draft.add_op(view, (base,), (place,), id="^view", before=after)


class _Respaced:
    """Values over the space of groups instead of the space that these split."""

    def __init__(self, rewriter: Rewriter, found: Groups):
        self.rewriter, self.groups = rewriter, found
        self.costs = ""  # an operand whose index would need a division that it did not need before
        self._made: dict[int, Value] = {}

    def __call__(self, value: Value) -> Value:
        todo = [value]
        while todo:
            v = todo[-1]
            missing = [o for o in v.operands if isinstance(v.what, core.Elementwise) and o.number not in self._made]
            if missing and v.number not in self._made:
                todo += missing
                continue
            todo.pop()
            if v.number not in self._made:
                self._made[v.number] = self._make(v)
        return self._made[value.number]

    def _make(self, v: Value) -> Value:
        values, own = self.rewriter.values, self.groups[len(self.groups) - len(v.shape) :]
        shape = split_shape(own, v.shape)
        values.current = v.of
        operands = [self._made[o.number] for o in v.operands if o.number in self._made]
        if isinstance(v.what, core.Elementwise):
            return values.raw(v.what, tuple(operands), shape, v.dtype)
        if isinstance(v.what, core.Fill):
            return values.fill(v.what.value, shape, v.dtype)
        made = self._load(v, shape) if isinstance(v.what, InMemory) else None
        made = made or values.window(v, split_index(own, v.shape), shape)
        if _divisions(made) > _divisions(v):
            self.costs = str(self.rewriter.node(v))
        return made

    def _load(self, v: Value, shape: Sequence[int]) -> Value | None:
        """The same bytes, loaded in this shape."""
        block, layout = self.rewriter.loaded(v)
        split = algebra.reshape(layout, shape)
        if isinstance(split, Reason) or block is None or v.of is None:
            return None
        return self.rewriter.same_load(block, split, (v.of,))


def _divisions(value: Value) -> int:
    """Floor divisions and remainders in the index of a view."""
    return sum(map(_parts, value.what.index)) if isinstance(value.what, core.Window) else 0


def _parts(form: Form) -> int:
    return sum(0 if isinstance(atom, Var) else 1 + _parts(atom.of) for atom, _ in form.terms)
