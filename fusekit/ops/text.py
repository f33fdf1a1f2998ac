"""Texts of typed constants and of conversions between dtypes, as torch's CPU kernels convert.

A *register* is what holds a value of a dtype while a kernel computes: ``np.bool_``, ``np.int8`` ... ``np.float64``;
float16 and bfloat16 are held in ``np.float32`` and rounded after each op.
"""

import math

import numpy as np

from fusekit.dtypes import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, DType
from fusekit.ops import scalar

REGISTER: dict[DType, str] = {
    BOOL: "np.bool_",
    U8: "np.uint8",
    I8: "np.int8",
    I16: "np.int16",
    I32: "np.int32",
    I64: "np.int64",
    F16: "np.float32",
    BF16: "np.float32",
    F32: "np.float32",
    F64: "np.float64",
}
"""The type of the register of each dtype that fused kernels compute in."""

HALVES = {F16: "to_f16", BF16: "to_bf16"}


def opmath(dtype: DType) -> DType:
    """The dtype that one op computes in: float32 for the halves."""
    return F32 if dtype in HALVES else dtype


def rounded(text: str, dtype: DType) -> str:
    """``text``, computed in ``opmath(dtype)`` or in wider integers, as a register of ``dtype``."""
    if dtype in HALVES:
        return f"{HALVES[dtype]}({text})"
    return text if dtype.is_floating or dtype is BOOL else f"{REGISTER[dtype]}({text})"


def _wrapped(value: int, dtype: DType) -> int:
    span = 1 << (8 * dtype.width)
    low = -(span >> 1) if dtype.kind == "int" else 0
    return (value - low) % span + low


def literal(value: bool | int | float, dtype: DType) -> str:
    """The text of ``value``, converted as torch converts a Python number; raises ValueError if it cannot be."""
    if dtype is BOOL:
        return "True" if value else "False"
    if dtype.is_integral:
        if not math.isfinite(value):
            raise ValueError(f"{value} is not an integer")
        return f"{REGISTER[dtype]}({_wrapped(int(value), dtype)})"
    # an integer is rounded once, from the integer
    exact = np.int64(value) if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else np.float64(value)
    with np.errstate(over="ignore"):
        number = np.float64(exact) if dtype is F64 else np.float32(exact)
        if dtype in HALVES:
            number = getattr(scalar, HALVES[dtype])(number)
    if np.isnan(number):
        return f"{REGISTER[dtype]}(np.nan)"
    if np.isinf(number):
        return f"{REGISTER[dtype]}({'' if number > 0 else '-'}np.inf)"
    return f"{REGISTER[dtype]}({number!s})"


def _to_integer(text: str, source: DType, target: DType) -> str:
    if source.is_floating:
        wide = "float_to_i64" if target in (I64, U8) else "float_to_i32"
        text = f"{wide}({text})"
        if target in (I32, I64):
            return text
    return f"{REGISTER[target]}({text})"


def cast(text: str, source: DType, target: DType) -> str:
    """``text``, a register of ``source``, as a register of ``target``. ``text`` must bind tighter than a comparison."""
    if source == target:
        return text
    if target is BOOL:
        return f"({text} != {literal(0, source)})"
    if target.is_integral:
        return _to_integer(text, source, target)
    if REGISTER[source] != REGISTER[opmath(target)]:
        text = f"{REGISTER[opmath(target)]}({text})"
    return rounded(text, target) if target in HALVES else text


def parameter(name: str, example: int | float, dtype: DType) -> str:
    """``name``, a Python number (or an int64 or float64 kernel parameter), as a register of ``dtype``."""
    source = I64 if isinstance(example, int) else F64
    return cast(f"{REGISTER[source]}({name})", source, dtype)
