"""Values of the functional stage while they are being built: interned, so that every memo can key on identity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from fusekit.dtypes import BOOL, I64, DType
from fusekit.ids import NodeId
from fusekit.index import Form, loop_vars, put
from fusekit.ir import Guard, Layout, core, exact

_IDENTITY = {"sum": 0, "prod": 1, "any": 0, "all": 1}  # what a reduction of nothing is

Index = tuple[Form, ...]
Reads = frozenset[tuple[NodeId, int]]


@dataclass(frozen=True, slots=True)
class Contents:
    """The real memory of ``block`` as it is at ``epoch``, through ``layout``."""

    block: NodeId
    epoch: int
    layout: Layout


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the load ``op`` of a graph gives."""

    op: NodeId


InMemory = Contents | Loaded
_MAPS = core.Window | core.Overlay | core.Reduce | core.Take | core.Gather


@dataclass(eq=False, slots=True)
class Value:
    """One pure value over its shape. ``what`` makes it of its operands.

    ``reads``: the (block, epoch) pairs whose real memory it still reads. ``maps``: does any map other than identity or
    broadcast stand below it? ``of``: the program op that it comes from, for its id and line.
    """

    number: int
    what: core.Pure | InMemory
    operands: tuple[Value, ...]
    shape: tuple[int, ...]
    dtype: DType
    reads: Reads
    maps: bool
    of: NodeId | None

    @property
    def numel(self) -> int:
        return prod(self.shape)

    def __repr__(self) -> str:
        return f"<{self.what} {self.number} {self.dtype}{list(self.shape)}>"


class Values:
    """The table of all values of one run of the pass."""

    def __init__(self) -> None:
        self._table: dict[object, Value] = {}
        self.current: NodeId | None = None

    def __len__(self) -> int:
        return len(self._table)

    def _make(
        self,
        what: core.Pure | InMemory,
        operands: tuple[Value, ...],
        shape: Sequence[int],
        dtype: DType,
        reads: Reads = frozenset(),
    ) -> Value:
        key = (exact(what), tuple(v.number for v in operands), tuple(shape), dtype)
        found = self._table.get(key)
        if found is None:
            below = reads.union(*(v.reads for v in operands)) if operands else reads
            maps = isinstance(what, _MAPS) or any(v.maps for v in operands)
            found = Value(len(self._table), what, operands, tuple(shape), dtype, below, maps, self.current)
            self._table[key] = found
        return found

    def raw(self, what: core.Pure | InMemory, operands: tuple[Value, ...], shape: Sequence[int], dtype: DType) -> Value:
        """The value of an op that is there already: nothing is simplified."""
        return self._make(what, operands, shape, dtype)

    def load(self, block: NodeId, epoch: int, layout: Layout) -> Value:
        """The real memory of a block as it is at ``epoch``."""
        return self._make(Contents(block, epoch, layout), (), layout.shape, layout.dtype, frozenset({(block, epoch)}))

    def fill(self, number: core.Scalar, shape: Sequence[int], dtype: DType) -> Value:
        return self._make(core.Fill(number), (), shape, dtype)

    def iota(self, start: core.Scalar, step: core.Scalar, size: int, dtype: DType) -> Value:
        return self._make(core.Iota(start, step), (), (size,), dtype)

    def apply(
        self,
        target: str,
        args: tuple[object, ...],
        kwargs: tuple[tuple[str, object], ...],
        operands: Sequence[Value],
        shape: Sequence[int],
        dtype: DType,
    ) -> Value:
        """A pointwise ATen op; its arguments name ``operands`` by number."""
        return self._make(core.Call(target, args, kwargs), tuple(operands), shape, dtype)

    def window(self, value: Value, index: Index, shape: Sequence[int]) -> Value:
        """``value`` at ``index``, forms over ``loop_vars(shape)``; windows compose, and move below fills and casts."""
        if tuple(shape) == value.shape and index == loop_vars(value.shape):
            return value
        match value.what:
            case core.Fill():
                return self._make(value.what, (), shape, value.dtype)
            case core.Cast() | core.Bits():
                return self._make(value.what, (self.window(value.operands[0], index, shape),), shape, value.dtype)
            case core.Window(forms):
                return self.window(value.operands[0], put(forms, index, value.shape), shape)
            case _:
                return self._make(core.Window(index), (value,), shape, value.dtype)

    def overlay(self, base: Value, value: Value, index: Index, where: tuple[Guard, ...]) -> Value:
        """``value`` at ``index`` where every guard holds, else ``base``."""
        if isinstance(value.what, core.Window):
            index, value = put(value.what.index, index, value.shape), value.operands[0]
        return self._make(core.Overlay(index, where), (base, value), base.shape, base.dtype)

    def reduce(self, kind: core.Folding, value: Value, dims: Sequence[int]) -> Value:
        """``value`` without ``dims``: sum, prod, max, min (its dtype), any, all (bool), argmax or argmin (i64)."""
        dims = tuple(sorted(dims))
        dtype = {"any": BOOL, "all": BOOL, "argmax": I64, "argmin": I64}.get(kind, value.dtype)
        if not dims:
            return self.fill(0, value.shape, dtype) if kind.startswith("arg") else self.cast(value, dtype)
        shape = [n for k, n in enumerate(value.shape) if k not in dims]
        if kind in _IDENTITY and not all(value.shape[k] for k in dims):  # nothing to load, so nothing to loop over
            return self.fill(_IDENTITY[kind], shape, dtype)
        return self._make(core.Reduce(kind, dims), (value,), shape, dtype)

    def take(self, source: Value, index: Value, dim: int) -> Value:
        """``source[..., index[...], ...]``: the dimensions of ``index`` stand where ``dim`` was; indices in bounds."""
        shape = (*source.shape[:dim], *index.shape, *source.shape[dim + 1 :])
        return self._make(core.Take(dim), (source, index), shape, source.dtype)

    def gather(self, source: Value, index: Value, dim: int) -> Value:
        """As ``torch.gather``: ``result[i] = source[i with index[i] at dim]``; indices in bounds."""
        return self._make(core.Gather(dim), (source, index), index.shape, source.dtype)

    def cast(self, value: Value, dtype: DType) -> Value:
        return value if value.dtype == dtype else self._make(core.Cast(), (value,), value.shape, dtype)

    def bits(self, value: Value, dtype: DType) -> Value:
        """The same bytes as another dtype of the same width."""
        return value if value.dtype == dtype else self._make(core.Bits(), (value,), value.shape, dtype)

    def spread(self, value: Value, shape: Sequence[int]) -> Value:
        """Broadcast as a window."""
        if value.shape == tuple(shape):
            return value
        return self.window(value, core.broadcast_index(value.shape, loop_vars(tuple(shape))), shape)
