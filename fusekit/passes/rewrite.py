"""Rewrites of a functional graph: its ops as values, new values written among them, what nothing needs removed."""

from __future__ import annotations

from dataclasses import replace

from fusekit.ids import NodeId
from fusekit.ir import Graph, Tensor
from fusekit.passes.base import is_value_op
from fusekit.passes.core_ops import op_of, value_of
from fusekit.passes.values import Value, Values
from fusekit.why import Reason

STORE = "fk.store"


class Rewriter:
    """One run of a pass. ``values`` has the value of every op that makes one; ``tensor`` writes what is new."""

    def __init__(self, graph: Graph, by: str):
        self.graph, self.draft = graph, graph.draft(by)
        self.values = Values()
        self._value: dict[NodeId, Value] = {}
        self._tensor: dict[int, NodeId] = {}
        self._place: dict[NodeId, int] = {}  # tensor -> where in the order of ops it is made
        for op in graph.ops():
            if is_value_op(graph, op):
                (result,) = graph.results(op)
                value = value_of(self.values, graph, op, tuple(self._value[t] for t in graph.operands(op) if t in self))
                self._value[result] = value
                self._tensor.setdefault(value.number, result)
                self._place[result] = graph.position(op)

    def __contains__(self, tensor: object) -> bool:
        return tensor in self._value

    def value(self, tensor: NodeId) -> Value:
        return self._value[tensor]

    def node(self, value: Value) -> NodeId | None:
        """The tensor that has this value already."""
        return self._tensor.get(value.number)

    def users(self, value: Value) -> tuple[NodeId, ...]:
        """Ops of the graph as it came that take the value."""
        node = self.node(value)
        return self.graph.users(node) if node is not None and node in self.graph else ()

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
        name = v.kind if v.kind.startswith("fk.") else op_of(v).target
        name = name.split(".")[1]
        line = self.graph.op(v.of).origin if v.of is not None and v.of in self.graph else None
        tensor = self.draft.add_tensor(Tensor(v.dtype, v.shape), id=f"%{name}")
        self.draft.add_op(replace(op_of(v), origin=line), operands, (tensor,), id=f"^{name}", before=before)
        self._tensor.setdefault(v.number, tensor)
        self._value[tensor] = v
        self._place.setdefault(tensor, limit - 1)
        return tensor

    def turn(self, old: Value, new: Value) -> None:
        """The op of ``old``, which nothing needs any more, makes ``new`` instead: it keeps its id and its place."""
        node = self._tensor[old.number]
        op = self.graph.producer(node)
        for k, operand in enumerate(new.operands):
            self.draft.rewire(op, k, self.tensor(operand, op))
        self.draft.replace(op, replace(op_of(new), origin=self.graph.op(op).origin))
        self.draft.replace(node, replace(self.graph.tensor(node), dtype=new.dtype, shape=new.shape))
        self._value[node] = new
        self._tensor.setdefault(new.number, node)

    def store(self, op: NodeId, value: Value, place: NodeId | None = None, *, because: Reason | None = None) -> None:
        """Another value, or another place, for a store."""
        self.draft.rewire(op, 0, self.tensor(value, op))
        if place is not None:
            self.draft.rewire(op, 1, place)
        if because is not None:
            self.draft.note((op,), because)
