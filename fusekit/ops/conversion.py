"""Copies: the same value, perhaps in another dtype."""

from fusekit.dtypes import DType
from fusekit.ops.entry import Call, Entry, Refused
from fusekit.ops.promotion import SUPPORTED


def _copy(call: Call) -> tuple[DType, str]:
    dtype = call.promoted("self")
    return dtype, call.value("self", dtype)


def _to_copy(call: Call) -> tuple[DType, str]:
    """Memory format and layout do not change a value; a move to another device is the caller's to see."""
    target = call.bound["dtype"]
    if target is None:
        return _copy(call)
    if not isinstance(target, DType) or target not in SUPPORTED:
        raise Refused(f"no kernel stores {target}")
    call.promoted("self")
    return target, call.value("self", target)


def _copy_from(call: Call) -> tuple[DType, str]:
    """``copy(self, src)``: src in self's dtype; self gives its shape only."""
    dtype = call.promoted("self")
    call.promoted("src")
    return dtype, call.value("src", dtype)


_FACTORY = "dtype=None, layout=None, device=None, pin_memory=None"

ENTRIES = {
    "clone.default": Entry("self, *, memory_format=None", _copy),
    "alias.default": Entry("self", _copy),
    "detach.default": Entry("self", _copy),
    "lift_fresh.default": Entry("self", _copy),
    "lift_fresh_copy.default": Entry("self", _copy),
    "_to_copy.default": Entry(f"self, *, {_FACTORY}, non_blocking=False, memory_format=None", _to_copy),
    "copy.default": Entry("self, src, non_blocking=False", _copy_from),
}
