"""``fusekit.overlap``: how two actual tensors share memory."""

from __future__ import annotations

import torch

from fusekit.errors import FusekitError
from fusekit.ir import Layout
from fusekit.memory import Overlap, Sharing, sharing
from fusekit.torch_types import FROM_TORCH


def overlap(a: torch.Tensor, b: torch.Tensor) -> Sharing:
    """How two tensors share memory, byte for byte, and what one is of the other.

    ``fk.overlap(x, x[0])`` is ``CONTAINS: the second is row 0 of the first``, and ``== "CONTAINS"``. UNKNOWN where the
    search ran out of its budget: treat it as overlapping. Raises FusekitError for what has no layout of bytes (no
    tensor, sparse, quantized, nested, a fake, on the device "meta").
    """
    for name, t in (("first", a), ("second", b)):
        if problem := _without_bytes(t):
            raise FusekitError(f"overlap compares two dense tensors; the {name} is {problem}", None, _mend(t))
    if a.device != b.device:
        return Sharing(Overlap.DISJOINT, "on two devices", 0)
    low = min(a.data_ptr(), b.data_ptr())
    layouts = [
        Layout.of(t.data_ptr() - low, t.shape, [s * t.element_size() for s in t.stride()], FROM_TORCH[t.dtype])
        for t in (a, b)
    ]
    return sharing(*layouts)


def _without_bytes(t: object) -> str | None:
    if not isinstance(t, torch.Tensor):
        return f"{t!r:.60} of type {type(t).__name__}"
    if t.is_nested:
        return "a nested tensor"
    if t.layout != torch.strided:
        return f"a {str(t.layout).removeprefix('torch.')} tensor"
    if t.dtype not in FROM_TORCH:
        return f"a tensor of {t.dtype}"
    try:
        t.data_ptr()
    except RuntimeError:
        return f"a {type(t).__name__} without memory"
    return f"a tensor without memory on {t.device}" if t.device.type == "meta" else None


def _mend(t: object) -> str:
    is_sparse = isinstance(t, torch.Tensor) and t.layout != torch.strided
    return "compare its values() and its indices" if is_sparse else "pass two ordinary tensors"
