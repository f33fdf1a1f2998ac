"""Sets of bytes in memory blocks, counted exactly where that is affordable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

import numpy as np

from fusekit.ids import NodeId
from fusekit.ir import Graph, Layout

_CELLS = 1 << 24  # a block is counted exactly up to so many cells; above, a sum that no byte range can exceed


@dataclass
class Regions:
    """A set of bytes, as layouts in blocks. ``looked_up``: bytes of a block that data choose, as an upper bound."""

    graph: Graph
    layouts: dict[NodeId, dict[Layout, None]] = field(default_factory=dict[NodeId, dict[Layout, None]])
    # Layout -> how many layouts another set had of the block when this one came: their bytes do not count. It only
    # grows, so one walk over both sees for each layout what was there before it.
    earlier: dict[NodeId, dict[Layout, int]] = field(default_factory=dict[NodeId, dict[Layout, int]])
    unless: Regions | None = None
    looked_up: dict[NodeId, int] = field(default_factory=dict[NodeId, int])

    def add(self, block: NodeId, layout: Layout, unless: Regions | None = None) -> None:
        """Add a layout, without the bytes that ``unless`` (the same set each time) has by now."""
        if unless is not None:
            self.unless = unless
            self.earlier.setdefault(block, {}).setdefault(layout, len(unless.layouts.get(block, ())))
        self.layouts.setdefault(block, {}).setdefault(layout)

    def look_up(self, block: NodeId, nbytes: int) -> None:
        """Add some bytes of a block, nobody knows which."""
        self.looked_up[block] = self.looked_up.get(block, 0) + nbytes

    def count(self) -> int:
        """Bytes, each once; those that data choose at most as many as the block has besides."""
        total = 0
        for block in dict.fromkeys((*self.layouts, *self.looked_up)):
            known = self._count(block, list(self.layouts.get(block, ())))
            total += known + min(self.looked_up.get(block, 0), self.graph.block(block).nbytes - known)
        return total

    def _count(self, block: NodeId, layouts: Sequence[Layout]) -> int:
        layouts = [layout for layout in layouts if layout.numel]
        earlier = self.earlier.get(block, {})
        holes = list(self.unless.layouts.get(block, ())) if self.unless is not None else []
        holes = holes[: max(earlier.values(), default=0)]
        step = _step([*layouts, *holes])
        nbytes = self.graph.block(block).nbytes
        if not layouts or nbytes // step > _CELLS:
            came = {hole: k for k, hole in enumerate(holes)}
            whole = (layout for layout in layouts if came.get(layout, len(holes)) >= earlier.get(layout, 0))
            return min(nbytes, sum(map(distinct, whole)))
        numbers = {f"n{n.index}": int(n.example) for n in self.graph.numbers()}
        total, hidden = (np.zeros(-(-nbytes // step), dtype=bool) for _ in range(2))
        done = 0  # holes that are marked
        for layout in layouts:
            for hole in holes[done : earlier.get(layout, 0)]:
                if (cells := _cells(hidden, hole, step, numbers)) is not None:
                    cells[...] = True
            done = max(done, earlier.get(layout, 0))
            mine, not_mine = (_cells(some, layout, step, numbers) for some in (total, hidden))
            if mine is not None and not_mine is not None:
                mine |= ~not_mine
        return int(total.sum()) * step


def _step(layouts: Iterable[Layout]) -> int:
    """The largest cell, in bytes, of which every layout is made; 1 where an offset hangs on a number."""
    out = 0
    for layout in layouts:
        offset = layout.offset.const if layout.offset.is_constant else 1
        out = gcd(out, layout.dtype.width, offset, *layout.strides)
    return out or 1


def _cells(cells: np.ndarray, layout: Layout, step: int, numbers: Mapping[str, int]) -> np.ndarray | None:
    """The cells of a layout; None where it has none."""
    if not layout.numel:
        return None
    start = layout.offset.evaluate(numbers) // step
    width = layout.dtype.width // step
    shape, strides = (*layout.shape, width), (*(s // step for s in layout.strides), 1)
    if start < 0 or start >= len(cells):
        return None
    return np.lib.stride_tricks.as_strided(cells[start:], shape, strides)


def distinct(layout: Layout) -> int:
    """Bytes of a layout, repeated dimensions once."""
    count = layout.dtype.width
    for size, stride in layout.axes():
        count *= size if stride else 1
    return count
