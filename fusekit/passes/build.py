"""Building blocks of decompositions: ops that kernels and the interpreter know already, put together by definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from fusekit import ops
from fusekit.dtypes import F32, F64, DType
from fusekit.ids import NodeId
from fusekit.index import Form, loop_vars
from fusekit.ir import Layout, Operand, core
from fusekit.passes.base import items
from fusekit.passes.call import Call, Write
from fusekit.passes.values import Value, Values

LONG = 1 << 15  # elements of a row that a core, or a block's registers, keep for a second pass
Term = Value | float
Body = Callable[["Build", "list[Value]"], Value]
Sparse = Callable[["Build", "list[Value | None]"], Value]


@dataclass(frozen=True)
class Build:
    """Makes values of one op's definition."""

    values: Values

    def __call__(self, name: str, *args: Term) -> Value:
        """``aten.<name>`` of values and numbers, with torch's promotion and broadcasting."""
        operands = [a for a in args if isinstance(a, Value)]
        numbers = iter(range(len(operands)))
        terms = tuple(Operand(next(numbers)) if isinstance(a, Value) else a for a in args)
        kinds = [ops.Kind(v.dtype, not v.shape, None) for v in operands]
        plan = ops.plan(f"aten.{name}", terms, (), kinds)
        assert not isinstance(plan, ops.Refusal), plan.reason
        shape = broadcast([v.shape for v in operands])
        return self.values.apply(f"aten.{name}", terms, (), operands, shape, plan.result)

    def add(self, a: Value, b: Term) -> Value:
        return self(f"add.{_kind(b)}", a, b)

    def sub(self, a: Value, b: Term) -> Value:
        return self(f"sub.{_kind(b)}", a, b)

    def mul(self, a: Value, b: Term) -> Value:
        return self(f"mul.{_kind(b)}", a, b)

    def div(self, a: Value, b: Term) -> Value:
        return self(f"div.{_kind(b)}", a, b)

    def square(self, a: Value) -> Value:
        return self.mul(a, a)

    def cast(self, value: Value, dtype: DType) -> Value:
        return self.values.cast(value, dtype)

    def wide(self, value: Value) -> Value:
        """In the dtype that eager's kernels compute in: float32 for the halves."""
        return self.values.cast(value, ops.opmath(value.dtype))

    # ---- reductions

    def reduce(self, kind: core.Folding, value: Value, dims: Sequence[int], keep: bool = True) -> Value:
        """``keep``: the reduced dimensions stay, of size 1."""
        made = self.values.reduce(kind, value, dims)
        return self.kept(made, value.shape, dims) if keep else made

    def kept(self, made: Value, shape: Sequence[int], dims: Sequence[int]) -> Value:
        """A reduction of something of ``shape`` with its dimensions put back, of size 1."""
        whole = tuple(1 if k in dims else n for k, n in enumerate(shape))
        index = loop_vars(whole)
        return self.values.window(made, tuple(index[k] for k in range(len(whole)) if k not in dims), whole)

    def sum(self, value: Value, dims: Sequence[int], keep: bool = True) -> Value:
        return self.reduce("sum", value, dims, keep)

    def mean(self, value: Value, dims: Sequence[int], keep: bool = True) -> Value:
        return self.div(self.sum(value, dims, keep), count(value.shape, dims))

    def deviations(self, value: Value, dims: Sequence[int]) -> tuple[Value, Value, Value]:
        """(mean, value - mean, sum of their squares): the two passes that lose no digits; of what is too long to be
        kept for a second one, one pass."""
        if count(value.shape, dims) > LONG and value.dtype is F32:
            return self._in_one_pass(value, dims)
        mean = self.mean(value, dims)
        centred = self.sub(value, mean)
        return mean, centred, self.sum(self.square(centred), dims)

    def _in_one_pass(self, value: Value, dims: Sequence[int]) -> tuple[Value, Value, Value]:
        """Sums of x - s and of its square, in float64, s being the first element: where x is far from 0, s is too."""
        n, index = count(value.shape, dims), loop_vars(value.shape)
        shape = tuple(1 if k in dims else extent for k, extent in enumerate(value.shape))
        first = self.values.window(value, tuple(Form() if k in dims else form for k, form in enumerate(index)), shape)
        start = self.cast(first, F64)
        apart = self.sub(self.cast(value, F64), start)
        total, squares = self.sum(apart, dims), self.sum(self.square(apart), dims)
        mean = self.cast(self.add(start, self.div(total, n)), value.dtype)
        spread = self("clamp_min.default", self.sub(squares, self.div(self.square(total), n)), 0)
        return mean, self.sub(value, mean), self.cast(spread, value.dtype)

    # ---- shapes

    def along(self, value: Value, dim: int, rank: int) -> Value:
        """A vector as dimension ``dim`` of ``rank``; the others are of size 1."""
        shape = tuple(value.shape[0] if k == dim else 1 for k in range(rank))
        return self.values.window(value, (loop_vars(shape)[dim],), shape)

    def without(self, value: Value, dims: Sequence[int]) -> Value:
        """Without dimensions, all of size 1."""
        shape = tuple(n for k, n in enumerate(value.shape) if k not in dims)
        outer = iter(loop_vars(shape))
        index = tuple(Form() if k in dims else next(outer) for k in range(len(value.shape)))
        return self.values.window(value, index, shape)

    def filled(self, like: Value, number: float) -> Value:
        return self.values.fill(number, like.shape, like.dtype)

    def where(self, condition: Value, a: Value, b: Value) -> Value:
        return self("where.self", condition, a, b)


def _kind(term: Term) -> str:
    return "Tensor" if isinstance(term, Value) else "Scalar"


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of a pointwise op of these."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(next((n for n in column if n != 1), 1) for column in zip(*padded, strict=True))


def count(shape: Sequence[int], dims: Sequence[int]) -> int:
    """Elements in one reduction."""
    return prod(shape[d] for d in dims)


# ---- what a rule asks of a call -----------------------------------------------------------------------------------


def write(call: Call, result: int, body: Body, *reads: NodeId) -> Write:
    """Result number ``result`` is ``body`` of the values of ``reads``."""
    return onto(call, call.results[result], body, *reads)


def onto(call: Call, place: NodeId, body: Body, *reads: NodeId) -> Write:
    """``place`` gets ``body``, cast to its dtype."""

    def make(values: Values, operands: Sequence[Value], region: Layout) -> Value:
        return body(Build(values), list(operands))

    return Write(call.block(place), call.layout(place), reads, make)


def sparse(reads: Sequence[NodeId | None], body: Sparse) -> tuple[Body, tuple[NodeId, ...]]:
    """For optional operands: the body gets None for those left out."""
    given = tuple(t for t in reads if t is not None)

    def filled(build: Build, values: list[Value]) -> Value:
        left = iter(values)
        return body(build, [None if t is None else next(left) for t in reads])

    return filled, given


def shape_of(call: Call, tensor: NodeId) -> tuple[int, ...]:
    return call.layout(tensor).shape


def dtype_of(call: Call, tensor: NodeId) -> DType:
    return call.layout(tensor).dtype


def is_contiguous(layout: Layout) -> bool:
    """Row-major and dense? Fake tensors keep an operand's strides in some results that eager makes row-major; an op
    whose recorded result is not what eager makes must stay a library call, whose results are looked at."""
    return layout.axes() == Layout.contiguous(layout.shape, layout.dtype).axes()


def is_channels_last(layout: Layout) -> bool:
    """Dense with the channels, dimension 1 of four or five, innermost?"""
    if len(layout.shape) not in (4, 5):
        return False
    order = (0, *range(2, len(layout.shape)), 1)
    shape, strides = (tuple(of[k] for k in order) for of in (layout.shape, layout.strides))
    return is_contiguous(Layout(layout.offset, shape, strides, layout.dtype))


def is_empty(call: Call) -> bool:
    """Has no result an element?"""
    return not any(call.layout(t).numel for t in call.results)


def dims_of(value: object, rank: int, default: bool = True) -> tuple[int, ...] | None:
    """Dimensions, ascending. No dimension means all of them, if ``default``; None for what is no such argument."""
    if value is None or (value == () and default):
        return tuple(range(rank))
    given = items(value)
    given = (value,) if given is None else given
    found = [d for d in given if isinstance(d, int)]
    if not found or len(found) != len(given):
        return None
    return tuple(sorted({d % rank for d in found})) if rank else ()
