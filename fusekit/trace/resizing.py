"""Destinations that an op resizes, as eager does it: the object gets another layout, and its storage room for it.

What the program made is made large enough from the start, since nobody sees the bytes behind a tensor's elements; a
storage of the caller's without a byte grows when the call begins. One with bytes would have to move: that is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from fusekit.errors import UnsupportedError
from fusekit.trace.oracle import layouts_after
from fusekit.trace.origin import user_origin
from fusekit.trace.program import Call, Place
from fusekit.trace.spans import Span

if TYPE_CHECKING:
    from fusekit.trace.recorder import Recorder

aten = torch.ops.aten
RESIZING = (aten.resize_.default, aten.resize_as_.default)


def resize(recorder: Recorder, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``resize_`` and ``resize_as_``: elements that fit keep their bytes, and the strides become contiguous."""
    before = recorder.place(args[0])
    out = recorder.run(func, args, kwargs)
    _moved(recorder, func, args[0], before)
    return out


def resize_destinations(
    recorder: Recorder,
    func: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    written: Sequence[torch.Tensor],
    before: Sequence[Place],
) -> None:
    """``out=`` of another shape, after ``func`` ran on the stand-ins; ``before``: where ``written`` were."""
    if all(tuple(t.shape) == place.sizes for t, place in zip(written, before, strict=True)):
        return
    eager = recorder.asking(lambda: layouts_after(func, args, kwargs, written, before, recorder.room))
    layouts = eager or [(tuple(t.shape), t.stride()) for t in written]
    for t, place, layout in zip(written, before, layouts, strict=True):
        if layout != (tuple(t.shape), t.stride()):
            t.as_strided_(*layout)
        if tuple(t.shape) != place.sizes:
            _moved(recorder, func, t, place)


def _moved(recorder: Recorder, func: OpOverload, t: torch.Tensor, before: Place) -> None:
    """Record what ``func`` did to the layout of ``t``, as the op that changes nothing else."""
    now = recorder.place(t)
    if now == before:
        return
    needed = Span.of_place(now, 0, 0, 0).end
    if not recorder.make_room(t, needed):
        what = f"{func} makes a tensor of the caller's larger than its storage: {before.sizes} becomes {now.sizes}"
        raise UnsupportedError(what, recorder.where(), "give it a tensor of the right shape, or make a new one")
    number = recorder.ref(t).index
    args = (recorder.ref(t), list(now.sizes), list(now.strides))
    recorder.calls.append(
        Call(aten.as_strided_.default, args, {}, (number,), (now,), (number,), user_origin(recorder.stop))
    )
