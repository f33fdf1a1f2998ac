"""Writes the functional program: values, loads, stores and library calls in the order in which they run."""

from __future__ import annotations

from collections.abc import Sequence

from fusekit.ids import NodeId
from fusekit.ir import (
    Draft,
    Graph,
    Invariant,
    Layout,
    Op,
    PassResult,
    Tensor,
    core,
)
from fusekit.memory import meets, ranges_meet
from fusekit.passes.base import is_view
from fusekit.passes.decompositions import DECOMPOSITIONS
from fusekit.passes.lookups import Check
from fusekit.passes.order import Access, Orders
from fusekit.passes.values import Contents, Loaded, Value
from fusekit.passes.versions import Flush, Store
from fusekit.why import Reason


class Emitter:
    """Receives flushes and library calls in program order. Values are written when something first needs them."""

    def __init__(self, graph: Graph, by: str, exact: bool = True):
        self.graph = graph
        self.draft = Draft.rewrite(graph, by)
        self._order = Orders(self.draft, meets if exact else ranges_meet)
        self._nodes: dict[int, NodeId] = {}  # value number -> tensor
        self._places: dict[tuple[NodeId, Layout], NodeId] = {}
        self._named: dict[NodeId, NodeId] = {}  # program tensor -> its place
        self._epochs: dict[NodeId, int] = {}
        self._flushes = 0
        self._at = _first_at(graph)
        self._views = self._output_views()
        self._wanted = frozenset((*graph.inputs(), *map(self._root, graph.outputs()), *self._views))
        for block in graph.blocks():
            self.draft.add_block(graph.block(block), id=block)
        for op in graph.ops():
            if isinstance(graph.what(op), core.Input):
                self.draft.add_op(graph.op(op), (), [self._place(t) for t in graph.results(op)], id=op)

    # ---- places

    def _output_views(self) -> dict[NodeId, NodeId]:
        """Outputs that are views, and the views that they are taken from, each with its op."""
        found: dict[NodeId, NodeId] = {}
        todo = [self._root(t) for t in self.graph.outputs()]
        while todo:
            tensor = todo.pop()
            if tensor not in found and self.graph.has_producer(tensor):
                op = self.graph.producer(tensor)
                if is_view(self.graph, op):
                    found.update(dict.fromkeys(self.graph.results(op), op))
                    todo += [self._root(t) for t in self.graph.operands(op)]
        return found

    def _root(self, tensor: NodeId) -> NodeId:
        """The first node of the same Python object: an in-place result is its operand, unless the layout changed."""
        while self.graph.has_producer(tensor):
            op = self.graph.producer(tensor)
            same = dict(self.graph.op(op).same)
            operand = same.get(self.graph.results(op).index(tensor))
            if operand is None:
                break
            first = self.graph.operands(op)[operand]
            if self.graph.layout(first) != self.graph.layout(tensor):
                break
            tensor = first
        return tensor

    def _place(self, tensor: NodeId) -> NodeId:
        """The program's tensor as a place of the new graph."""
        if (found := self._named.get(tensor)) is not None:
            return found
        lives, block = self.graph.lives(tensor), self.graph.block_of(tensor)
        assert lives is not None and block is not None, tensor
        name = tensor if tensor not in self.draft else f"{tensor}.mem"  # a value may have taken it
        payload = self.graph.tensor(tensor)
        node = self.draft.add_tensor(payload, id=name, block=block, layout=lives.layout, role=lives.role)
        self._places.setdefault((block, lives.layout), node)
        self._named[tensor] = node
        self._view(tensor)
        return node

    def _view(self, tensor: NodeId) -> None:
        """An output's view op stays, so that the picture shows what it is rebuilt from; it launches nothing."""
        if tensor not in self._views or self._views[tensor] in self.draft:
            return
        op = self._views[tensor]
        results = self.graph.results(op)
        for t in results:
            self._views.pop(t, None)
        bases = [self._place(self._root(t)) for t in self.graph.operands(op)]
        self.draft.add_op(self.graph.op(op), bases, [self._place(t) for t in results], id=op)

    def _place_of(self, block: NodeId, layout: Layout) -> NodeId:
        """A place with this layout: one that the program names, else a new one."""
        found = self._places.get((block, layout))
        if found is None:
            if named := self._at.get((block, layout)):
                return self._place(named)
            first = next((t for (home, _), t in self._at.items() if home == block), f"%{block[1:]}")
            tensor = Tensor(layout.dtype, layout.shape)
            found = self.draft.add_tensor(tensor, id=f"{first}.part", block=block, layout=layout, role="alias")
            self._places[block, layout] = found
        return found

    # ---- what happens, in order

    def flush(self, flush: Flush) -> None:
        """Values that the stores need, then the stores, then the epochs step."""
        self._flushes += 1
        for store in flush.stores:
            self._value(store.value)
        written: list[tuple[NodeId, Store]] = []
        for store in flush.stores:
            place = self._place_of(store.block, store.region)
            op = Op(core.Store(self._flushes, str(flush.reason)))
            node = self.draft.add_op(op, (self._value(store.value), place), id="^store", because=flush.reason)
            self._order.follow(node, store.block, store.region, write=True)
            written.append((node, store))
        for block, dying in flush.taken_along:
            stores = tuple(node for node, s in written if s.block == block)
            self.draft.note(stores or (block,), Reason.of("taken-along", block=dying))
        for block in flush.epochs:
            self._epochs[block] = self._epochs.get(block, 0) + 1
        for node, store in written:
            self._order.wrote(node, store.block, store.region)

    def extern(self, op: NodeId, because: Reason) -> None:
        """A library call on real memory; the flush of what it touches came just before."""
        graph, payload = self.graph, self.graph.op(op)
        operands = [self._place(self._root(t)) for t in graph.operands(op)]  # the object: eager looks at its storage
        results = [self._place(t) for t in graph.results(op)]
        self.draft.add_op(payload, operands, results, id=op, because=because)
        homes = [self._home(t) for t in graph.operands(op)]
        for k, (block, layout) in enumerate(homes):
            self._order.follow(op, block, layout, write=k in payload.writes)
        for k, (block, layout) in enumerate(homes):
            if k in payload.writes:
                self._order.wrote(op, block, layout)
            else:
                self._order.read(op, block, layout)
        for block, layout in map(self._home, graph.results(op)):
            if all(block != home for home, _ in homes):
                self._order.made(op, block, layout)

    def check(self, check: Check, op: NodeId) -> None:
        """A look at the indices in real memory, which raises what ``op`` raises in eager."""
        place = self._place(check.index)
        payload = Op(check.what, self.graph.op(op).origin)
        node = self.draft.add_op(payload, (place,), (), id="^check", because=Reason.of("check-index", op=op))
        block, layout = self._home(check.index)
        self._order.follow(node, block, layout, write=False)
        self._order.read(node, block, layout)

    def finish(self, invariants: Sequence[Invariant]) -> PassResult:
        """The return, on the places of the outputs."""
        for op in self.graph.ops():
            if isinstance(self.graph.what(op), core.Return):
                outputs = [self._place(self._root(t)) for t in self.graph.operands(op)]
                self.draft.add_op(self.graph.op(op), outputs, (), id=op)
        return self.draft.finish(invariants)

    # ---- values

    def _value(self, value: Value) -> NodeId:
        """The tensor of a value; written with everything below it where that is new (a stack: chains are long)."""
        todo = [value]
        while todo:
            v = todo[-1]
            if v.number in self._nodes:
                todo.pop()
                continue
            missing = [o for o in v.operands if o.number not in self._nodes]
            if missing:
                todo += reversed(missing)
                continue
            todo.pop()
            self._nodes[v.number] = self._write(v)
        return self._nodes[value.number]

    def _write(self, v: Value) -> NodeId:
        if isinstance(v.what, Contents):
            return self._load(v, v.what)
        assert not isinstance(v.what, Loaded), "a graph's own loads are not written anew"
        operands = [self._nodes[o.number] for o in v.operands]
        line = self.graph.op(v.of).origin if v.of is not None else None
        return self._made(v, Op(v.what, line), operands)

    def _load(self, v: Value, of: Contents) -> NodeId:
        block, epoch, layout = of.block, of.epoch, of.layout
        assert epoch == self._epochs.get(block, 0), f"a stale read of {block}: epoch {epoch} is gone"
        place = self._place_of(block, layout)
        tensor = self.draft.add_tensor(Tensor(v.dtype, v.shape), id=f"{place}.in")
        node = self.draft.add_op(Op(core.Load()), (place,), (tensor,), id="^load")
        self._order.follow(node, block, layout, write=False)
        self._order.read(node, block, layout)
        return tensor

    def _made(self, v: Value, op: Op, operands: list[NodeId]) -> NodeId:
        name = op.target.split(".")[1]
        wanted = f"%{name}" if f"%{name}" not in self._wanted else f"%{name}.v"
        whole = v.of is not None and isinstance(v.what, core.Call) and not _is_part(self.graph.op(v.of).target)
        if v.of is not None and whole:
            results = self.graph.results(v.of)
            if results and results[0] not in self._wanted and results[0] not in self.draft:
                wanted = results[0]
        tensor = self.draft.add_tensor(Tensor(v.dtype, v.shape), id=wanted)
        keeps = whole and v.of not in self.draft
        self.draft.add_op(op, operands, (tensor,), id=v.of if keeps else f"^{name}")
        return tensor

    def _home(self, tensor: NodeId) -> Access:
        block = self.graph.block_of(tensor)
        assert block is not None, tensor
        return block, self.graph.layout(tensor)


def _first_at(graph: Graph) -> dict[Access, NodeId]:
    """The first program tensor of each layout of each block."""
    found: dict[Access, NodeId] = {}
    for tensor in graph.tensors():
        if (block := graph.block_of(tensor)) is not None:
            found.setdefault((block, graph.layout(tensor)), tensor)
    return found


def _is_part(target: str) -> bool:
    """Are the values of this op of the program only parts of it, so that none takes its name?"""
    return target.removeprefix("aten.") in DECOMPOSITIONS
