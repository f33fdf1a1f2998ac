"""Sums, products, quotients, powers: bit for bit as eager's CPU kernels."""

import math

from fusekit.dtypes import BOOL, F16, F32, DType
from fusekit.ir import Number, Operand
from fusekit.ops.entry import Call, Entry, Refused, Rule, floating, refuse_unless
from fusekit.ops.text import HALVES, literal, opmath, rounded

RAISES = "integer division raises on data"


def _lone_half(call: Call, dtype: DType) -> bool:
    """mul and div of a half by one element read that element unrounded (ATen's ``original_scalar_value``)."""
    kind = call.kind("other")
    return dtype in HALVES and kind is not None and (kind.rank_zero or kind.single)


def _second(call: Call, dtype: DType) -> str:
    return call.value("other", F32 if _lone_half(call, dtype) else dtype)


def _scaled_sum(call: Call, first: str, second: str, sign: int) -> tuple[DType, str]:
    """first + sign * alpha * second."""
    dtype = call.promoted(first, second)
    a, b, alpha = call.value(first, dtype), call.value(second, dtype), call.bound["alpha"]
    if dtype is BOOL:
        if sign < 0 or alpha not in (0, 1):
            raise Refused("no subtraction of bools")
        return dtype, f"{a} | {b}" if alpha else a
    if alpha in (1, -1) and not isinstance(alpha, Number):
        return dtype, rounded(f"{a} {'+' if sign * alpha > 0 else '-'} {b}", dtype)
    scale = call.value("alpha", dtype)
    if dtype.is_floating:
        return dtype, rounded(f"fma({b}, {'-' if sign < 0 else ''}{scale}, {a})", dtype)
    return dtype, rounded(f"{a} {'+' if sign > 0 else '-'} {scale} * {b}", dtype)


def _add(call: Call) -> tuple[DType, str]:
    return _scaled_sum(call, "self", "other", 1)


def _sub(call: Call) -> tuple[DType, str]:
    return _scaled_sum(call, "self", "other", -1)


def _rsub(call: Call) -> tuple[DType, str]:
    return _scaled_sum(call, "other", "self", -1)


def _mul(call: Call) -> tuple[DType, str]:
    dtype = call.promoted("self", "other")
    a, b = call.value("self", dtype), _second(call, dtype)
    return dtype, f"{a} & {b}" if dtype is BOOL else rounded(f"{a} * {b}", dtype)


def _true_div(call: Call) -> tuple[DType, str]:
    dtype = floating(call, "self", "other")
    return dtype, rounded(f"{call.value('self', dtype)} / {_second(call, dtype)}", dtype)


def _divisor(call: Call, dtype: DType) -> str:
    """The text of an integer divisor that is known, and neither 0 (eager raises) nor -1 (the lowest integer traps)."""
    value = call.bound["other"]
    if not isinstance(value, (bool, int, float)) or int(value) in (0, -1):
        raise Refused(RAISES)
    text = call.value("other", dtype)
    if text in (literal(0, dtype), literal(-1, dtype)):
        raise Refused(RAISES)
    return text


def _trunc_div(call: Call) -> tuple[DType, str]:
    dtype = call.promoted("self", "other")
    if dtype.is_integral:
        refuse_unless(dtype, "int")
        return dtype, rounded(f"trunc_div({call.value('self', dtype)}, {_divisor(call, dtype)})", dtype)
    quotient = f"{call.value('self', dtype)} / {_second(call, dtype)}"
    inner = quotient if _lone_half(call, dtype) else rounded(quotient, dtype)
    return dtype, rounded(f"np.trunc({inner})", dtype)


def _floor_div(call: Call) -> tuple[DType, str]:
    dtype = call.promoted("self", "other")
    if dtype.is_integral:
        refuse_unless(dtype, "int")
        return dtype, rounded(f"{call.value('self', dtype)} // {_divisor(call, dtype)}", dtype)
    if dtype in HALVES and not _lone_half(call, dtype):
        raise Refused("eager rounds each step of a floor division of halves")
    return dtype, rounded(f"floor_div({call.value('self', dtype)}, {_second(call, dtype)})", dtype)


def _div_mode(call: Call) -> tuple[DType, str]:
    rules = {None: _true_div, "trunc": _trunc_div, "floor": _floor_div}
    return rules[call.static("rounding_mode")](call)  # type: ignore[index]


def _remainder(call: Call) -> tuple[DType, str]:
    dtype = call.promoted("self", "other")
    a = call.value("self", dtype)
    if dtype.is_integral:
        refuse_unless(dtype, "int")
        return dtype, rounded(f"{a} % {_divisor(call, dtype)}", dtype)
    return dtype, rounded(f"remainder({a}, {call.value('other', dtype)})", dtype)


def _fmod(call: Call) -> tuple[DType, str]:
    dtype = call.promoted("self", "other")
    a = call.value("self", dtype)
    if dtype.is_integral:
        refuse_unless(dtype, "int")
        b = _divisor(call, dtype)
        return dtype, rounded(f"{a} - trunc_div({a}, {b}) * {b}", dtype)
    return dtype, rounded(f"np.fmod({a}, {call.value('other', dtype)})", dtype)


def _float_power(call: Call, dtype: DType) -> str:
    """ATen's special exponents, else the library's power."""
    base, exponent = call.value("self", dtype), call.bound["exponent"]
    inverse = f"{literal(1, opmath(dtype))} / "
    special = {
        1: base,
        2: f"{base} * {base}",
        3: f"{rounded(f'{base} * {base}', dtype)} * {base}",
        -1: f"{inverse}{base}",
        -2: f"{inverse}{rounded(f'({base} * {base})', dtype)}",
        0.5: f"np.sqrt({base})",
        -0.5: f"{inverse}{rounded(f'np.sqrt({base})', dtype)}",
    }
    roots_too = dtype is not F16 or exponent not in (0.5, -0.5)
    if isinstance(exponent, (int, float)) and exponent in special and roots_too:
        return special[exponent]
    return f"power({base}, {call.value('exponent', dtype)})"


def _pow(call: Call) -> tuple[DType, str]:
    dtype = refuse_unless(call.promoted("self", "exponent"), "int float")
    if dtype.is_floating:
        return dtype, rounded(_float_power(call, dtype), dtype)
    exponent = call.bound["exponent"]
    if isinstance(exponent, Number) or (isinstance(exponent, int) and exponent < 0):
        raise Refused("a negative integer exponent raises")
    return dtype, rounded(f"power_int({call.value('self', dtype)}, {call.value('exponent', dtype)})", dtype)


def _neg(call: Call) -> tuple[DType, str]:
    dtype = refuse_unless(call.promoted("self"), "int float")
    return dtype, rounded(f"-{call.value('self', dtype)}", dtype)


def _abs(call: Call) -> tuple[DType, str]:
    dtype = call.promoted("self")
    text = call.value("self", dtype)
    return dtype, text if dtype is BOOL else rounded(f"abs({text})", dtype)


def _same(call: Call) -> tuple[DType, str]:
    dtype = refuse_unless(call.promoted("self"), "int float")
    return dtype, call.value("self", dtype)


def _addcmul(call: Call) -> tuple[DType, str]:
    dtype = refuse_unless(call.promoted("self", "tensor1", "tensor2"), "int float")
    base, a, b = (call.value(name, dtype) for name in ("self", "tensor1", "tensor2"))
    one = call.bound["value"] == 1 and not isinstance(call.bound["value"], Number)
    if dtype.is_integral:
        scaled = a if one else f"{call.value('value', dtype)} * {a}"
        return dtype, rounded(f"{base} + {scaled} * {b}", dtype)
    scaled = a if one else f"{call.value('value', opmath(dtype))} * {a}"
    return dtype, rounded(f"fma({scaled}, {b}, {base})", dtype)


def _addcdiv(call: Call) -> tuple[DType, str]:
    dtype = refuse_unless(call.promoted("self", "tensor1", "tensor2"), "float")
    base, a, b = (call.value(name, dtype) for name in ("self", "tensor1", "tensor2"))
    one = call.bound["value"] == 1 and not isinstance(call.bound["value"], Number)
    scaled = a if one else f"{call.value('value', opmath(dtype))} * {a}"
    return dtype, rounded(f"{base} + {scaled} / {b}", dtype)


def _lerp(call: Call) -> tuple[DType, str]:
    dtype = refuse_unless(call.promoted("self", "end"), "float")
    scalar = not isinstance(call.bound["weight"], Operand)
    weight = call.value("weight", opmath(dtype) if scalar else dtype)
    return dtype, rounded(f"lerp({call.value('self', dtype)}, {call.value('end', dtype)}, {weight})", dtype)


def _times(factor: float) -> Rule:
    """Degrees and radians: one product, integers in the default float dtype."""

    def rule(call: Call) -> tuple[DType, str]:
        dtype = floating(call, "self")
        return dtype, rounded(f"{call.value('self', dtype)} * {literal(factor, opmath(dtype))}", dtype)

    return rule


def _dropout_backward(call: Call) -> tuple[DType, str]:
    dtype = refuse_unless(call.promoted("grad_output"), "float")
    grad, mask, scale = call.value("grad_output", dtype), call.value("mask", dtype), call.value("scale", opmath(dtype))
    return dtype, rounded(f"{grad} * ({rounded(f'{mask} * {scale}', dtype)})", dtype)


_PAIR, _SCALED, _MODE = "self, other", "self, other, *, alpha=1", "self, other, *, rounding_mode"

ENTRIES = {
    "add.Tensor": Entry(_SCALED, _add),
    "add.Scalar": Entry("self, other, alpha=1", _add),
    "sub.Tensor": Entry(_SCALED, _sub),
    "sub.Scalar": Entry("self, other, alpha=1", _sub),
    "rsub.Tensor": Entry(_SCALED, _rsub),
    "rsub.Scalar": Entry("self, other, alpha=1", _rsub),
    "mul.Tensor": Entry(_PAIR, _mul),
    "mul.Scalar": Entry(_PAIR, _mul),
    "div.Tensor": Entry(_PAIR, _true_div),
    "div.Scalar": Entry(_PAIR, _true_div),
    "div.Tensor_mode": Entry(_MODE, _div_mode),
    "div.Scalar_mode": Entry(_MODE, _div_mode),
    "true_divide.Tensor": Entry(_PAIR, _true_div),
    "floor_divide.default": Entry(_PAIR, _floor_div),
    "floor_divide.Scalar": Entry(_PAIR, _floor_div),
    "remainder.Tensor": Entry(_PAIR, _remainder),
    "remainder.Scalar": Entry(_PAIR, _remainder),
    "remainder.Scalar_Tensor": Entry(_PAIR, _remainder),
    "fmod.Tensor": Entry(_PAIR, _fmod),
    "fmod.Scalar": Entry(_PAIR, _fmod),
    "pow.Tensor_Scalar": Entry("self, exponent", _pow, ulps=2),
    "pow.Tensor_Tensor": Entry("self, exponent", _pow, ulps=2),
    "pow.Scalar": Entry("self, exponent", _pow, ulps=2),
    "rad2deg.default": Entry("self", _times(180 / math.pi)),
    "deg2rad.default": Entry("self", _times(math.pi / 180)),
    "native_dropout_backward.default": Entry("grad_output, mask, scale", _dropout_backward),
    "neg.default": Entry("self", _neg),
    "abs.default": Entry("self", _abs),
    "positive.default": Entry("self", _same),
    "addcmul.default": Entry("self, tensor1, tensor2, *, value=1", _addcmul),
    "addcdiv.default": Entry("self, tensor1, tensor2, *, value=1", _addcdiv),
    "lerp.Scalar": Entry("self, end, weight", _lerp),
    "lerp.Tensor": Entry("self, end, weight", _lerp),
}
