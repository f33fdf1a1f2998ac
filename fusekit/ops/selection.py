"""Choosing one of several values: exact. NaN is propagated by maximum, minimum and clamp, skipped by fmax and fmin."""

from fusekit.dtypes import BF16, BOOL, F16, F32, F64, DType
from fusekit.ops.entry import Call, Entry, Refused, Rule, refuse_unless
from fusekit.ops.text import literal, rounded

_LARGEST = {F16: 65504.0, BF16: 3.3895313892515355e38, F32: 3.4028234663852886e38, F64: 1.7976931348623157e308}


def _extreme(function: str) -> Rule:
    def rule(call: Call) -> tuple[DType, str]:
        dtype = call.promoted("self", "other")
        a, b = call.value("self", dtype), call.value("other", dtype)
        if dtype is BOOL:
            return dtype, f"{a} {'|' if function.endswith('ax') or function == 'maximum' else '&'} {b}"
        return dtype, f"{function}({a}, {b})"

    return rule


def _clamped(x: str, call: Call, dtype: DType, low: str | None, high: str | None) -> str:
    """min(max(x, low), high), so that ``high`` wins where the bounds cross."""
    refuse_unless(dtype, "int float")
    nans = [name for name in (low, high) if name and _is_nan(call.bound[name])]
    if nans:
        return call.value(nans[0], dtype)
    if low and call.bound[low] is not None:
        x = f"clamp_min({x}, {call.value(low, dtype)})"
    if high and call.bound[high] is not None:
        x = f"clamp_max({x}, {call.value(high, dtype)})"
    return x


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and value != value


def _clamp(low: str | None, high: str | None) -> Rule:
    def rule(call: Call) -> tuple[DType, str]:
        names = [name for name in (low, high) if name]
        dtype = call.promoted("self", *names)
        return dtype, _clamped(call.value("self", dtype), call, dtype, low, high)

    return rule


def _hardtanh(call: Call) -> tuple[DType, str]:
    dtype = call.promoted("self")
    return dtype, _clamped(call.value("self", dtype), call, dtype, "min_val", "max_val")


def _relu(call: Call) -> tuple[DType, str]:
    dtype = refuse_unless(call.promoted("self"), "int float")
    return dtype, f"clamp_min({call.value('self', dtype)}, {literal(0, dtype)})"


def _relu6(call: Call) -> tuple[DType, str]:
    dtype, text = _relu(call)
    return dtype, f"clamp_max({text}, {literal(6, dtype)})"


def _threshold(call: Call) -> tuple[DType, str]:
    dtype = refuse_unless(call.promoted("self"), "int float")
    x = call.value("self", dtype)
    return dtype, f"{call.value('value', dtype)} if {x} <= {call.value('threshold', dtype)} else {x}"


def _where(call: Call) -> tuple[DType, str]:
    dtype = call.promoted("self", "other")
    choice = call.value("condition", BOOL)
    return dtype, f"{call.value('self', dtype)} if {choice} else {call.value('other', dtype)}"


def _masked_fill(call: Call) -> tuple[DType, str]:
    dtype = call.promoted("self")
    value, mask = call.value("value", dtype), call.value("mask", BOOL)
    return dtype, f"{value} if {mask} else {call.value('self', dtype)}"


def _nan_to_num(call: Call) -> tuple[DType, str]:
    dtype = call.promoted("self")
    x = call.value("self", dtype)
    if dtype.is_integral:
        return dtype, x
    top = _LARGEST[dtype]
    defaults = {"nan": 0.0, "posinf": top, "neginf": -top}
    texts = [literal(v, dtype) if call.bound[n] is None else call.value(n, dtype) for n, v in defaults.items()]
    return dtype, f"nan_to_num({x}, {', '.join(texts)})"


def _sign(call: Call) -> tuple[DType, str]:
    dtype = call.promoted("self")
    x = call.value("self", dtype)
    return dtype, x if dtype is BOOL else rounded(f"sign({x})", dtype)


def _heaviside(call: Call) -> tuple[DType, str]:
    dtype = call.promoted("self", "values")
    if call.kind("self").dtype != call.kind("values").dtype:  # type: ignore[union-attr]
        raise Refused("heaviside of two dtypes raises")
    refuse_unless(dtype, "int float")
    x, zero = call.value("self", dtype), literal(0, dtype)
    return dtype, f"{call.value('values', dtype)} if {x} == {zero} else {literal(1, dtype)} if {x} > {zero} else {zero}"


_PAIR = "self, other"

ENTRIES = {
    **{f"{name}.default": Entry(_PAIR, _extreme(name)) for name in ("maximum", "minimum", "fmax", "fmin")},
    "max.other": Entry(_PAIR, _extreme("maximum")),
    "min.other": Entry(_PAIR, _extreme("minimum")),
    "clamp.default": Entry("self, min=None, max=None", _clamp("min", "max")),
    "clamp.Tensor": Entry("self, min=None, max=None", _clamp("min", "max")),
    "clamp_min.default": Entry("self, min", _clamp("min", None)),
    "clamp_min.Tensor": Entry("self, min", _clamp("min", None)),
    "clamp_max.default": Entry("self, max", _clamp(None, "max")),
    "clamp_max.Tensor": Entry("self, max", _clamp(None, "max")),
    "hardtanh.default": Entry("self, min_val=-1, max_val=1", _hardtanh),
    "relu.default": Entry("self", _relu),
    "relu6.default": Entry("self", _relu6),
    "threshold.default": Entry("self, threshold, value", _threshold),
    "where.self": Entry("condition, self, other", _where),
    "where.ScalarSelf": Entry("condition, self, other", _where),
    "where.ScalarOther": Entry("condition, self, other", _where),
    "where.Scalar": Entry("condition, self, other", _where),
    "masked_fill.Scalar": Entry("self, mask, value", _masked_fill),
    "masked_fill.Tensor": Entry("self, mask, value", _masked_fill),
    "nan_to_num.default": Entry("self, nan=None, posinf=None, neginf=None", _nan_to_num),
    "sign.default": Entry("self", _sign),
    "sgn.default": Entry("self", _sign),
    "heaviside.default": Entry("self, values", _heaviside),
}
