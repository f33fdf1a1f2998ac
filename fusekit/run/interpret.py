"""The slow reference: a graph of any stage, run op by op with torch, without code generation.

Meanings come from torch alone, never from fusekit's op tables: what passes and kernels do can be held against it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import assert_never

import torch

from fusekit.errors import FusekitError
from fusekit.ids import NodeId
from fusekit.index import ZERO, loop_vars
from fusekit.ir import Graph, Number, core
from fusekit.run.bounds import check_index
from fusekit.run.decode import Leaves, Scalar, caller, names_of
from fusekit.run.grids import gather, holds
from fusekit.run.lines import Lines
from fusekit.run.memory import Blocks, Memory, Place, is_read, place_of, settle_all
from fusekit.run.outputs import Ending, finish
from fusekit.torch_types import TO_TORCH


def interpret(
    graph: Graph,
    tensors: Sequence[torch.Tensor],
    numbers: Sequence[Scalar] = (),
    leaves: Leaves = (),
    program: Graph | None = None,
) -> list[object]:
    """Run a graph on real tensors, one for each result of ``fk.input``; they are mutated as the program says.

    ``numbers`` are the graph's parameters (default: those recorded), ``leaves`` what its symbols mean
    (decode.symbols), ``program`` the recorded graph that this one was made from. Returns the output leaves. Raises
    LayoutMismatch where torch answers with other tensors than the graph says.
    """
    numbers = tuple(numbers) or tuple(number.example for number in graph.numbers())
    run = Run(graph, tensors, numbers, leaves, program=program)
    for op in graph.ops():
        run.step(op)
    return run.finish(program)


class Run:
    """One run of a graph: memory for its places, torch tensors for its values.

    ``step`` in program order, then ``finish``.
    """

    def __init__(
        self,
        graph: Graph,
        tensors: Sequence[torch.Tensor],
        numbers: Sequence[Scalar],
        leaves: Leaves,
        memory: Memory | None = None,
        program: Graph | None = None,
    ):
        self.graph, self.numbers, self.leaves = graph, numbers, leaves
        self.memory = memory or Memory(Blocks.of(graph), tensors, numbers)
        self.blocks, self._lines = self.memory.blocks, Lines(graph, program)
        self.values: dict[NodeId, torch.Tensor] = {}
        self._places: dict[NodeId, Place] = {}

    def step(self, op: NodeId) -> None:
        """Run one op; its pure results are then in ``values``, its other effects in ``memory``."""
        match self.graph.what(op):
            case core.Input() | core.Return():
                pass
            case core.Load():
                self._define(op, self._operands(op)[0].clone(memory_format=torch.contiguous_format))
            case core.Store():
                _store(*self._operands(op))
            case core.CheckIndex() as what:
                check_index(self._operands(op)[0], what)
            case core.Call() as what:
                if any(self.graph.is_value(result) for result in self.graph.results(op)):
                    self._define(op, self._pointwise(op, what))
                else:
                    self._call(op, what)
            case what:
                self._define(op, self._value(op, what))

    def finish(self, program: Graph | None = None) -> list[object]:
        """The output leaves; arguments get their new metadata and version bumps."""
        return finish(Ending.of(self.graph, self.blocks, program), self.memory, self.leaves)

    def tensor(self, node: NodeId) -> torch.Tensor:
        """A value as it was computed, or a place as it is now."""
        if self.graph.is_value(node):
            return self.values[node]
        return self.memory.tensor(self._place(node))

    def _place(self, node: NodeId) -> Place:
        if node not in self._places:
            self._places[node] = place_of(self.graph, self.blocks.number, node, self._lines)
        return self._places[node]

    def _operands(self, op: NodeId) -> list[torch.Tensor]:
        return [self.tensor(node) for node in self.graph.operands(op)]

    def _define(self, op: NodeId, value: torch.Tensor) -> None:
        (result,) = self.graph.results(op)
        expected = self.graph.tensor(result)
        if tuple(value.shape) != expected.shape or value.dtype != TO_TORCH[expected.dtype]:
            raise FusekitError(f"{self.graph.op(op).target} gave {value.dtype}{list(value.shape)}, not {expected}", op)
        self.values[result] = value

    def _pointwise(self, op: NodeId, what: core.Call) -> torch.Tensor:
        """A functional overload on values; its result counts as the recorded dtype and shape."""
        (result,) = self.graph.results(op)
        expected = self.graph.tensor(result)
        value = caller(what)(self._operands(op), self.numbers, self.leaves)
        assert isinstance(value, torch.Tensor)
        value = value.to(TO_TORCH[expected.dtype])
        return value if tuple(value.shape) == expected.shape else value.expand(expected.shape)

    def _call(self, op: NodeId, what: core.Call) -> None:
        """An exact overload on places: fresh results bring their storage, all others must be where the graph says."""
        operands, results = self.graph.operands(op), self.graph.results(op)
        made = {node: self.tensor(node) for node in operands}  # an object that comes twice is one object
        out = caller(what)([made[node] for node in operands], self.numbers, self.leaves)
        read = [is_read(self.graph, node) for node in results]
        settle_all(self.memory, [self._place(node) for node in results], read, out, f"{op} {what.target}")

    def _value(self, op: NodeId, what: core.Made) -> torch.Tensor:
        """A value by its definition. Where that is a matter of indices alone, it is the one that the compiler reads."""
        (result,) = self.graph.results(op)
        operands, shape, dtype = (
            self._operands(op),
            self.graph.tensor(result).shape,
            TO_TORCH[self.graph.tensor(result).dtype],
        )
        match what:
            case core.Window() | core.Overlay():
                return self._read(what, operands, shape)
            case core.Fill(value):
                return torch.empty(shape, dtype=dtype).fill_(self._number(value))
            case core.Iota(start, step):
                return _iota(self._number(start), self._number(step), shape[0], dtype)
            case core.Cast():
                return operands[0].to(dtype)
            case core.Bits():
                return operands[0].contiguous().view(dtype)
            case core.Reduce():
                return _reduce(what, operands[0], shape, dtype)
            case core.Take(dim):
                return operands[0].index_select(dim, operands[1].reshape(-1)).reshape(shape)
            case core.Gather(dim):
                return torch.gather(operands[0], dim, operands[1].long())
            case never:
                assert_never(never)

    def _read(self, what: core.Window | core.Overlay, operands: list[torch.Tensor], shape: core.Shape) -> torch.Tensor:
        """Each operand where the op reads it; the last one over the first where its guards hold."""
        names = names_of(self.numbers)
        shapes = [tuple(t.shape) for t in operands]
        *outside, inside = core.reads(what, loop_vars(shape), shape, shapes, lambda dim: ZERO)
        found = gather(operands[inside.operand], inside.index, shape, names)
        if not outside:
            return found
        base = operands[0].expand(shape)
        return torch.where(holds(inside.where, shape, names).to(base.device), found, base) if base.numel() else base

    def _number(self, value: core.Scalar) -> Scalar:
        return self.numbers[value.index] if isinstance(value, Number) else value


def _store(value: torch.Tensor, place: torch.Tensor) -> None:
    for k, (size, stride) in enumerate(zip(place.shape, place.stride(), strict=True)):
        if size > 1 and stride == 0:  # every element of this dimension is the same byte: write it once
            value, place = value.narrow(k, 0, 1), place.narrow(k, 0, 1)
    place.copy_(value)


def _iota(start: Scalar, step: Scalar, count: int, dtype: torch.dtype) -> torch.Tensor:
    """``start + step * i``, as torch.arange rounds it."""
    assert isinstance(start, int | float) and isinstance(step, int | float)
    if not dtype.is_floating_point:
        return (torch.arange(count) * int(step) + int(start)).to(dtype)
    return (
        torch.arange(start, start + step * (count - 0.5), step, dtype=dtype) if count else torch.empty(0, dtype=dtype)
    )


_REDUCTIONS: dict[core.Folding, Callable[..., torch.Tensor]] = {
    "sum": torch.sum,
    "prod": torch.prod,
    "max": torch.amax,
    "min": torch.amin,
    "any": torch.any,
    "all": torch.all,
    "argmax": torch.argmax,
    "argmin": torch.argmin,
}


def _reduce(what: core.Reduce, source: torch.Tensor, shape: core.Shape, dtype: torch.dtype) -> torch.Tensor:
    """Over the dimensions as one row, in row-major order: what arg-reductions count in."""
    dims = what.dims
    count = math.prod(source.shape[d] for d in dims)
    rows = source.movedim(dims, tuple(range(-len(dims), 0))).reshape(*shape, count)
    options = {"dtype": dtype} if what.kind in ("sum", "prod") else {}
    return _REDUCTIONS[what.kind](rows, -1, **options)
