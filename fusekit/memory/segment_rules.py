"""What is legal for segments, beyond the stage: what runs together computes all that it stores, and sees memory as the
order of the program has it.

Ordering edges say which ops must follow which; here memory itself is asked, since an edge can be left out of a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fusekit.ids import NodeId
from fusekit.ir import INPUT, RETURN, SCHEDULERS, Graph, Invariant, Layout
from fusekit.memory.overlap import has_internal_overlap, meets

Problems = Iterator[tuple[NodeId, str]]
MEMORY = ("fk.load", "fk.store", "fk.check_index")


def segments_are_whole(graph: Graph) -> Problems:
    """A kernel's segment has all ops that its stores need, and no library call; a library call stands alone."""
    for segment in graph.segments():
        scheduler, members = graph.segment(segment).scheduler, graph.members(segment)
        if scheduler not in SCHEDULERS:
            yield segment, f"is for {scheduler:.24}, and there are {', '.join(SCHEDULERS)}"
        calls = [op for op in members if not _is_of_kernel(graph, op)]
        if scheduler == "pointwise" and calls:
            yield segment, f"is to be a kernel and holds {calls[0]}, which is a library call"
        if scheduler == "extern" and calls and len(calls) < len(members):
            yield segment, f"is to be library calls and computes {next(op for op in members if op not in calls)}"
        inside = set(members)
        for op in members:
            if graph.op(op).target in (INPUT, RETURN):
                yield segment, f"holds {op}, which is where the program begins or ends"
            for tensor in graph.operands(op):
                if graph.is_value(tensor) and graph.has_producer(tensor) and graph.producer(tensor) not in inside:
                    yield segment, f"needs {tensor}, and does not hold {graph.producer(tensor)}, which makes it"


def _is_of_kernel(graph: Graph, op: NodeId) -> bool:
    return graph.op(op).target in MEMORY or any(map(graph.is_value, graph.results(op)))


class _Access(NamedTuple):
    op: NodeId
    segment: NodeId
    rank: int
    is_write: bool
    layout: Layout


def segments_see_memory_in_order(graph: Graph) -> Problems:
    """Of two accesses to a byte of which one writes, the earlier one of the program runs earlier; and within a kernel,
    which loads before it stores and stores in any order, nothing is read or written after it was written."""
    rank = {segment: k for k, segment in enumerate(graph.segments())}
    blocks: dict[NodeId, list[_Access]] = {}
    for op in graph.ops():
        for tensor, is_write in _touched(graph, op):
            block = graph.block_of(tensor)
            if block is None or not graph.layout(tensor).numel:
                continue
            for segment in graph.segments_of(op):
                one = _Access(op, segment, rank[segment], is_write, graph.layout(tensor))
                blocks.setdefault(block, []).append(one)
    for accesses in blocks.values():
        if any(access.is_write for access in accesses):
            yield from _conflicts(graph, accesses)


def _conflicts(graph: Graph, accesses: list[_Access]) -> Problems:
    """In program order. Only what runs before, or with, something that it follows is compared with it."""
    met: dict[tuple[Layout, Layout], bool] = {}
    last = max(access.rank for access in accesses)
    before: dict[int, dict[tuple[Layout, bool], _Access]] = {}
    highest = -1
    for access in accesses:
        for rank in range(access.rank, min(highest, last) + 1) if highest >= access.rank else ():
            for earlier in before.get(rank, {}).values():
                if not _matters(graph, earlier, access) or earlier.op == access.op:
                    continue
                pair = earlier.layout, access.layout
                if pair not in met:
                    met[pair] = meets(*pair) is not False
                if met[pair]:
                    yield (
                        access.op,
                        f"runs in {access.segment}, and must follow {earlier.op}, which runs in {earlier.segment}",
                    )
        before.setdefault(access.rank, {}).setdefault((access.layout, access.is_write), access)
        highest = max(highest, access.rank)


def _matters(graph: Graph, earlier: _Access, later: _Access) -> bool:
    """Stores of one flush write what the program leaves there in the end: where two meet they write the same."""
    flushes = [graph.op(one.op).kwarg("flush") if one.is_write else None for one in (earlier, later)]
    if flushes[0] is not None and flushes[0] == flushes[1]:
        return False
    if earlier.rank == later.rank:
        return earlier.is_write and graph.segment(later.segment).scheduler == "pointwise"
    return earlier.is_write or later.is_write


def unwritten_reads(graph: Graph) -> dict[NodeId, tuple[NodeId, NodeId]]:
    """Fresh block -> the first op that reads memory there, or gives it back, before anything was written to it, and the
    tensor. No rule of its own: what ``torch.empty`` made has no writer either. So a graph is held against an earlier
    one."""
    written: dict[NodeId, dict[Layout, None]] = {}
    found: dict[NodeId, tuple[NodeId, NodeId]] = {}
    for op in graph.ops():
        touched = list(_touched(graph, op))
        if graph.op(op).target == RETURN:
            touched = [(tensor, False) for tensor in graph.operands(op)]
        for tensor, is_write in touched:
            block = graph.block_of(tensor)
            if block is None or graph.block(block).kind != "fresh" or not graph.layout(tensor).numel:
                continue
            layout, known = graph.layout(tensor), written.setdefault(block, {})
            if is_write:
                known[layout] = None
            elif layout not in known and not any(meets(layout, one) is not False for one in known):
                found.setdefault(block, (op, tensor))
    return found


def stores_are_one_to_one(graph: Graph) -> Problems:
    """No two elements of a store go to one byte: which of them stays would be left to the order of the loops."""
    for op in graph.ops():
        if graph.op(op).target == "fk.store" and has_internal_overlap(graph.layout(graph.operands(op)[1])):
            yield op, f"stores to {graph.operands(op)[1]}, whose elements share bytes"


def _touched(graph: Graph, op: NodeId) -> Iterator[tuple[NodeId, bool]]:
    """(place, is it written?) of an op. A view touches nothing; a library call makes results in blocks of their own."""
    payload, operands = graph.op(op), graph.operands(op)
    homes = {graph.block_of(t) for t in operands} - {None}
    made = [t for t in graph.results(op) if not graph.is_value(t)]
    is_view = bool(made) and not payload.writes and all(graph.block_of(t) in homes for t in made)
    if payload.target in (INPUT, RETURN) or is_view:
        return
    for k, tensor in enumerate(operands):
        if not graph.is_value(tensor):
            if payload.target != "fk.store":
                yield tensor, False
            if k in payload.writes:
                yield tensor, True
    for tensor in made:
        if graph.block_of(tensor) not in homes:
            yield tensor, True


SEGMENTS = (
    Invariant("segments-are-whole", segments_are_whole),
    Invariant("segments-see-memory-in-order", segments_see_memory_in_order),
    Invariant("stores-are-one-to-one", stores_are_one_to_one),
)
