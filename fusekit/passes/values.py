"""Values of the functional stage while they are being built: interned, so that every memo can key on identity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from fusekit.dtypes import BOOL, I64, DType
from fusekit.ids import NodeId
from fusekit.index import Form, Var, loop_vars, substitute
from fusekit.ir import Guard, Layout, Operand

LOAD, FILL, IOTA, APPLY = "fk.load", "fk.fill", "fk.iota", "apply"
WINDOW, OVERLAY, CAST, BITS = "fk.window", "fk.overlay", "fk.cast", "fk.bits"
REDUCE, TAKE, GATHER = "fk.reduce", "fk.take", "fk.gather"
_IDENTITY = {"sum": 0, "prod": 1, "any": 0, "all": 1}  # what a reduction of nothing is
_MAPS = frozenset({WINDOW, OVERLAY, REDUCE, TAKE, GATHER})

Index = tuple[Form, ...]
Reads = frozenset[tuple[NodeId, int]]


@dataclass(eq=False, slots=True)
class Value:
    """One pure value over its shape. ``kind`` is the op that makes it (APPLY: the target is in ``detail``).

    ``reads``: the (block, epoch) pairs whose real memory it still reads. ``maps``: does any map other than identity or
    broadcast stand below it? ``of``: the program op that it comes from, for its id and line.
    """

    number: int
    kind: str
    detail: tuple[object, ...]
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
        return f"<{self.kind} {self.number} {self.dtype}{list(self.shape)}>"


class Values:
    """The table of all values of one run of the pass."""

    def __init__(self) -> None:
        self._table: dict[object, Value] = {}
        self.current: NodeId | None = None

    def __len__(self) -> int:
        return len(self._table)

    def _make(
        self,
        kind: str,
        detail: tuple[object, ...],
        operands: tuple[Value, ...],
        shape: Sequence[int],
        dtype: DType,
        reads: Reads = frozenset(),
    ) -> Value:
        key = (kind, exact(detail), tuple(v.number for v in operands), tuple(shape), dtype)
        found = self._table.get(key)
        if found is None:
            below = reads.union(*(v.reads for v in operands)) if operands else reads
            maps = kind in _MAPS or any(v.maps for v in operands)
            found = Value(len(self._table), kind, detail, operands, tuple(shape), dtype, below, maps, self.current)
            self._table[key] = found
        return found

    def raw(
        self, kind: str, detail: tuple[object, ...], operands: tuple[Value, ...], shape: Sequence[int], dtype: DType
    ) -> Value:
        """The value of an op that is there already: nothing is simplified."""
        return self._make(kind, detail, operands, shape, dtype)

    def load(self, block: NodeId, epoch: int, layout: Layout) -> Value:
        """The real memory of a block as it is at ``epoch``."""
        return self._make(LOAD, (block, epoch, layout), (), layout.shape, layout.dtype, frozenset({(block, epoch)}))

    def fill(self, number: object, shape: Sequence[int], dtype: DType) -> Value:
        return self._make(FILL, (number,), (), shape, dtype)

    def iota(self, start: object, step: object, size: int, dtype: DType) -> Value:
        return self._make(IOTA, (start, step), (), (size,), dtype)

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
        return self._make(APPLY, (target, args, kwargs), tuple(operands), shape, dtype)

    def window(self, value: Value, index: Index, shape: Sequence[int]) -> Value:
        """``value`` at ``index``, forms over ``loop_vars(shape)``; windows compose, and move below fills and casts."""
        if tuple(shape) == value.shape and index == loop_vars(value.shape):
            return value
        if value.kind == FILL:
            return self._make(FILL, value.detail, (), shape, value.dtype)
        if value.kind in (CAST, BITS):
            return self._make(value.kind, (), (self.window(value.operands[0], index, shape),), shape, value.dtype)
        if value.kind == WINDOW:
            return self.window(value.operands[0], put(value_index(value), index, value.shape), shape)
        return self._make(WINDOW, (index,), (value,), shape, value.dtype)

    def overlay(self, base: Value, value: Value, index: Index, where: tuple[Guard, ...]) -> Value:
        """``value`` at ``index`` where every guard holds, else ``base``."""
        if value.kind == WINDOW:
            index, value = put(value_index(value), index, value.shape), value.operands[0]
        return self._make(OVERLAY, (index, where), (base, value), base.shape, base.dtype)

    def reduce(self, kind: str, value: Value, dims: Sequence[int]) -> Value:
        """``value`` without ``dims``: sum, prod, max, min (its dtype), any, all (bool), argmax or argmin (i64)."""
        dims = tuple(sorted(dims))
        dtype = {"any": BOOL, "all": BOOL, "argmax": I64, "argmin": I64}.get(kind, value.dtype)
        if not dims:
            return self.fill(0, value.shape, dtype) if kind.startswith("arg") else self.cast(value, dtype)
        shape = [n for k, n in enumerate(value.shape) if k not in dims]
        if kind in _IDENTITY and not all(value.shape[k] for k in dims):  # nothing to load, so nothing to loop over
            return self.fill(_IDENTITY[kind], shape, dtype)
        return self._make(REDUCE, (kind, dims), (value,), shape, dtype)

    def take(self, source: Value, index: Value, dim: int) -> Value:
        """``source[..., index[...], ...]``: the dimensions of ``index`` stand where ``dim`` was; indices in bounds."""
        shape = (*source.shape[:dim], *index.shape, *source.shape[dim + 1 :])
        return self._make(TAKE, (dim,), (source, index), shape, source.dtype)

    def gather(self, source: Value, index: Value, dim: int) -> Value:
        """As ``torch.gather``: ``result[i] = source[i with index[i] at dim]``; indices in bounds."""
        return self._make(GATHER, (dim,), (source, index), index.shape, source.dtype)

    def cast(self, value: Value, dtype: DType) -> Value:
        return value if value.dtype == dtype else self._make(CAST, (), (value,), value.shape, dtype)

    def bits(self, value: Value, dtype: DType) -> Value:
        """The same bytes as another dtype of the same width."""
        return value if value.dtype == dtype else self._make(BITS, (), (value,), value.shape, dtype)

    def spread(self, value: Value, shape: Sequence[int]) -> Value:
        """Broadcast as a window."""
        if value.shape == tuple(shape):
            return value
        return self.window(value, broadcast_index(value.shape, loop_vars(tuple(shape))), shape)


def exact(value: object) -> object:
    """A key in which 1, 1.0 and True differ, 0.0 and -0.0 differ, and NaN equals itself."""
    if isinstance(value, Operand):
        return ("operand", value.position)
    if isinstance(value, tuple):
        return (type(value).__name__, *map(exact, value))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, (bool, int, float, complex)):
        return (type(value).__name__, repr(value))
    return value


def value_index(value: Value) -> Index:
    """The forms of a window or an overlay."""
    index = value.detail[0]
    assert isinstance(index, tuple)
    return index  # pyright: ignore[reportUnknownVariableType]


def put(forms: Iterable[Form], index: Index, shape: Sequence[int]) -> Index:
    """Forms over ``loop_vars(shape)`` with ``index`` put in."""
    return tuple(_put(form, index, tuple(shape)) for form in forms)


@lru_cache(maxsize=1 << 16)
def _put(form: Form, index: Index, shape: tuple[int, ...]) -> Form:
    if not form.terms:
        return form
    return substitute(form, {Var(f"i{k}", n): index[k] for k, n in enumerate(shape) if n > 1})


def broadcast_index(shape: Sequence[int], index: Index) -> Index:
    """The index at which an operand of ``shape`` is read when the result is wanted at ``index``."""
    lead = len(index) - len(shape)
    return tuple(Form() if n == 1 else index[lead + k] for k, n in enumerate(shape))
