"""Losses by definition, with torch's reductions: 0 none, 1 mean, 2 sum.

``binary_cross_entropy`` stays a library call: it raises where the data lie outside [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fusekit.dtypes import F16, I64
from fusekit.ir import core
from fusekit.passes.build import Build, dtype_of, is_empty, shape_of, sparse, write
from fusekit.passes.call import Call, Rule, Write
from fusekit.passes.lookups import Check, Step
from fusekit.passes.values import Value

Writes = tuple[Write, ...] | None
Elementwise = Callable[[Build, Value, Value, float], Value]
NONE, MEAN, SUM = 0, 1, 2


def _reduced(b: Build, loss: Value, reduction: int) -> Value:
    """A loss of each element, rounded where eager rounds it, reduced."""
    dims = range(len(loss.shape))
    if reduction == NONE:
        return loss
    return b.mean(b.wide(loss), dims, keep=False) if reduction == MEAN else b.sum(b.wide(loss), dims, keep=False)


def _pairwise(loss: Elementwise, number: str | None = None) -> Rule:
    """A loss of (self, target); ``number`` names the argument after ``reduction`` that steers it."""

    def rule(call: Call) -> Writes:
        reduction = call.arg(2, "reduction", MEAN)
        steer = call.arg(3, number, 1.0) if number else 0.0
        places = call.tensor(0, "self"), call.tensor(1, "target")
        dtype = dtype_of(call, call.results[0])
        if reduction not in (NONE, MEAN, SUM) or not isinstance(steer, (int, float)) or not dtype.is_floating:
            return None
        assert isinstance(reduction, int) and places[0] is not None and places[1] is not None

        def body(b: Build, r: list[Value]) -> Value:
            a, t = (b.cast(v, dtype) for v in r)
            return _reduced(b, b.cast(loss(b, a, t, steer), dtype), reduction)

        return (write(call, 0, body, places[0], places[1]),)

    return rule


def _squared(b: Build, a: Value, t: Value, _: float) -> Value:
    """bfloat16 is rounded after the difference too, float16 is not (BinaryOpsKernel.cpp)."""
    return b.square(b.sub(b.wide(a), b.wide(t)) if a.dtype is F16 else b.sub(a, t))


def _smooth(b: Build, a: Value, t: Value, beta: float) -> Value:
    """Quadratic below ``beta``, linear above."""
    far = b("abs.default", b.sub(b.wide(a), b.wide(t)))
    if beta == 0:
        return far
    near = b.div(b.mul(b.mul(far, 0.5), far), beta)
    return b.where(b("lt.Scalar", far, beta), near, b.sub(far, 0.5 * beta))


def _huber(b: Build, a: Value, t: Value, delta: float) -> Value:
    far = b("abs.default", b.sub(b.wide(a), b.wide(t)))
    near = b.mul(b.mul(far, 0.5), far)
    return b.where(b("le.Scalar", far, delta), near, b.mul(b.sub(far, 0.5 * delta), delta))


def bce_with_logits(call: Call) -> Writes:
    """(1 - target) * x - (1 + (pos_weight - 1) * target) * log_sigmoid(x), times weight; each step rounds."""
    places = [call.tensor(k) for k in range(4)]  # self, target, weight, pos_weight
    reduction, dtype = call.arg(4, "reduction", MEAN), dtype_of(call, call.results[0])
    alike = all(dtype_of(call, p) is dtype for p in places if p is not None)
    if reduction not in (NONE, MEAN, SUM) or not alike or places[0] is None or places[1] is None:
        return None
    assert isinstance(reduction, int)

    def loss(b: Build, r: list[Value | None]) -> Value:
        x, target, weight, positive = r
        assert x is not None and target is not None
        log = b.cast(_log_sigmoid(b, b.wide(x)), dtype)
        if positive is not None:
            log = b.mul(log, b.add(b.mul(b.sub(positive, 1), target), 1))
        found = b.sub(b.mul(b("rsub.Scalar", target, 1), x), log)
        found = b.mul(found, weight) if weight is not None else found
        return _reduced(b, found, reduction)

    body, reads = sparse(places, loss)
    return (write(call, 0, body, *reads),)


def _log_sigmoid(b: Build, x: Value) -> Value:
    """min(x, 0) - log1p(exp(-abs(x)))"""
    falling = b("exp.default", b("neg.default", b("abs.default", x)))
    return b.sub(b("clamp_max.default", x, 0), b("log1p.default", falling))


@dataclass(frozen=True)
class _Picked:
    """What an nll loss takes: scores with the classes along ``dim``, and targets. ``ignore``: counts for nothing."""

    dim: int
    ignore: int
    reduction: int

    @property
    def is_each(self) -> bool:
        """One loss for each target. Without a batch dimension "none" reduces like "sum"."""
        return self.reduction == NONE and self.dim == 1

    def terms(self, b: Build, given: Value, scores: Value, weights: Value | None) -> tuple[Value, Value]:
        """(loss, weight) of each target, 0 where it is ignored; an ignored target picks class 0 in its place."""
        index = b.cast(given, I64)
        counts = b("ne.Scalar", index, self.ignore)
        safe = b.where(counts, index, b.filled(index, 0))
        column = b.kept(safe, (*safe.shape[: self.dim], 1, *safe.shape[self.dim :]), (self.dim,))
        picked = b.without(b.values.gather(scores, column, self.dim), (self.dim,))
        loss = b("neg.default", b.wide(picked))
        scale = b.filled(loss, 1) if weights is None else b.wide(b.values.take(weights, safe, 0))
        loss = loss if weights is None else b.mul(loss, scale)
        zeros = b.filled(loss, 0)
        return b.where(counts, loss, zeros), b.where(counts, scale, zeros)

    def output(self, b: Build, r: list[Value | None]) -> Value:
        loss, scale = self._terms(b, r)
        if self.is_each:
            return loss
        dims = range(len(loss.shape))
        summed = b.sum(loss, dims, keep=False)
        return b.div(summed, b.sum(scale, dims, keep=False)) if self.reduction == MEAN else summed

    def weight(self, b: Build, r: list[Value | None]) -> Value:
        """The total, which is 0 where nothing is reduced."""
        scale = self._terms(b, r)[1]
        if self.is_each:
            return b.values.fill(0, (), scale.dtype)
        return b.sum(scale, range(len(scale.shape)), keep=False)

    def _terms(self, b: Build, r: list[Value | None]) -> tuple[Value, Value]:
        given, scores, weights = r
        assert given is not None and scores is not None
        return self.terms(b, given, scores, weights)


def nll_loss(call: Call) -> tuple[Step, ...] | None:
    """Minus the picked log-probabilities, weighted; the total of the weights."""
    source, target, weight = (call.tensor(k, name) for k, name in enumerate(("self", "target", "weight")))
    reduction, ignore = call.arg(3, "reduction", MEAN), call.arg(4, "ignore_index", -100)
    if source is None or target is None or reduction not in (NONE, MEAN, SUM) or not isinstance(ignore, int):
        return None
    shape = shape_of(call, source)
    if is_empty(call) or 0 in shape:
        return None
    assert isinstance(reduction, int)
    picked = _Picked(0 if len(shape) == 1 else 1, ignore, reduction)
    name = call.op.target.split(".")[1]
    check = Check(target, core.CheckIndex(shape[picked.dim], picked.dim, name, ignore=ignore))
    output, reads = sparse([target, source, weight], picked.output)
    total, _ = sparse([target, source, weight], picked.weight)
    return check, write(call, 0, output, *reads), write(call, 1, total, *reads)


RULES: dict[str, Callable[[Call], tuple[Step, ...] | None]] = {
    "mse_loss.default": _pairwise(_squared),
    "smooth_l1_loss.default": _pairwise(_smooth, "beta"),
    "huber_loss.default": _pairwise(_huber, "delta"),
    "binary_cross_entropy_with_logits.default": bce_with_logits,
    "nll_loss_forward.default": nll_loss,
    "nll_loss2d_forward.default": nll_loss,
}
