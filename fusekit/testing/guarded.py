"""A kernel's source as plain Python whose every access is looked at: none may touch a byte that is not its tensors'."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from fusekit.dtypes import BY_NAME
from fusekit.ids import NodeId
from fusekit.ir import Graph, Layout, core
from fusekit.lower import Kernel
from fusekit.run import helpers
from fusekit.run.compile import _execute, _shuffled

ROOMS = ("snapshot", "hold", "scratch")  # helpers that give room: for bytes ``first`` to ``last``, or for so many
MOST_ELEMENTS = 1 << 16  # larger tensors are looked at by their first and last byte


class OutOfBounds(AssertionError):
    """A load or a store outside of the tensors that the kernel was given."""


@dataclass
class _Memory:
    """Addresses that may be read, and written; room that the kernel made is its own."""

    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)
    spans: list[tuple[int, int]] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)

    def check(self, what: str, start: int, width: int, allowed: set[int]) -> None:
        if all(at in allowed for at in range(start, start + width)):
            return
        if not any(low <= start and start + width <= high for low, high in (*self.copies, *self.spans)):
            raise OutOfBounds(f"{what} at address {start}, outside of the tensors of its kernel")


def guarded_kernel(kernel: Kernel, graph: Graph, shuffle: int | None = None) -> Callable[..., int | None]:
    """The very source as plain Python, every byte on the watch; raises OutOfBounds.

    A load may touch bytes of the places that the kernel's ops load or store, a store those that they store.
    ``shuffle``: a seed; every loop then runs in a random order.
    """
    memory = _Memory()
    names = helpers.plain() | {"prange": range}
    names |= {name: _watched(name, names[name], memory) for name in names if _width(name)}
    names |= {name: _watched_room(names[name], memory) for name in ROOMS}
    space = _execute(kernel.source, f"<{kernel.name}>", names)
    space.update((name, names[name]) for name in names if _width(name) or name in ROOMS)
    if shuffle is not None:
        space["range"] = space["prange"] = _shuffled(random.Random(shuffle))
    function = space[kernel.name]
    loads, stores, spans = _places(kernel, graph)

    def run(*args: int | float) -> int | None:
        bases = {p.node: int(a) for p, a in zip(kernel.params, args, strict=True) if p.node is not None}
        memory.writes = {bases[block] + at for block, bytes_ in stores.items() for at in bytes_}
        memory.reads = memory.writes | {bases[block] + at for block, bytes_ in loads.items() for at in bytes_}
        memory.spans = [(bases[block] + low, bases[block] + high) for block, low, high in spans]
        memory.copies = []
        with np.errstate(all="ignore"):
            return function(*args)

    return run


def _places(
    kernel: Kernel, graph: Graph
) -> tuple[dict[NodeId, set[int]], dict[NodeId, set[int]], list[tuple[NodeId, int, int]]]:
    """(bytes loaded, bytes stored) a block; and extents of layouts that are large, or hang on numbers."""
    loads, stores = dict[NodeId, set[int]](), dict[NodeId, set[int]]()
    spans: list[tuple[NodeId, int, int]] = []
    taken = {param.node for param in kernel.params}
    for op in sorted({op for _, ops in kernel.lines for op in ops} | _ops_of(kernel, graph)):
        is_store = isinstance(graph.what(op), core.Store)
        if not is_store and not isinstance(graph.what(op), core.Load | core.CheckIndex):
            continue
        place = graph.operands(op)[1 if is_store else 0]
        block, layout = graph.block_of(place), graph.layout(place)
        if block is None or block not in taken:
            continue
        if not layout.offset.is_constant or prod(layout.shape) > MOST_ELEMENTS:
            spans.append((block, *layout.extent))
        else:
            (stores if is_store else loads).setdefault(block, set()).update(bytes_of(layout))
    return loads, stores, spans


def _ops_of(kernel: Kernel, graph: Graph) -> set[NodeId]:
    """All ops of the segments that some line of the kernel belongs to: what is folded away has no line of its own."""
    named = {op for _, ops in kernel.lines for op in ops}
    segments = [set(graph.members(segment)) for segment in graph.segments()]
    return {op for members in segments if members & named for op in members}


def bytes_of(layout: Layout) -> Iterable[int]:
    """The bytes of a block that a layout covers."""
    starts = np.array([layout.offset.const], dtype=np.int64)
    for size, stride in zip(layout.shape, layout.strides, strict=True):
        starts = (starts[:, None] + stride * np.arange(size)).reshape(-1)
    return (starts[:, None] + np.arange(layout.dtype.width)).reshape(-1).tolist()


def _width(name: str) -> int:
    """Bytes of what ``load_f32`` or ``store_f32`` touches; 0 for any other name."""
    word, _, dtype = name.partition("_")
    return BY_NAME[dtype].width if word in ("load", "store") and dtype in BY_NAME else 0


def _watched(name: str, access: Callable[..., Any], memory: _Memory) -> Callable[..., Any]:
    width, is_load = _width(name), name.startswith("load")

    def watched(base: int, at: int, *value: Any) -> Any:
        start = base + width * int(at)
        memory.check(name, start, width, memory.reads if is_load else memory.writes)
        return access(base, at, *value)

    return watched


def _watched_room(make: Callable[..., int], memory: _Memory) -> Callable[..., int]:
    def watched(*args: int) -> int:
        *_, first, last = (0, *args)
        base = make(*args)
        memory.copies.append((base + first, base + last))
        return base

    return watched
