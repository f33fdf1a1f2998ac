"""What an exploration says of its segments: each as one record, and all of them as counts."""

from __future__ import annotations

from dataclasses import dataclass

from fusekit.escape import line
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.lower import Kernel


@dataclass(frozen=True)
class SegmentView:
    """One segment: ``scheduler`` is the one that took it ("alias" launches nothing, "extern" calls a library);
    ``kernel`` is None where nothing is made (a library call, views, a refusal that ``why`` names).

    ``schedule``: the transforms that make its loops, empty where there are none; ``what_if(schedule=...)`` edits them.
    """

    id: NodeId
    scheduler: str
    space: tuple[int, ...]
    ops: tuple[NodeId, ...]
    kernel: Kernel | None
    reads: tuple[NodeId, ...]
    writes: tuple[NodeId, ...]
    refused: str = ""
    schedule: str = ""

    def __repr__(self) -> str:
        what = line(self.kernel.name if self.kernel else self.refused or "nothing generated")
        return f"<segment {self.id} {self.scheduler} {list(self.space)}: {len(self.ops)} ops, {what}>"


def segment_view(graph: Graph, id: NodeId, kernel: Kernel | None, refused: str) -> SegmentView:
    """The segment ``id`` of a graph; what it reads and writes are the places at its rim."""
    ops, segment = graph.members(id), graph.segment(id)
    made = {t for op in ops for t in graph.results(op)}
    taken = dict.fromkeys(t for op in ops for t in graph.operands(op) if not graph.is_value(t))
    written = dict.fromkeys(graph.operands(op)[w] for op in ops for w in graph.op(op).writes)
    fresh = dict.fromkeys(t for op in ops for t in graph.results(op) if not graph.is_value(t))
    reads = tuple(t for t in taken if t not in made and (t not in written or segment.scheduler == "extern"))
    writes = (*written, *fresh)
    return SegmentView(id, segment.taken_by, segment.space, ops, kernel, reads, writes, refused, segment.schedule)


@dataclass(frozen=True)
class Summary:
    """Counts of one call, and bytes: moved by the segments, the least possible, and the peak that lives at once."""

    kernels: int
    extern_calls: int
    copies: int
    alias_segments: int
    segments: int
    bytes_moved: int
    bytes_least: int
    peak_bytes: int

    def __repr__(self) -> str:
        moved = f"{self.bytes_moved:,} bytes moved, {self.bytes_least:,} at least"
        counts = (
            (self.kernels, "kernel", "kernels"),
            (self.extern_calls, "library call", "library calls"),
            (self.copies, "copy", "copies"),
            (self.alias_segments, "alias segment", "alias segments"),
        )
        said = ", ".join(f"{count} {one if count == 1 else several}" for count, one, several in counts)
        return f"{said}; {moved}, peak {self.peak_bytes:,}"
