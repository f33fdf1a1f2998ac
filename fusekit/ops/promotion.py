"""torch's type promotion, without torch.

Operands fall into three classes of rising priority: Python numbers, tensors of rank zero, tensors with dimensions. A
lower class changes the result only if its category (bool, integer, float, complex) is higher than that of the classes
above it (``torch.result_type``, ATen's ``ResultTypeState``).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fusekit import dtypes
from fusekit.dtypes import (
    BF16,
    BOOL,
    C32,
    C64,
    C128,
    F8_E4M3,
    F8_E5M2,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    DType,
)

_UNSIGNED = (U16, U32, U64)
_CATEGORY = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}
_COMPLEX_OF = {F16: C32, BF16: C64, F32: C64, F64: C128}


@dataclass(frozen=True, slots=True)
class Kind:
    """What promotion needs to know of an operand: a tensor's ``dtype`` and rank, or a Python ``number`` type.

    ``single``: the tensor has one element whatever its rank; ATen then reads it unrounded in some half kernels.
    """

    dtype: DType | None
    rank_zero: bool = False
    number: type | None = None
    single: bool = False


def number_kind(value: object) -> Kind:
    """The kind of a Python number."""
    return Kind(None, True, type(value), True)


def _number_dtype(number: type, default: DType) -> DType:
    if number is bool:
        return BOOL
    if number is int:
        return I64
    if number is complex:
        return _COMPLEX_OF[default]
    return default


def _join_integers(a: DType, b: DType) -> DType:
    if a.kind == b.kind:
        return a if a.width >= b.width else b
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    return signed if signed.width > unsigned.width else I16


def _join_complex(a: DType, b: DType) -> DType:
    wide = [x if x.is_complex else _COMPLEX_OF[x] if x.is_floating else C32 for x in (a, b)]
    return max(wide, key=lambda x: x.width)


def _refuses(low: DType, high: DType) -> bool:
    """Pairs of different dtypes that torch's table leaves out; ``low`` is of the lower or the same category."""
    narrow_float = high in (F8_E4M3, F8_E5M2) or low in (F8_E4M3, F8_E5M2)
    return narrow_float or (low in _UNSIGNED and not high.is_floating) or high in _UNSIGNED


def join(a: DType, b: DType) -> DType:
    """torch.promote_types; raises TypeError where torch refuses (8-bit floats, wide unsigned integers)."""
    if a == b:
        return a
    low, high = sorted((a, b), key=lambda x: _CATEGORY[x.kind])
    if _refuses(low, high):
        raise TypeError(f"torch does not promote {a} with {b}")
    if low is BOOL:
        return high
    if high.is_complex:
        return _join_complex(a, b)
    if high.is_floating and low.is_floating:
        return F32 if a.width == b.width else max(a, b, key=lambda x: x.width)
    return high if high.is_floating else _join_integers(a, b)


def _above(higher: DType | None, lower: DType | None) -> DType | None:
    """The result of two priority classes."""
    if higher is None or lower is None:
        return higher or lower
    if higher is not BOOL and _CATEGORY[higher.kind] >= _CATEGORY[lower.kind]:
        return higher
    if lower.is_complex and higher not in (F8_E4M3, F8_E5M2):
        return _COMPLEX_OF.get(higher, lower)
    return join(higher, lower)


def _joined(members: list[DType]) -> DType | None:
    result = None
    for dtype in members:
        result = dtype if result is None else join(result, dtype)
    return result


def result_type(kinds: Iterable[Kind], default: DType = F32) -> DType:
    """The dtype that torch computes a promoting op in. ``default`` is torch's default float dtype."""
    kinds = tuple(kinds)
    tensors = [k.dtype for k in kinds if k.dtype is not None and not k.rank_zero]
    scalars = [k.dtype for k in kinds if k.dtype is not None and k.rank_zero]
    numbers = [_number_dtype(k.number, default) for k in kinds if k.dtype is None and k.number is not None]
    result = _above(_joined(tensors), _above(_joined(scalars), _joined(numbers)))
    if result is None:
        raise TypeError("promotion of nothing")
    return result


SUPPORTED = (BOOL, U8, I8, I16, I32, I64, F16, BF16, F32, F64)
"""The dtypes that fused kernels compute in."""

assert set(SUPPORTED) <= set(dtypes.ALL)
