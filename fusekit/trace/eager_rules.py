"""Eager's memory errors from layouts alone (memory/checks.py), for calls on torch tensors: what is worth asking eager
about, and what to raise where the storages are too large to ask."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from fusekit.ir import Layout
from fusekit.memory import Status, as_strided_error, is_expanded, operand_error, overlap_status, write_error
from fusekit.memory.checks import NEVER_OVERLAPPING, RESHAPING
from fusekit.torch_types import FROM_TORCH
from fusekit.trace.nested import tensors_in
from fusekit.trace.schema import base_name, bound, operands

_UNCHECKED = frozenset({"slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter"})
_HALF_MOST = 65504
Room = Callable[[torch.Tensor], int]


def is_reshaping(name: str) -> bool:
    """Does the op change a tensor's own metadata?"""
    return name in RESHAPING


def is_suspicious(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """A writing op whose memory or dtypes eager may refuse, or an op whose fake checks no shapes or no numbers."""
    name = base_name(func)
    if name in _UNCHECKED or _has_huge_number(args, kwargs) or type(kwargs.get("alpha")) is bool:
        return True
    if not func._schema.is_mutable or name in RESHAPING or name == "detach_":
        return False
    writes, reads = (list(tensors_in(values)) for values in operands(func, args, kwargs))
    may_refuse_itself = name in NEVER_OVERLAPPING or "out" in func._schema.overload_name
    if any(type(x) is complex for x in (*args, *kwargs.values())) and not all(w.is_complex() for w in writes):
        return True
    for w in writes:
        if is_expanded(_layout(w)) or (not w.dtype.is_floating_point and name not in ("zero_", "copy_")):
            return True
        for r in reads:
            if (r.dtype != w.dtype and name != "copy_") or (r is w and may_refuse_itself):
                return True
            if r is not w and _status(w, r) in (Status.FULL, Status.PARTIAL):
                return True
    return False


def _has_huge_number(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Is there a finite number that some dtype here cannot hold? (fill_ and clamp refuse it, add does not.)"""
    huge = [abs(x) for x in (*args, *kwargs.values()) if type(x) in (int, float) and _HALF_MOST < abs(x) < math.inf]
    if not huge:
        return False
    dtypes = {t.dtype for t in tensors_in([list(args), dict(kwargs)]) if t.dtype.is_floating_point}
    return any(max(huge) > torch.finfo(dtype).max for dtype in dtypes)


def error_by_rules(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], room: Room) -> str | None:
    """Eager's message, where memory alone makes it raise RuntimeError. ``room``: bytes of a tensor's storage."""
    name = base_name(func)
    if name in ("as_strided", "as_strided_"):
        t, shape, strides, offset = _as_strided(func, args, kwargs)
        return as_strided_error(shape, strides, offset, t.element_size(), room(t))
    if not func._schema.is_mutable:
        return None
    is_scalar = not any(isinstance(v, torch.Tensor) for a, v in bound(func, args, kwargs) if a.name == "value")
    for outs, ins in _pairs(func, args, kwargs):
        for w in outs:
            error = write_error(name, _layout(w), scalar=is_scalar) or _read_error(name, w, ins)
            if error:
                return error
    return None


def _read_error(name: str, w: torch.Tensor, ins: Sequence[torch.Tensor]) -> str | None:
    for r in ins:
        same = _is_same_storage(w, r)
        if error := operand_error(name, _layout(w), _layout(r), same_object=r is w, same_storage=same):
            return error
    return None


def _layout(t: torch.Tensor) -> Layout:
    """The tensor in its storage, in bytes."""
    dtype = FROM_TORCH[t.dtype]
    width = dtype.width
    return Layout.of(int(t.storage_offset()) * width, t.shape, [stride * width for stride in t.stride()], dtype)


def _status(a: torch.Tensor, b: torch.Tensor) -> Status:
    same = _is_same_storage(a, b)
    return overlap_status(_layout(a), _layout(b), same_storage=True) if same else Status.NO


def _is_same_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def _as_strided(
    func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[torch.Tensor, Sequence[int], Sequence[int], int]:
    given = {argument.name: value for argument, value in bound(func, args, kwargs)}
    t, offset = given["self"], given.get("storage_offset")
    return t, given["size"], given["stride"], t.storage_offset() if offset is None else offset


def _pairs(
    func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[list[torch.Tensor], list[torch.Tensor]]]:
    """(written, read) tensors that eager compares: all of a call, or one row of a foreach call."""
    if base_name(func).startswith("_foreach"):
        lists = [list(tensors_in(v)) for _, v in bound(func, args, kwargs) if isinstance(v, (list, tuple))]
        return [([row[0]], list(row[1:])) for row in zip(*(column for column in lists if column), strict=False)]
    writes, reads = operands(func, args, kwargs)
    return [(list(tensors_in(writes)), list(tensors_in(reads)))]
