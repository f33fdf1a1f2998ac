"""Indices looked at before anything uses them: ``fk.check_index`` raises what eager raises for one out of bounds.

A kernel looks at its indices itself, and only says that one is bad; then they are looked at again here, for the text.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch

from fusekit.errors import FusekitError
from fusekit.ids import NodeId
from fusekit.ir import Graph, Layout, Number, Op

_TEXTS = {
    "embedding": "index out of range in self",
    "index_select": "index out of range in self",
    "index": "index {found} is out of bounds for dimension 0 with size {size}",
    "gather": "index {found} is out of bounds for dimension {dim} with size {size}",
    "nll_loss_forward": "Target {found} is out of bounds.",
    "nll_loss2d_forward": "Target {found} is out of bounds.",
}
_INDICES = "INDICES element is out of DATA bounds, id={found} axis_dim={size}"
_ERRORS: dict[str, type[Exception]] = {"IndexError": IndexError, "RuntimeError": RuntimeError}


class Parameter(Protocol):
    """One parameter of a kernel: the address of memory block ``node``, or the graph's number ``number``."""

    @property
    def name(self) -> str: ...
    @property
    def node(self) -> NodeId | None: ...
    @property
    def number(self) -> Number | None: ...


def watched(
    function: Callable[..., int | None],
    graph: Graph,
    checks: Sequence[NodeId],
    params: Sequence[Parameter],
    room: int = 0,
) -> Callable[..., None]:
    """A kernel that gives back 1 for a bad index and 2 where it got no memory, as a function that raises eager's error:
    of its first bad check, or for ``room`` bytes that are not there."""

    def run(*args: int | float) -> None:
        found = function(*args)
        if found == 2:
            raise RuntimeError(f"[fusekit] can't allocate memory: a kernel tried to allocate {room} bytes")
        if found:
            for op in checks:
                place = graph.operands(op)[0]
                home = next(k for k, param in enumerate(params) if param.node == graph.block_of(place))
                numbers = {p.name: int(a) for p, a in zip(params, args, strict=True) if p.number is not None}
                check_index(_at(int(args[home]), graph.layout(place), numbers), graph.op(op))

    return run


def _at(address: int, layout: Layout, numbers: dict[str, int]) -> torch.Tensor:
    """A copy of the elements of a layout in a block of the CPU that starts at ``address``."""
    low = sum(min(0, stride * (size - 1)) for size, stride in layout.axes())
    high = sum(max(0, stride * (size - 1)) for size, stride in layout.axes()) + layout.dtype.width
    start = address + layout.offset.evaluate(numbers)
    memory = (ctypes.c_char * (high - low)).from_address(start + low)
    kind = np.int32 if layout.dtype.width == 4 else np.int64
    return torch.from_numpy(np.ndarray(layout.shape, kind, memoryview(memory), -low, layout.strides).copy())


def check_index(index: torch.Tensor, op: Op) -> None:
    """Raise eager's error where an index is not in ``[0, size)``, nor ``ignore``, nor, if it ``wraps``, negative.

    The text names the first bad index in row-major order (eager's, with several threads, any one).
    """
    size, wraps, ignore = (op.kwarg(name) for name in ("size", "wraps", "ignore"))
    if not isinstance(size, int):
        raise FusekitError(f"the size {size!r} of an index check is no number")
    flat = index.reshape(-1).long()
    bad = (flat < (-size if wraps else 0)) | (flat >= size)
    if ignore is not None:
        bad &= flat != ignore
    if bool(bad.any()):
        raise error(op, int(flat[bad][0]))


def error(op: Op, found: int) -> Exception:
    """The exception that eager raises at ``op`` for the index ``found``."""
    name = str(op.kwarg("error"))
    of = str(op.kwarg("of"))
    text = _INDICES if of == "index_select" and name == "RuntimeError" else _TEXTS[of]
    return _ERRORS[name](text.format(found=found, size=op.kwarg("size"), dim=op.kwarg("dim")))
