"""Rewrites of a functional graph: its ops as values, new values written among them, what nothing needs removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusekit.dtypes import DType
from fusekit.ids import NodeId
from fusekit.index import Form, loop_vars
from fusekit.ir import Graph, Layout, Op, Origin, Tensor, core
from fusekit.passes.base import is_value_op
from fusekit.passes.values import InMemory, Loaded, Value, Values
from fusekit.why import Reason


class Rewriter:
    """One run of a pass. ``values`` has the value of every op that makes one; ``tensor`` writes what is new."""

    def __init__(self, graph: Graph, by: str):
        self.graph, self.draft = graph, graph.draft(by)
        self.values = Values()
        self._value: dict[NodeId, Value] = {}
        self._tensor: dict[int, NodeId] = {}
        self._same: dict[int, list[NodeId]] = {}  # tensors of the graph as it came, by value
        self._loads: dict[NodeId, tuple[NodeId | None, Layout]] = {}  # new ones
        self._place: dict[NodeId, int] = {}  # tensor -> where in the order of ops it is made
        for op in graph.ops():
            if is_value_op(graph, op):
                (result,) = graph.results(op)
                value = self._value_of(op, result)
                self._value[result] = value
                self._tensor.setdefault(value.number, result)
                self._same.setdefault(value.number, []).append(result)
                self._place[result] = graph.position(op)

    def _value_of(self, op: NodeId, result: NodeId) -> Value:
        """What an op makes, just as it stands there; a load is known by its id."""
        what, made = self.graph.op(op).what, self.graph.tensor(result)
        operands = tuple(self._value[t] for t in self.graph.operands(op) if t in self)
        self.values.current = op
        if isinstance(what, core.Load):
            return self.values.raw(Loaded(op), operands, made.shape, made.dtype)
        assert not isinstance(what, core.Effect), f"{op} makes no value"
        return self.values.raw(what, operands, made.shape, made.dtype)

    def __contains__(self, tensor: object) -> bool:
        return tensor in self._value

    def value(self, tensor: NodeId) -> Value:
        return self._value[tensor]

    def node(self, value: Value) -> NodeId | None:
        """The tensor that has this value already."""
        return self._tensor.get(value.number)

    def users(self, value: Value) -> tuple[NodeId, ...]:
        """Ops of the graph as it came that take the value."""
        return tuple(op for node in self._same.get(value.number, ()) for op in self.graph.users(node))

    def loaded(self, load: Value) -> tuple[NodeId | None, Layout]:
        """(block, layout) of a load."""
        assert load.of is not None
        if load.of in self._loads:
            return self._loads[load.of]
        (place,) = self.graph.operands(load.of)
        return self.graph.block_of(place), self.graph.layout(place)

    def load(self, address: Form, like: Value, parts: Sequence[Value]) -> Value | None:
        """A load with the shape and dtype of ``like`` whose element at ``i`` begins at ``address(i)``, in place of the
        loads ``parts``; None where no layout has these addresses, or memory changes between the parts."""
        block, whole = self.loaded(parts[0])[0], layout_at(address, like.shape, like.dtype)
        ops = [part.of for part in parts if part.of is not None and part.of in self.graph]
        if len(ops) != len(parts):
            return None
        if whole is None or block is None or is_written_between(self.graph, block, ops):
            return None
        if (found := self.same_load(block, whole, ops)) is not None:
            return found
        last = max(ops, key=self.graph.position)
        after = self.graph.ops()[self.graph.position(last) + 1]
        place = self.draft.add_tensor(Tensor(like.dtype, like.shape), id="%whole", block=block, layout=whole)
        made = self.draft.add_tensor(Tensor(like.dtype, like.shape), id=f"{place}.in")
        op = self.draft.add_op(Op(core.Load()), (place,), (made,), id="^load", before=after)
        for first, then, ordering in self.graph.orderings():
            if first in ops:
                self.draft.order(op, then, ordering)
            elif then in ops:
                self.draft.order(first, op, ordering)
        self.values.current, current = op, self.values.current
        value = self.values.raw(Loaded(op), (), like.shape, like.dtype)
        self.values.current, self._loads[op] = current, (block, whole)
        self._value[made], self._tensor[value.number] = value, made
        self._place[made] = self.graph.position(last)
        return value

    def same_load(self, block: NodeId, layout: Layout, ops: Sequence[NodeId]) -> Value | None:
        """A load of the graph of this layout that comes no later than the loads ``ops`` and sees the same memory."""
        for op in self.graph.ops()[: max(map(self.graph.position, ops)) + 1]:
            if isinstance(self.graph.op(op).what, core.Load):
                (place,) = self.graph.operands(op)
                is_same = self.graph.block_of(place) == block and self.graph.layout(place) == layout
                if is_same and not is_written_between(self.graph, block, (*ops, op)):
                    return self._value[self.graph.results(op)[0]]
        return None

    def tensor(self, value: Value, before: NodeId) -> NodeId:
        """The tensor of a value, made in front of the op ``before`` with everything below it that is not there yet."""
        limit = self.graph.position(before)
        todo, made = [value], dict[int, NodeId]()
        while todo:
            v = todo[-1]
            if v.number in made:
                todo.pop()
                continue
            found = self._tensor.get(v.number)
            if found is not None and self._place[found] < limit:
                made[v.number] = found
                continue
            missing = [o for o in v.operands if o.number not in made]
            if missing:
                todo += reversed(missing)
                continue
            made[v.number] = self._write(v, [made[o.number] for o in v.operands], before, limit)
        return made[value.number]

    def _write(self, v: Value, operands: list[NodeId], before: NodeId, limit: int) -> NodeId:
        name = op_of(v).target.split(".")[1]
        line = self.graph.op(v.of).origin if v.of is not None and v.of in self.graph else None
        tensor = self.draft.add_tensor(Tensor(v.dtype, v.shape), id=f"%{name}")
        self.draft.add_op(op_of(v, line), operands, (tensor,), id=f"^{name}", before=before)
        self._tensor.setdefault(v.number, tensor)
        self._value[tensor] = v
        self._place.setdefault(tensor, limit - 1)
        return tensor

    def turn(self, old: Value, new: Value, node: NodeId | None = None) -> None:
        """The ops of ``old``, which nothing needs any more, make ``new`` instead: they keep their ids and places.

        ``node``: only the op of this tensor.
        """
        for one in self._same[old.number] if node is None else (node,):
            op = self.graph.producer(one)
            self.draft.set_operands(op, [self.tensor(operand, op) for operand in new.operands])
            self.draft.replace(op, op_of(new, self.graph.op(op).origin))
            self.draft.replace(one, replace(self.graph.tensor(one), dtype=new.dtype, shape=new.shape))
            self._value[one] = new
            if self._tensor.get(old.number) == one:
                del self._tensor[old.number]
            self._tensor.setdefault(new.number, one)
            self._place[one] = self.graph.position(op)

    def rewire(self, op: NodeId, operand: int, value: Value) -> None:
        """The tensor of ``value`` as an operand of an op, where it is another one."""
        tensor = self.tensor(value, op)
        if tensor != self.graph.operands(op)[operand]:
            self.draft.rewire(op, operand, tensor)

    def store(self, op: NodeId, value: Value, place: NodeId | None = None, *, because: Reason | None = None) -> None:
        """Another value, or another place, for a store."""
        self.draft.rewire(op, 0, self.tensor(value, op))
        if place is not None:
            self.draft.rewire(op, 1, place)
        if because is not None:
            self.draft.note((op,), because)


def op_of(value: Value, origin: Origin | None = None) -> Op:
    """The op that makes a value of its operands."""
    assert not isinstance(value.what, InMemory), f"{value} is loaded, not made"
    return Op(value.what, origin)


def layout_at(address: Form, shape: Sequence[int], dtype: DType) -> Layout | None:
    """The layout of this shape whose addresses are a form over its loop variables; None where they are not even."""
    steps = dict(address.terms)
    variables = [form.terms[0][0] if form.terms else None for form in loop_vars(tuple(shape))]
    if any(atom not in variables for atom in steps):
        return None
    strides = tuple(steps.get(var, dtype.width) if var is not None else dtype.width for var in variables)
    strides = tuple(0 if var is not None and var not in steps else s for var, s in zip(variables, strides, strict=True))
    return Layout(Form.of(address.const), tuple(shape), strides, dtype)


def is_written_between(graph: Graph, block: NodeId | None, ops: Sequence[NodeId]) -> bool:
    """Does anything write the block between the first and the last of the ops?"""
    places = sorted(map(graph.position, ops))
    for op in graph.ops()[places[0] : places[-1]]:
        if any(graph.block_of(graph.operands(op)[w]) == block for w in graph.op(op).writes):
            return True
    return False
