"""Texts of folds across lanes, threads and blocks: how two accumulators become one."""

from __future__ import annotations

from fusekit.dtypes import F32, DType
from fusekit.lower.program import Fold
from fusekit.lower.scalars import HALVES

ARG = {Fold.ARGMAX: "argmax_of", Fold.ARGMIN: "argmin_of"}
WORDS = {Fold.SUM: "sum", Fold.PROD: "prod", Fold.MAX: "max", Fold.MIN: "min", Fold.ANY: "max", Fold.ALL: "min"}
"""What the reductions across lanes and threads are called; a bool travels as an int32."""


def carried(dtype: DType) -> DType:
    """The dtype as which a register travels through scratch and shared memory."""
    return F32 if dtype in HALVES else dtype


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
