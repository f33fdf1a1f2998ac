"""Indices looked at before anything uses them: ``fk.check_index`` raises what eager raises for one out of bounds.

A kernel looks at its indices itself, and only says that one is bad; then they are looked at again here, for the text.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch

from fusekit.ids import NodeId
from fusekit.ir import Graph, Layout, Number, core

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
                place, what = graph.operands(op)[0], graph.what(op)
                assert isinstance(what, core.CheckIndex), f"{op} is no check"
                home = next(k for k, param in enumerate(params) if param.node == graph.block_of(place))
                numbers = {p.name: int(a) for p, a in zip(params, args, strict=True) if p.number is not None}
                check_index(_at(int(args[home]), graph.layout(place), numbers), what)

    return run


def _at(address: int, layout: Layout, numbers: dict[str, int]) -> torch.Tensor:
    """A copy of the elements of a layout in a block of the CPU that starts at ``address``."""
    low = sum(min(0, stride * (size - 1)) for size, stride in layout.axes())
    high = sum(max(0, stride * (size - 1)) for size, stride in layout.axes()) + layout.dtype.width
    start = address + layout.offset.evaluate(numbers)
    memory = (ctypes.c_char * (high - low)).from_address(start + low)
    kind = np.int32 if layout.dtype.width == 4 else np.int64
    return torch.from_numpy(np.ndarray(layout.shape, kind, memoryview(memory), -low, layout.strides).copy())


def check_index(index: torch.Tensor, what: core.CheckIndex) -> None:
    """Raise eager's error where an index is not in ``[0, size)``, nor ``ignore``, nor, if it ``wraps``, negative.

    The text names the first bad index in row-major order (eager's, with several threads, any one).
    """
    flat = index.reshape(-1).long()
    bad = (flat < (-what.size if what.wraps else 0)) | (flat >= what.size)
    if what.ignore is not None:
        bad &= flat != what.ignore
    if bool(bad.any()):
        raise error(what, int(flat[bad][0]))


def error(what: core.CheckIndex, found: int) -> Exception:
    """The exception that eager raises where the index is ``found``."""
    text = _INDICES if what.of == "index_select" and what.error == "RuntimeError" else _TEXTS[what.of]
    return _ERRORS[what.error](text.format(found=found, size=what.size, dim=what.dim))
