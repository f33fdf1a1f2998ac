"""What CUDA kernels hold: dtypes, their width in memory, and how many fit into one access."""

from __future__ import annotations

# dtype name -> bytes in memory. bf16 and f16 are float32 in registers: loads widen, stores round to nearest even.
WIDTHS: dict[str, int] = {
    "bool": 1, "u8": 1, "i8": 1, "u16": 2, "i16": 2, "f16": 2, "bf16": 2,
    "u32": 4, "i32": 4, "f32": 4, "u64": 8, "i64": 8, "f64": 8,
}  # fmt: skip
HALVES = ("bf16", "f16")
WIDEST = 16
"""Bytes of the widest access of one thread."""


def lane_counts(name: str) -> tuple[int, ...]:
    """How many elements one vector access may have: 2, 4, 8 or 16, up to 16 bytes."""
    return tuple(n for n in (2, 4, 8, 16) if n * WIDTHS[name] <= WIDEST)


# What calls a kernel passes in eight bytes each, by the kind of a parameter (``lower.Param.kind``).
PARAMETERS = {"address": "int64", "int": "int64", "float": "float64"}
