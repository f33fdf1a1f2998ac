"""The slow reference: a graph of any stage, run op by op with torch, without code generation.

Meanings come from torch alone, never from fusekit's op tables: what passes and kernels do can be held against it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from fusekit.errors import FusekitError
from fusekit.ids import NodeId
from fusekit.index import Form
from fusekit.ir import Graph, Guard, Op
from fusekit.run.bounds import check_index
from fusekit.run.decode import Leaves, Scalar, caller, is_ours, names_of, reader
from fusekit.run.grids import gather, holds
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
        self.graph, self.numbers, self.leaves, self.program = graph, numbers, leaves, program
        self.memory = memory or Memory(Blocks.of(graph), tensors, numbers)
        self.blocks = self.memory.blocks
        self.values: dict[NodeId, torch.Tensor] = {}
        self._places: dict[NodeId, Place] = {}

    def step(self, op: NodeId) -> None:
        """Run one op; its pure results are then in ``values``, its other effects in ``memory``."""
        payload = self.graph.op(op)
        if payload.target in ("fk.input", "fk.return"):
            return
        if payload.target in ("fk.load", "fk.store"):
            self._move(op)
        elif payload.target == "fk.check_index":
            check_index(self._operands(op)[0], payload)
        elif is_ours(payload.target):
            self._define(op, _ours(payload.target)(self, op, payload))
        elif any(self.graph.is_value(result) for result in self.graph.results(op)):
            self._define(op, self._pointwise(op, payload))
        else:
            self._call(op, payload)

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
            self._places[node] = place_of(self.graph, self.blocks.number, node, self.program)
        return self._places[node]

    def _operands(self, op: NodeId) -> list[torch.Tensor]:
        return [self.tensor(node) for node in self.graph.operands(op)]

    def _define(self, op: NodeId, value: torch.Tensor) -> None:
        (result,) = self.graph.results(op)
        expected = self.graph.tensor(result)
        if tuple(value.shape) != expected.shape or value.dtype != TO_TORCH[expected.dtype]:
            raise FusekitError(f"{self.graph.op(op).target} gave {value.dtype}{list(value.shape)}, not {expected}", op)
        self.values[result] = value

    def _move(self, op: NodeId) -> None:
        operands = self._operands(op)
        if self.graph.op(op).target == "fk.load":
            self._define(op, operands[0].clone(memory_format=torch.contiguous_format))
            return
        value, place = operands
        for k, (size, stride) in enumerate(zip(place.shape, place.stride(), strict=True)):
            if size > 1 and stride == 0:  # every element of this dimension is the same byte: write it once
                value, place = value.narrow(k, 0, 1), place.narrow(k, 0, 1)
        place.copy_(value)

    def _pointwise(self, op: NodeId, payload: Op) -> torch.Tensor:
        """A functional overload on values; its result counts as the recorded dtype and shape."""
        (result,) = self.graph.results(op)
        expected = self.graph.tensor(result)
        value = caller(payload)(self._operands(op), self.numbers, self.leaves)
        assert isinstance(value, torch.Tensor)
        value = value.to(TO_TORCH[expected.dtype])
        return value if tuple(value.shape) == expected.shape else value.expand(expected.shape)

    def _call(self, op: NodeId, payload: Op) -> None:
        """An exact overload on places: fresh results bring their storage, all others must be where the graph says."""
        operands, results = self.graph.operands(op), self.graph.results(op)
        made = {node: self.tensor(node) for node in operands}  # an object that comes twice is one object
        out = caller(payload)([made[node] for node in operands], self.numbers, self.leaves)
        read = [is_read(self.graph, node) for node in results]
        settle_all(self.memory, [self._place(node) for node in results], read, out, f"{op} {payload.target}")


def _window(run: Run, op: NodeId, payload: Op) -> torch.Tensor:
    (source,) = run._operands(op)
    return gather(source, _forms(payload, "index"), _shape(run, op), names_of(run.numbers))


def _overlay(run: Run, op: NodeId, payload: Op) -> torch.Tensor:
    base, value = run._operands(op)
    names, shape = names_of(run.numbers), _shape(run, op)
    guards = payload.kwarg("where", ())
    assert isinstance(guards, tuple) and all(isinstance(guard, Guard) for guard in guards)
    mask = holds(guards, shape, names).to(base.device)
    if base.numel() == 0:
        return base.expand(shape)
    return torch.where(mask, gather(value, _forms(payload, "index"), shape, names), base.expand(shape))


def _fill(run: Run, op: NodeId, payload: Op) -> torch.Tensor:
    value = reader(payload.kwarg("value"))((), run.numbers, run.leaves)
    return torch.empty(_shape(run, op), dtype=_dtype(run, op)).fill_(value)  # type: ignore[arg-type]


def _iota(run: Run, op: NodeId, payload: Op) -> torch.Tensor:
    """``start + step * i``, as torch.arange rounds it."""
    start, step = (
        reader(payload.kwarg(name, default))((), run.numbers, run.leaves)
        for name, default in (("start", 0), ("step", 1))
    )
    (count,), dtype = _shape(run, op), _dtype(run, op)
    assert isinstance(start, int | float) and isinstance(step, int | float)
    if not dtype.is_floating_point:
        return (torch.arange(count) * int(step) + int(start)).to(dtype)
    return (
        torch.arange(start, start + step * (count - 0.5), step, dtype=dtype) if count else torch.empty(0, dtype=dtype)
    )


def _cast(run: Run, op: NodeId, payload: Op) -> torch.Tensor:
    return run._operands(op)[0].to(_dtype(run, op))


def _bits(run: Run, op: NodeId, payload: Op) -> torch.Tensor:
    return run._operands(op)[0].contiguous().view(_dtype(run, op))


_REDUCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "sum": torch.sum,
    "prod": torch.prod,
    "max": torch.amax,
    "min": torch.amin,
    "any": torch.any,
    "all": torch.all,
    "argmax": torch.argmax,
    "argmin": torch.argmin,
}


def _reduce(run: Run, op: NodeId, payload: Op) -> torch.Tensor:
    """Over the dimensions as one row, in row-major order: what arg-reductions count in."""
    (source,), dims, kind = run._operands(op), payload.kwarg("dims"), payload.kwarg("kind")
    assert isinstance(dims, tuple) and isinstance(kind, str)
    count = math.prod(source.shape[d] for d in dims)
    rows = source.movedim(dims, tuple(range(-len(dims), 0))).reshape(*_shape(run, op), count)
    options = {"dtype": _dtype(run, op)} if kind in ("sum", "prod") else {}
    return _REDUCTIONS[kind](rows, -1, **options)


def _take(run: Run, op: NodeId, payload: Op) -> torch.Tensor:
    (source, index), dim = run._operands(op), payload.kwarg("dim")
    assert isinstance(dim, int)
    return source.index_select(dim, index.reshape(-1)).reshape(_shape(run, op))


def _gather(run: Run, op: NodeId, payload: Op) -> torch.Tensor:
    (source, index), dim = run._operands(op), payload.kwarg("dim")
    assert isinstance(dim, int)
    return torch.gather(source, dim, index.long())


def _identity(run: Run, op: NodeId, payload: Op) -> torch.Tensor:
    return run._operands(op)[0]


def _shape(run: Run, op: NodeId) -> tuple[int, ...]:
    return run.graph.tensor(run.graph.results(op)[0]).shape


def _dtype(run: Run, op: NodeId) -> torch.dtype:
    return TO_TORCH[run.graph.tensor(run.graph.results(op)[0]).dtype]


def _forms(payload: Op, name: str) -> tuple[Form, ...]:
    forms = payload.kwarg(name, ())
    assert isinstance(forms, tuple)
    return tuple(Form.of(form) for form in forms)


_OURS: dict[str, Callable[[Run, NodeId, Op], torch.Tensor]] = {
    "fk.window": _window,
    "fk.overlay": _overlay,
    "fk.fill": _fill,
    "fk.iota": _iota,
    "fk.cast": _cast,
    "fk.bits": _bits,
    "fk.reduce": _reduce,
    "fk.take": _take,
    "fk.gather": _gather,
    "fk.cut": _identity,
}


def _ours(target: str) -> Callable[[Run, NodeId, Op], torch.Tensor]:
    try:
        return _OURS[target]
    except KeyError:
        raise FusekitError(f"the interpreter does not know {target}") from None
