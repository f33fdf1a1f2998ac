"""What a rule of ``functionalize`` takes and gives: one op of the program, and writes of values to parts of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fusekit.ids import NodeId
from fusekit.ir import Graph, Layout, Op, Operand
from fusekit.passes.base import argument
from fusekit.passes.values import Value, Values

Make = Callable[[Values, Sequence[Value], Layout], Value]


@dataclass(frozen=True)
class Write:
    """``region`` of ``block`` gets ``make(values, reads, region)``, cast to its dtype and broadcast to its shape."""

    block: NodeId
    region: Layout
    reads: tuple[NodeId, ...]
    make: Make


@dataclass(frozen=True)
class Call:
    """One op of the program with what a rule asks of it."""

    graph: Graph
    id: NodeId
    op: Op
    operands: tuple[NodeId, ...]
    results: tuple[NodeId, ...]

    def arg(self, position: int, name: str, default: object = None) -> object:
        return argument(self.op, position, name, default)

    def tensor(self, position: int, name: str = "") -> NodeId | None:
        value = self.arg(position, name)
        return self.operands[value.position] if isinstance(value, Operand) else None

    def layout(self, tensor: NodeId) -> Layout:
        return self.graph.layout(tensor)

    def block(self, tensor: NodeId) -> NodeId:
        block = self.graph.block_of(tensor)
        assert block is not None, tensor
        return block

    def result(self, make: Make, *reads: NodeId, region: Layout | None = None) -> Write:
        """A write of the first result, or of a part of it."""
        out = self.results[0]
        return Write(self.block(out), region or self.layout(out), reads, make)


Rule = Callable[[Call], "tuple[Write, ...] | None"]
