"""Reductions by definition: sums, means, extremes, tests, variances and norms over some dimensions.

Halves accumulate in float32 and integers in int64, and only what is stored is rounded, as in eager's kernels. Variance
is two-pass: eager's Welford loop in double differs from it by a few units in the last place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf

from fusekit.dtypes import BOOL, I64, DType
from fusekit.index import Form, loop_vars
from fusekit.ir import core
from fusekit.passes.build import Body, Build, count, dims_of, dtype_of, is_empty, shape_of, write
from fusekit.passes.call import Call, Rule, Write
from fusekit.passes.values import Value

Writes = tuple[Write, ...] | None


@dataclass(frozen=True)
class Span:
    """What a call reduces: the dimensions, whether they stay with size 1, and how many elements that is."""

    dims: tuple[int, ...]
    keep: bool
    size: int

    @staticmethod
    def of(call: Call, position: int = 1, default: bool = True) -> Span | None:
        """``position`` of ``dim``; ``keepdim`` follows it. ``default``: does an empty list mean all dimensions?"""
        shape = shape_of(call, call.operands[0])
        dims = dims_of(call.arg(position, "dim"), len(shape), default)
        keep = call.arg(position + 1, "keepdim", False) is True
        return None if dims is None else Span(dims, keep, count(shape, dims))


def _wanted(call: Call) -> DType | None:
    """The dtype that ``dtype=`` asks for, which operands are converted to first."""
    dtype = call.op.kwarg("dtype")
    return dtype if isinstance(dtype, DType) else None


def _accumulated(build: Build, value: Value, wanted: DType | None) -> Value:
    """In the dtype that sums and products accumulate in."""
    value = build.cast(value, wanted) if wanted else value
    return build.cast(value, I64) if value.dtype.is_integral else build.wide(value)


def total(call: Call) -> Writes:
    span, wanted = Span.of(call), _wanted(call)
    if span is None:
        return None
    return (write(call, 0, lambda b, r: b.sum(_accumulated(b, r[0], wanted), span.dims, span.keep), call.operands[0]),)


def mean(call: Call) -> Writes:
    span, wanted = Span.of(call), _wanted(call)
    if span is None:
        return None

    def body(b: Build, r: list[Value]) -> Value:
        return b.mean(_accumulated(b, r[0], wanted), span.dims, span.keep)

    return (write(call, 0, body, call.operands[0]),)


def product(call: Call) -> Writes:
    """Not of halves: eager rounds each step of some of these loops and not of others."""
    span, wanted = Span.of(call), _wanted(call)
    dtype = wanted or dtype_of(call, call.operands[0])
    if span is None or (dtype.is_floating and dtype.width == 2):
        return None

    def body(b: Build, r: list[Value]) -> Value:
        return b.reduce("prod", _accumulated(b, r[0], wanted), span.dims, span.keep)

    return (write(call, 0, body, call.operands[0]),)


def _picked(kinds: Sequence[core.Folding], position: int = 1) -> Rule:
    """One result for each kind, of the operand as it is. Nothing has no extreme: eager raises."""

    def rule(call: Call) -> Writes:
        span = Span.of(call, position)
        if is_empty(call):
            return ()
        if span is None or not span.size:
            return None
        return tuple(write(call, k, _as_it_is(kind, span), call.operands[0]) for k, kind in enumerate(kinds))

    return rule


def _as_it_is(kind: core.Folding, span: Span) -> Body:
    return lambda b, r: _extreme(b, kind, r[0], span)


def _extreme(b: Build, kind: core.Folding, x: Value, span: Span) -> Value:
    """The largest or smallest, or where it is first: the least position that holds it, or NaN where there is one.

    A kernel finds the least of positions in vectors, and a pair of extreme and position one element after the other.
    """
    if kind not in ("argmax", "argmin"):
        return b.reduce(kind, x, span.dims, span.keep)
    found = b("eq.Tensor", x, b.reduce("max" if kind == "argmax" else "min", x, span.dims))
    if x.dtype.is_floating:
        found = b("bitwise_or.Tensor", found, b("ne.Tensor", x, x))
    at = _positions(b, x, span.dims)
    return b.reduce("min", b.where(found, at, b.filled(at, span.size)), span.dims, span.keep)


def _positions(b: Build, x: Value, dims: Sequence[int]) -> Value:
    """The row-major number of an element among those that are reduced together; other dimensions have size 1."""
    shape = tuple(n if k in dims else 1 for k, n in enumerate(x.shape))
    flat = Form()
    for form, n in zip(loop_vars(shape), shape, strict=True):
        flat = flat * n + form
    return b.values.window(b.values.iota(0, 1, count(x.shape, dims), I64), (flat,), shape)


def _tested(kind: core.Folding) -> Rule:
    def rule(call: Call) -> Writes:
        span = Span.of(call, default=not call.op.target.endswith(".dims"))
        if span is None:
            return None

        def body(b: Build, r: list[Value]) -> Value:
            return b.reduce(kind, b.cast(r[0], BOOL), span.dims, span.keep)

        return (write(call, 0, body, call.operands[0]),)

    return rule


def _spread(root: bool, with_mean: bool) -> Rule:
    """Variance, or its ``root``; ``correction`` is taken from the count, which never goes below zero."""

    def rule(call: Call) -> Writes:
        span, correction = Span.of(call), call.op.kwarg("correction", 1)
        correction = 1 if correction is None else correction
        if span is None or not isinstance(correction, (int, float)):
            return None
        divisor = max(0, span.size - correction)

        def variance(b: Build, r: list[Value]) -> Value:
            squares = b.deviations(b.wide(r[0]), span.dims)[2]
            found = b.div(squares if span.keep else b.without(squares, span.dims), divisor)
            return b("sqrt.default", found) if root else found

        writes = [write(call, 0, variance, call.operands[0])]
        if with_mean:

            def mean(b: Build, r: list[Value]) -> Value:
                found = b.deviations(b.wide(r[0]), span.dims)[0]
                return found if span.keep else b.without(found, span.dims)

            writes += [write(call, 1, mean, call.operands[0])]
        return tuple(writes)

    return rule


def vector_norm(call: Call) -> Writes:
    """Orders 1, 2 and the infinities. Over one element it is the magnitude, which cannot overflow."""
    span, order, wanted = Span.of(call, 2), call.arg(1, "ord", 2), _wanted(call)
    if is_empty(call):
        return ()
    if span is None or not isinstance(order, (int, float)) or not (order in (1, 2) or isinf(order)):
        return None
    if isinf(order) and not span.size:
        return None

    def body(b: Build, r: list[Value]) -> Value:
        x = _accumulated(b, r[0], wanted)
        if order == 2 and span.size != 1:
            return b("sqrt.default", b.sum(b.square(x), span.dims, span.keep))
        kind = "sum" if not isinf(order) else "max" if order > 0 else "min"
        return b.reduce(kind, b("abs.default", x), span.dims, span.keep)

    return (write(call, 0, body, call.operands[0]),)


def log_sum_exp(call: Call) -> Writes:
    """The largest is taken out first, unless it is infinite."""
    span = Span.of(call)
    if is_empty(call):
        return ()
    if span is None or not span.size or not dtype_of(call, call.operands[0]).is_floating:
        return None

    def body(b: Build, r: list[Value]) -> Value:
        x = b.wide(r[0])
        most = b.reduce("max", x, span.dims)
        most = b.where(b("isinf.default", most), b.filled(most, 0), most)
        summed = b("log.default", b.sum(b("exp.default", b.sub(x, most)), span.dims))
        found = b.add(summed, most)
        return found if span.keep else b.without(found, span.dims)

    return (write(call, 0, body, call.operands[0]),)


def count_nonzero(call: Call) -> Writes:
    span = Span.of(call)
    if span is None:
        return None
    return (write(call, 0, lambda b, r: b.sum(b.cast(b.cast(r[0], BOOL), I64), span.dims, False), call.operands[0]),)


RULES: dict[str, Rule] = {
    "sum.default": total,
    "sum.dim_IntList": total,
    "mean.default": mean,
    "mean.dim": mean,
    "prod.default": product,
    "prod.dim_int": product,
    "amax.default": _picked(["max"]),
    "amin.default": _picked(["min"]),
    "max.default": _picked(["max"]),
    "min.default": _picked(["min"]),
    "max.dim": _picked(["max", "argmax"]),
    "min.dim": _picked(["min", "argmin"]),
    "argmax.default": _picked(["argmax"]),
    "argmin.default": _picked(["argmin"]),
    "aminmax.default": _picked(["min", "max"]),
    **{f"any.{overload}": _tested("any") for overload in ("default", "dim", "dims")},
    **{f"all.{overload}": _tested("all") for overload in ("default", "dim", "dims")},
    "var.correction": _spread(root=False, with_mean=False),
    "std.correction": _spread(root=True, with_mean=False),
    "var_mean.correction": _spread(root=False, with_mean=True),
    "std_mean.correction": _spread(root=True, with_mean=True),
    "linalg_vector_norm.default": vector_norm,
    "logsumexp.default": log_sum_exp,
    "count_nonzero.default": count_nonzero,
    "count_nonzero.dim_IntList": count_nonzero,
}
