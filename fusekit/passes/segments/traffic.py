"""Bytes that a group moves: each byte that it loads once, each that it stores once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from fusekit.ids import NodeId
from fusekit.ir import Graph, Layout, core
from fusekit.memory import Overlap, overlap

Regions = Mapping[NodeId, frozenset[Layout]]  # block -> what is touched of it
FEW = 12  # layouts of one block that are held against each other


def regions(graph: Graph, ops: Iterable[NodeId], kind: type[core.Load | core.Store]) -> dict[NodeId, frozenset[Layout]]:
    """What the loads, or the stores, among some ops touch."""
    found: dict[NodeId, set[Layout]] = {}
    for op in ops:
        if isinstance(graph.what(op), kind):
            place = graph.operands(op)[-1]
            block = graph.block_of(place)
            assert block is not None, "loads and stores take places"
            found.setdefault(block, set()).add(graph.layout(place))
    return {block: frozenset(layouts) for block, layouts in found.items()}


def both(a: Regions, b: Regions) -> dict[NodeId, frozenset[Layout]]:
    """The union, block by block."""
    return {block: a.get(block, frozenset()) | b.get(block, frozenset()) for block in (*a, *b)}


def saved(graph: Graph, a: Regions, b: Regions) -> int:
    """Bytes that are touched once instead of twice when both are touched together."""
    total = 0
    for block in a.keys() & b.keys():
        size = graph.block(block).nbytes
        total += covered(a[block], size) + covered(b[block], size) - covered(a[block] | b[block], size)
    return total


def moved(graph: Graph, ops: Iterable[NodeId]) -> int:
    """Bytes that one kernel of these ops loads and stores."""
    ops = tuple(ops)
    touched = (regions(graph, ops, kind) for kind in (core.Load, core.Store))
    return sum(covered(layouts, graph.block(block).nbytes) for found in touched for block, layouts in found.items())


@lru_cache(maxsize=1 << 14)
def covered(layouts: frozenset[Layout], size: int) -> int:
    """Bytes of a block of ``size`` bytes under some layouts: exact where one lies within another, else at most."""
    large = sorted(layouts, key=lambda at: (-distinct(at), at.shape, at.strides, repr(at.offset)))
    if len(large) > FEW:
        return min(size, sum(map(distinct, large)))
    kept: list[Layout] = []
    for layout in large:
        if not any(overlap(layout, other) in (Overlap.SAME, Overlap.WITHIN) for other in kept):
            kept.append(layout)
    return min(size, sum(map(distinct, kept)))


def distinct(layout: Layout) -> int:
    """Bytes at different addresses: a repeated dimension counts once."""
    count = layout.dtype.width
    for size, stride in layout.axes():
        count *= size if stride else 1
    return count if layout.numel else 0
