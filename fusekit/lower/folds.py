"""Texts of folds: where an accumulator starts, and how two become one."""

from __future__ import annotations

from fusekit.dtypes import BOOL, F32, DType
from fusekit.lower.program import Fold
from fusekit.lower.scalars import HALVES
from fusekit.ops import REGISTER, literal

ARG = {Fold.ARGMAX: "argmax_of", Fold.ARGMIN: "argmin_of"}
WORDS = {Fold.SUM: "sum", Fold.PROD: "prod", Fold.MAX: "max", Fold.MIN: "min", Fold.ANY: "max", Fold.ALL: "min"}
"""What the reductions across lanes and threads are called; a bool travels as an int32."""


def carried(dtype: DType) -> DType:
    """The dtype as which a register travels through scratch and shared memory."""
    return F32 if dtype in HALVES else dtype


def identity(fold: Fold, dtype: DType) -> str:
    """The accumulator of no element."""
    match fold:
        case Fold.SUM | Fold.ANY:
            return literal(0, dtype)
        case Fold.PROD | Fold.ALL:
            return literal(1, dtype)
        case Fold.MAX | Fold.ARGMAX:
            return _extreme(dtype, -1)
        case Fold.MIN | Fold.ARGMIN:
            return _extreme(dtype, 1)


def _extreme(dtype: DType, sign: int) -> str:
    if dtype is BOOL:
        return str(sign > 0)
    if dtype.is_floating:
        return f"{REGISTER[dtype]}({'-' if sign < 0 else ''}np.inf)"
    bits = 8 * dtype.width
    low, high = (0, (1 << bits) - 1) if dtype.kind == "uint" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return f"{REGISTER[dtype]}({high if sign > 0 else low})"


def joined(fold: Fold, a: str, b: str) -> str:
    """Two accumulators as one; not for arg-folds."""
    match fold:
        case Fold.SUM:
            return f"{a} + {b}"
        case Fold.PROD:
            return f"{a} * {b}"
        case Fold.ANY:
            return f"{a} | {b}"
        case Fold.ALL:
            return f"{a} & {b}"
        case Fold.MAX | Fold.MIN:
            return f"{fold.value}_nan({a}, {b})"
        case _:
            raise AssertionError(f"{fold} joins pairs")


def arg_function(fold: Fold) -> list[str]:
    """A function that joins two pairs (extreme, position): NaN wins, of equals the first position."""
    sign = ">" if fold is Fold.ARGMAX else "<"
    return [
        f"def {ARG[fold]}(x, x_at, y, y_at):",
        f"    better = (y {sign} x) | ((y != y) & (x == x))",
        "    equal = (y == x) | ((y != y) & (x != x))",
        "    return (y, y_at) if better | (equal & (y_at < x_at)) else (x, x_at)",
    ]
