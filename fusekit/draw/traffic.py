"""Bytes that a segment moves, from its loads, stores and library calls alone."""

from __future__ import annotations

from math import prod

from fusekit.draw.words import bytes_text
from fusekit.ids import NodeId
from fusekit.ir import Graph, Layout, core
from fusekit.memory.overlap import Overlap, overlap


def traffic_text(graph: Graph, segment: NodeId, copied: int = 0) -> str:
    """``12.0 MiB``: each byte that the launch loads once, each that it stores once. ``copied``: bytes of snapshots,
    which are read and written besides; then ``12.1 MiB, least 12.0 MiB``."""
    reads, writes = _accesses(graph, segment)
    least = _union(graph, reads) + _union(graph, writes)
    return bytes_text(least + 2 * copied) + (f", least {bytes_text(least)}" if copied else "")


Access = tuple[NodeId | None, Layout, int]  # block, layout, bytes touched


def _accesses(graph: Graph, segment: NodeId) -> tuple[list[Access], list[Access]]:
    reads: dict[NodeId, Access] = {}
    writes: dict[NodeId, Access] = {}
    if graph.segment(segment).scheduler == "alias":
        return [], []
    members = graph.members(segment)
    for op in members:
        operands, what = graph.operands(op), graph.what(op)
        if isinstance(what, core.Load):
            reads[op] = _whole(graph, operands[0])
        elif isinstance(what, core.Store):
            writes[op] = _whole(graph, operands[1])
        elif graph.segment(segment).scheduler == "extern":
            places = [t for t in (*operands, *graph.results(op)) if not graph.is_value(t)]
            written = {*graph.results(op), *(operands[k] for k in graph.op(op).writes)}
            reads |= {t: _whole(graph, t) for t in places if t not in written}
            writes |= {t: _whole(graph, t) for t in places if t in written}
    return list(reads.values()), list(writes.values())


def _whole(graph: Graph, place: NodeId) -> Access:
    layout = graph.layout(place)
    return graph.block_of(place), layout, touched(layout)


def touched(layout: Layout) -> int:
    """Bytes at different addresses: a dimension of stride 0 counts once."""
    return prod(n for n, s in zip(layout.shape, layout.strides, strict=True) if s or not n) * layout.dtype.width


def _union(graph: Graph, accesses: list[Access]) -> int:
    """Each byte once, as far as one access lies within another; never more than the block has."""
    kept: list[Access] = []
    for access in sorted(accesses, key=lambda a: -a[2]):
        if not any(access[0] == k[0] and overlap(access[1], k[1]) in (Overlap.SAME, Overlap.WITHIN) for k in kept):
            kept.append(access)
    blocks = dict.fromkeys(block for block, _, _ in kept)
    sums = {block: sum(n for b, _, n in kept if b == block) for block in blocks}
    return sum(min(n, graph.block(b).nbytes) if b else n for b, n in sums.items())
