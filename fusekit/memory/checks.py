"""Eager's memory errors on layouts alone: each function gives eager's message, or None where eager goes on.

The rules are those of aten/src/ATen/MemoryOverlap.cpp, and of the ops that ask it or do not. Nothing is raised here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from fusekit.ir import Layout


class Status(Enum):
    """What eager's ``get_overlap_status`` says; TOO_HARD is let through."""

    FULL = "full"
    PARTIAL = "partial"
    NO = "no"
    TOO_HARD = "too hard"


WRITTEN_TWICE = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)
READ_AND_WRITTEN = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)

RESHAPING = frozenset(
    {
        "as_strided_",
        "resize_",
        "resize_as_",
        "set_",
        "squeeze_",
        "swapaxes_",
        "swapdims_",
        "t_",
        "transpose_",
        "unsqueeze_",
    }
)
"""Ops that change a tensor's layout, not its elements."""

UNCHECKED = RESHAPING | frozenset(
    {
        "_index_put_impl_",
        "detach_",
        "fill_",
        "index_put_",
        "rename_",
        "zero_",
    }
)
"""Ops that write through stride-0 dimensions, and over their operands, without complaint."""

NEVER_OVERLAPPING = frozenset(
    {
        "cat",
        "gather",
        "index_add_",
        "index_copy_",
        "index_fill_",
        "index_reduce_",
        "index_select",
        "masked_scatter_",
        "put_",
        "scatter_",
        "scatter_add_",
        "scatter_reduce_",
        "take",
    }
)
"""Ops that refuse even an operand that is the very same memory (``assert_no_overlap``)."""


def is_dense(layout: Layout) -> bool:
    """Eager's ``is_non_overlapping_and_dense``: some order of the dimensions makes it contiguous."""
    if layout.numel < 2:
        return True
    expected = layout.dtype.width
    for stride, size in sorted((s, n) for n, s in layout.axes()):
        if stride != expected:
            return False
        expected *= size
    return True


def is_expanded(layout: Layout) -> bool:
    """Has it a dimension of stride 0 and several elements? All that eager knows of internal overlap."""
    return not is_dense(layout) and any(s == 0 for _, s in layout.axes())


def overlap_status(a: Layout, b: Layout, *, same_storage: bool = True) -> Status:
    """Eager's ``get_overlap_status`` of two tensors that are not one object. Offsets must be constant.

    ``same_storage`` is False for two storage objects, whatever bytes they hold.
    """
    if not a.numel or not b.numel:
        return Status.NO
    if not is_dense(a) or not is_dense(b):
        return Status.TOO_HARD
    if not same_storage:
        return Status.NO
    first, second = (a.offset.const, a.offset.const + a.nbytes), (b.offset.const, b.offset.const + b.nbytes)
    if first == second:
        return Status.FULL if _element_strides(a) == _element_strides(b) else Status.PARTIAL
    return Status.PARTIAL if first[0] < second[1] and second[0] < first[1] else Status.NO


def _element_strides(layout: Layout) -> tuple[int, ...]:
    return tuple(s // layout.dtype.width for s in layout.strides)


def write_error(name: str, target: Layout, *, scalar: bool = False) -> str | None:
    """Rule 12: a write through stride 0. ``name`` is the op without namespace and overload.

    ``scalar`` says that what is written is a number (``masked_fill_`` then lets it pass).
    """
    if name in UNCHECKED or (scalar and name == "masked_fill_"):
        return None
    return WRITTEN_TWICE if is_expanded(target) else None


def operand_error(
    name: str, target: Layout, operand: Layout, *, same_object: bool = False, same_storage: bool = True
) -> str | None:
    """Rules 13 to 15: an operand that shares memory with the written tensor, both dense.

    The very same map is allowed, except by ops that read elsewhere than they write.
    """
    if name in UNCHECKED:
        return None
    status = Status.FULL if same_object else overlap_status(target, operand, same_storage=same_storage)
    if status is Status.PARTIAL or (status is Status.FULL and name in NEVER_OVERLAPPING):
        return READ_AND_WRITTEN
    return None


def memory_error(
    name: str, target: Layout, operands: Iterable[tuple[Layout, bool]] = (), *, scalar: bool = False
) -> str | None:
    """What eager says of a write to ``target`` that reads ``operands``, each with "is it the target's very object?"."""
    if error := write_error(name, target, scalar=scalar):
        return error
    found = (operand_error(name, target, operand, same_object=same) for operand, same in operands)
    return next((error for error in found if error), None)


def as_strided_error(shape: Sequence[int], strides: Sequence[int], offset: int, itemsize: int, room: int) -> str | None:
    """What ``as_strided`` says; strides and offset are in elements as the user gives them, ``room`` in bytes."""
    if any(s < 0 for s in strides):
        return f"as_strided: Negative strides are not supported at the moment, got strides: {list(strides)}"
    if not all(shape):
        return None
    needed = (offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1) * itemsize
    if offset < 0:
        return f"Tensor: invalid storage offset {offset}"
    if needed > room:
        return (
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, and itemsize "
            f"{itemsize} requiring a storage size of {needed} are out of bounds for storage of size {room}"
        )
    return None
