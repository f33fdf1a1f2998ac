"""A kernel's source as plain Python whose every access is looked at: none may leave the memory that it was given."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from fusekit.dtypes import BY_NAME
from fusekit.ir import Graph
from fusekit.lower import Kernel
from fusekit.run import helpers
from fusekit.run.compile import _execute, _shuffled

Spans = list[tuple[int, int]]


class OutOfBounds(AssertionError):
    """A load or a store outside of every block."""


def guarded_kernel(kernel: Kernel, graph: Graph, shuffle: int | None = None) -> Callable[..., None]:
    """As ``plain_kernel``; raises OutOfBounds. Blocks are as large as the graph says."""
    spans: Spans = []
    names = helpers.plain() | {"prange": range}
    watched = {name: _watched(name, names[name], spans) for name in names if _width(name)}
    watched["snapshot"] = _watched_snapshot(names["snapshot"], spans)
    watched["hold"] = _watched_hold(names["hold"], spans)
    space = _execute(kernel.source, f"<{kernel.name}>", names | watched)
    space.update(watched)  # the source's own imports must not bring the others back
    if shuffle is not None:
        space["range"] = space["prange"] = _shuffled(random.Random(shuffle))

    def run(*args: int | float) -> None:
        spans[:] = [
            (int(a), int(a) + graph.block(p.node).nbytes)
            for p, a in zip(kernel.params, args, strict=True)
            if p.node is not None
        ]
        with np.errstate(all="ignore"):
            space[kernel.name](*args)

    return run


def _width(name: str) -> int:
    """Bytes of what ``load_f32`` or ``store_f32`` touches; 0 for any other name."""
    word, _, dtype = name.partition("_")
    return BY_NAME[dtype].width if word in ("load", "store") and dtype in BY_NAME else 0


def _watched(name: str, access: Callable[..., Any], spans: Spans) -> Callable[..., Any]:
    width = _width(name)

    def watched(base: int, at: int, *value: Any) -> Any:
        start = base + width * int(at)
        if not any(low <= start and start + width <= high for low, high in spans):
            raise OutOfBounds(f"{name}(..., {at}) in blocks of {[high - low for low, high in spans]} bytes")
        return access(base, at, *value)

    return watched


def _watched_snapshot(snapshot: Callable[[int, int, int], int], spans: Spans) -> Callable[[int, int, int], int]:
    def watched(memory: int, first: int, last: int) -> int:
        kept = snapshot(memory, first, last)
        spans.append((kept + first, kept + last))
        return kept

    return watched


def _watched_hold(hold: Callable[[int, int], int], spans: Spans) -> Callable[[int, int], int]:
    def watched(first: int, last: int) -> int:
        kept = hold(first, last)
        spans.append((kept + first, kept + last))
        return kept

    return watched
