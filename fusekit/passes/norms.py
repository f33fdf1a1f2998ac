"""Normalisations by definition: layer, RMS, group and batch norm.

Statistics are two-pass and computed in float32 for the halves (float64 for float64); what is stored is rounded to the
dtype of its result: the input's where weights have it or there are none, else the weights' (eager's mixed dtypes).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from fusekit.dtypes import F64, DType
from fusekit.ids import NodeId
from fusekit.index import Form, loop_vars
from fusekit.memory import meets
from fusekit.passes.base import items
from fusekit.passes.build import (
    Body,
    Build,
    count,
    dtype_of,
    is_channels_last,
    is_contiguous,
    is_empty,
    onto,
    shape_of,
    sparse,
    write,
)
from fusekit.passes.call import Call, Rule, Write
from fusekit.passes.values import Value

Writes = tuple[Write, ...] | None
Optional = list[Value | None]


def _number(value: object) -> float | None:
    return value if isinstance(value, (int, float)) else None


def _inverse_root(b: Build, variance: Value, eps: float) -> Value:
    return b("rsqrt.default", b.add(variance, eps))


def _scaled(b: Build, x: Value, weight: Value | None, bias: Value | None) -> Value:
    x = b.mul(x, b.wide(weight)) if weight is not None else x
    return b.add(x, b.wide(bias)) if bias is not None else x


# ---- layer norm and RMS norm: over the last dimensions ------------------------------------------------------------


def _inner(call: Call, source: NodeId, position: int) -> tuple[int, ...] | None:
    """The dimensions that ``normalized_shape`` names."""
    rank, normalized = len(shape_of(call, source)), items(call.arg(position, "normalized_shape"))
    if not normalized:
        return None
    return tuple(range(rank - len(normalized), rank))


def _is_recorded_right(call: Call, weight: NodeId | None) -> bool:
    """With weights of another dtype eager's statistics have the weights', and torch's fake tensors say the input's."""
    seen = any(call.graph.users(t) for t in call.results[1:])
    alike = (dtype_of(call, call.operands[0]), dtype_of(call, call.results[1]))
    return not seen or weight is None or dtype_of(call, weight) in alike


def layer_norm(call: Call) -> Writes:
    """(x - mean) * rstd * weight + bias, mean, rstd."""
    source, dims, eps = call.operands[0], _inner(call, call.operands[0], 1), _number(call.arg(4, "eps"))
    if is_empty(call):
        return ()
    if dims is None or eps is None or not count(shape_of(call, source), dims):
        return None
    if not _is_recorded_right(call, call.tensor(2, "weight")):
        return None

    def moments(b: Build, x: Value) -> tuple[Value, Value, Value]:
        mean, centred, squares = b.deviations(b.wide(x), dims)
        return mean, centred, _inverse_root(b, b.div(squares, count(x.shape, dims)), eps)

    def normal(b: Build, r: Optional) -> Value:
        x, weight, bias = r
        assert x is not None
        _, centred, rstd = moments(b, x)
        return _scaled(b, b.mul(centred, rstd), weight, bias)

    body, reads = sparse([source, call.tensor(2, "weight"), call.tensor(3, "bias")], normal)
    return (
        write(call, 0, body, *reads),
        write(call, 1, lambda b, r: moments(b, r[0])[0], source),
        write(call, 2, lambda b, r: moments(b, r[0])[2], source),
    )


def layer_norm_backward(call: Call) -> Writes:
    """Of the input, the weight and the bias, as far as ``output_mask`` asks for them."""
    places = [call.tensor(k) for k in (0, 1, 3, 4, 5)]  # grad_out, input, mean, rstd, weight
    mask = items(call.arg(7, "output_mask"))
    dims = _inner(call, call.operands[1], 2)
    if dims is None or mask is None or any(p is None for p in places[:4]):
        return None
    if not all(is_contiguous(call.layout(t)) for t in call.results):
        return None
    outer = tuple(range(dims[0]))

    def of_input(b: Build, r: Optional) -> Value:
        grad, normal, rstd = _normal(b, r)
        weight = r[4]
        grad = b.mul(grad, b.wide(weight)) if weight is not None else grad
        along = b.mul(normal, b.mean(b.mul(grad, normal), dims))
        return b.mul(rstd, b.sub(b.sub(grad, b.mean(grad, dims)), along))

    def of_weight(b: Build, r: Optional) -> Value:
        grad, normal, _ = _normal(b, r)
        return b.sum(b.mul(grad, normal), outer, keep=False)

    def of_bias(b: Build, r: Optional) -> Value:
        assert r[0] is not None
        return b.sum(b.wide(r[0]), outer, keep=False)

    bodies = ((of_input, places), (of_weight, places[:4]), (of_bias, places[:1]))
    chosen = [sparse(reads, body) for wanted, (body, reads) in zip(mask, bodies, strict=True) if wanted]
    if len(chosen) != len(call.results):
        return None
    made = [write(call, k, body, *reads) for k, (body, reads) in enumerate(chosen)]
    return tuple(w for w in made if w.region.numel)


def _normal(b: Build, r: Optional) -> tuple[Value, Value, Value]:
    """(upstream gradient, normalised input, rstd) of a backward's operands."""
    grad, x, mean, rstd = (b.wide(v) for v in r[:4] if v is not None)
    return grad, b.mul(b.sub(x, mean), rstd), rstd


def rms_norm(call: Call) -> Writes:
    """x * rstd * weight, rstd; without ``eps`` the machine's for the dtype that it computes in."""
    source, dims, eps = call.operands[0], _inner(call, call.operands[0], 1), call.arg(3, "eps")
    if is_empty(call):
        return ()
    if dims is None or not (eps is None or isinstance(eps, (int, float))) or not count(shape_of(call, source), dims):
        return None
    least = eps if eps is not None else _epsilon(dtype_of(call, source))

    def root(b: Build, x: Value) -> Value:
        return _inverse_root(b, b.mean(b.square(b.wide(x)), dims), least)

    def normal(b: Build, r: Optional) -> Value:
        x, weight = r
        assert x is not None
        return _scaled(b, b.mul(b.wide(x), root(b, x)), weight, None)

    body, reads = sparse([source, call.tensor(2, "weight")], normal)
    return write(call, 0, body, *reads), write(call, 1, lambda b, r: root(b, r[0]), source)


def _epsilon(dtype: DType) -> float:
    return 2.0**-52 if dtype is F64 else 2.0**-23


# ---- group norm: over the channels of a group and all positions ---------------------------------------------------


def group_norm(call: Call) -> Writes:
    """As eager: x * scale + shift, where both come from mean, rstd, weight and bias of a channel."""
    source = call.operands[0]
    batch, channels, _, groups = (call.arg(k, name) for k, name in ((3, "N"), (4, "C"), (5, "HxW"), (6, "group")))
    eps, shape = _number(call.arg(7, "eps")), shape_of(call, source)
    if not isinstance(groups, int) or eps is None or shape[:2] != (batch, channels) or 0 in shape:
        return None
    layout = call.layout(source)
    if not _is_recorded_right(call, call.tensor(1, "weight")):
        return None
    if not is_contiguous(layout) and not is_channels_last(layout):  # eager raises
        return None
    size = shape[1] // groups
    split = (shape[0], groups, size, *shape[2:])
    dims = tuple(range(2, len(split)))

    def statistics(b: Build, x: Value) -> tuple[Value, Value]:
        """Mean and rstd, (N, groups, 1, ...)."""
        n, g, c, *rest = loop_vars(split)
        whole = b.values.window(b.wide(x), (n, g * size + c, *rest), split)
        mean, _, squares = b.deviations(whole, dims)
        return mean, _inverse_root(b, b.div(squares, count(split, dims)), eps)

    def of_channel(b: Build, v: Value) -> Value:
        flat = (*shape[:2], *(1 for _ in shape[2:]))
        n, c = loop_vars(flat)[:2]
        return b.values.window(v, (n, c // size, *(Form() for _ in dims)), flat)

    def normal(b: Build, r: Optional) -> Value:
        x, weight, bias = r
        assert x is not None
        mean, rstd = (of_channel(b, v) for v in statistics(b, x))
        return _affine(b, b.wide(x), mean, rstd, weight, bias)

    body, reads = sparse([source, call.tensor(1, "weight"), call.tensor(2, "bias")], normal)
    return (
        write(call, 0, body, *reads),
        write(call, 1, lambda b, r: b.without(statistics(b, r[0])[0], dims), source),
        write(call, 2, lambda b, r: b.without(statistics(b, r[0])[1], dims), source),
    )


def _affine(b: Build, x: Value, mean: Value, rstd: Value, weight: Value | None, bias: Value | None) -> Value:
    """x * scale + shift, a scale and a shift a channel (dimension 1): how eager's group and batch norms compute."""
    rank = len(x.shape)
    scale = b.mul(rstd, b.along(b.wide(weight), 1, rank)) if weight is not None else rstd
    shift = b("neg.default", b.mul(mean, scale))
    shift = b.add(shift, b.along(b.wide(bias), 1, rank)) if bias is not None else shift
    return b.add(b.mul(x, scale), shift)


# ---- batch norm: over everything but the channels -----------------------------------------------------------------


@dataclass(frozen=True)
class _Batch:
    """One batch norm. ``running``: mean and variance; ``updates``: are they moved towards those of this batch?"""

    call: Call
    source: NodeId
    affine: tuple[NodeId | None, NodeId | None]
    running: tuple[NodeId | None, NodeId | None]
    is_training: bool
    updates: bool
    momentum: float
    eps: float

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.call, self.source)

    @property
    def dims(self) -> tuple[int, ...]:
        return tuple(k for k in range(len(self.shape)) if k != 1)

    def writes(self) -> Writes:
        if 0 in self.shape or len(self.shape) < 2 or self._is_tangled():
            return None
        wanted = is_channels_last if is_channels_last(self.call.layout(self.source)) else is_contiguous
        if not wanted(self.call.layout(self.call.results[0])):
            return None
        if not self.is_training and None in self.running:
            return None
        body, reads = sparse([self.source, *self.affine, *self.running], self._normal)
        if self.is_training:
            body, reads = sparse([self.source, *self.affine, None, None], self._normal)
        writes = [write(self.call, 0, body, *reads)]
        if self.is_training and self.call.layout(self.call.results[1]).numel:
            writes += [write(self.call, k, self._saved(k), self.source) for k in (1, 2)]
        if self.is_training and self.updates:
            writes += [self._moved(k, place) for k, place in enumerate(self.running) if place is not None]
        return tuple(writes)

    def _is_tangled(self) -> bool:
        """Running statistics that share bytes with each other or with what is read: eager's loop order decides."""
        if not (self.is_training and self.updates):
            return False
        moved = [t for t in self.running if t is not None]
        read = [t for t in (self.source, *self.affine) if t is not None]
        return any(self._meets(a, b) for a, b in [*combinations(moved, 2), *((m, r) for m in moved for r in read)])

    def _meets(self, a: NodeId, b: NodeId) -> bool:
        if self.call.block(a) != self.call.block(b):
            return False
        return meets(self.call.layout(a), self.call.layout(b)) is not False

    def _normal(self, b: Build, r: Optional) -> Value:
        x, weight, bias, mean, variance = r
        assert x is not None
        rank = len(x.shape)
        if self.is_training or mean is None or variance is None:
            center, rstd = (self._as_saved(b, v) for v in self._statistics(b, x)[:2])
        else:
            center = b.along(b.wide(mean), 1, rank)
            rstd = _inverse_root(b, b.along(b.wide(variance), 1, rank), self.eps)
        return _affine(b, b.wide(x), center, rstd, weight, bias)

    def _as_saved(self, b: Build, statistic: Value) -> Value:
        """Eager normalises with the statistics that it has saved, so with their rounding."""
        return b.wide(b.cast(statistic, dtype_of(self.call, self.call.results[1])))

    def _statistics(self, b: Build, x: Value) -> tuple[Value, Value, Value]:
        """Mean, rstd and the sum of squared deviations of each channel, (1, C, 1, ...)."""
        mean, _, squares = b.deviations(b.wide(x), self.dims)
        return mean, _inverse_root(b, b.div(squares, count(x.shape, self.dims)), self.eps), squares

    def _saved(self, result: int) -> Body:
        return lambda b, r: b.without(self._statistics(b, r[0])[result - 1], self.dims)

    def _moved(self, k: int, place: NodeId) -> Write:
        """momentum * (mean, or unbiased variance) + (1 - momentum) * what it was."""

        def body(b: Build, r: list[Value]) -> Value:
            x, old = r
            mean, _, squares = self._statistics(b, x)
            new = mean if k == 0 else b.div(squares, count(x.shape, self.dims) - 1)
            new = b.mul(b.without(new, self.dims), self.momentum)
            return b.add(new, b.mul(b.wide(old), 1 - self.momentum))

        return onto(self.call, place, body, self.source, place)


def _batch(is_training: bool | None, running: bool = True, updates: bool = True) -> Rule:
    """``is_training`` None: an argument says so. ``running``: does the overload take running statistics?"""

    def rule(call: Call) -> Writes:
        pair = (call.tensor(3, "running_mean"), call.tensor(4, "running_var")) if running else (None, None)
        position = 5 if running else 3
        training = call.arg(position, "training") if is_training is None else is_training
        position += is_training is None
        momentum, eps = _number(call.arg(position, "momentum")), _number(call.arg(position + 1, "eps"))
        if momentum is None or eps is None:
            return None
        affine = (call.tensor(1, "weight"), call.tensor(2, "bias"))
        moves = bool(training) and updates
        return _Batch(call, call.operands[0], affine, pair, bool(training), moves, momentum, eps).writes()

    return rule


RULES: dict[str, Rule] = {
    "native_layer_norm.default": layer_norm,
    "native_layer_norm_backward.default": layer_norm_backward,
    "_fused_rms_norm.default": rms_norm,
    "native_group_norm.default": group_norm,
    "native_batch_norm.default": _batch(None),
    "cudnn_batch_norm.default": _batch(None),
    "_native_batch_norm_legit.default": _batch(None),
    "_native_batch_norm_legit.no_stats": _batch(None, running=False),
    "_batch_norm_with_update.default": _batch(True),
    "_batch_norm_no_update.default": _batch(False, updates=False),
}
