"""Which op touches which bytes of which block, how, and in which order: the facts behind the view "memory"."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from fusekit.draw.far import by_place
from fusekit.draw.notes import Notes
from fusekit.draw.traffic import touched
from fusekit.draw.words import base_name, bytes_text, line_text, place_text, segment_text, tensor_text
from fusekit.ids import NodeId
from fusekit.ir import Graph, Ordering, core
from fusekit.passes.base import is_view

COLUMNS = 48  # ops that have columns of their own
LANES = 24
PARTS = 7  # of a block that are told apart
OVERWRITES = ("copy_", "fill_", "zero_", "store")


@dataclass(frozen=True, slots=True)
class Column:
    """An op, or several of a segment or of a run where there are many."""

    node: NodeId
    ops: tuple[NodeId, ...]
    label: str
    line: str = ""
    segment: NodeId | None = None


@dataclass(frozen=True, slots=True)
class Touch:
    """``mode``: R, W or RW; parts ``first`` to ``last`` of the lane; ``dense``: every byte of the extent."""

    column: int
    mode: str
    extent: tuple[int, int]
    dense: bool
    tensors: tuple[NodeId, ...]
    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class Lane:
    """``parts``: byte ranges of the block that its accesses tell apart, with a name each."""

    block: NodeId
    parts: tuple[tuple[int, int], ...]
    names: tuple[str, ...]
    touches: tuple[Touch, ...]


# ---- columns ------------------------------------------------------------------------------------------------------


def columns_of(graph: Graph, notes: Notes) -> list[Column]:
    """Ops that touch memory, in the order of execution; many of them by segment, or by where they stand."""
    del notes
    ops = [op for op in graph.ops() if next(_accesses(graph, op), None) is not None]
    if len(ops) <= COLUMNS:
        columns = [
            Column(op, (op,), _label(graph, op), line_text(graph.op(op)), next(iter(graph.segments_of(op)), None))
            for op in ops
        ]
        launch = {s: k for k, s in enumerate(graph.segments())}
        return (
            sorted(columns, key=lambda c: launch[c.segment] if c.segment else -1) if launch else columns
        )  # stable: program order within
    if graph.segments():
        return [Column(s, graph.members(s), segment_text(s), "", s) for s in graph.segments()]
    return [Column(run.node, run.ops, run.tab.id, run.tab.launches) for run in by_place(graph)]


def _label(graph: Graph, op: NodeId) -> str:
    operands, payload = graph.operands(op), graph.op(op)
    names = [tensor_text(graph, t) for t in operands]
    if isinstance(payload.what, core.Load):
        return f"load {names[0]}"
    if isinstance(payload.what, core.Store):
        return f"store {names[1]}"
    return f"{base_name(payload)}({', '.join(names)})"


def _accesses(graph: Graph, op: NodeId) -> Iterator[tuple[NodeId, str]]:
    """(tensor, mode) of each place that the op touches."""
    payload, operands = graph.op(op), graph.operands(op)
    if isinstance(payload.what, core.Input | core.Return) or (
        is_view(graph, op) and not isinstance(payload.what, core.Load)
    ):
        return
    for k, tensor in enumerate(operands):
        if graph.is_value(tensor):
            continue
        overwrites = base_name(payload) in OVERWRITES
        yield tensor, ("W" if overwrites else "RW") if k in payload.writes else "R"
    homes = {graph.block_of(t) for t in operands}
    for tensor in graph.results(op):
        if not graph.is_value(tensor) and graph.block_of(tensor) not in homes:
            yield tensor, "W"


# ---- lanes --------------------------------------------------------------------------------------------------------


def lanes_of(graph: Graph, columns: list[Column]) -> tuple[list[Lane], int]:
    """(lanes in the order of blocks, how many blocks have none because there are too many)."""
    found: dict[NodeId, dict[int, Touch]] = {}
    for number, column in enumerate(columns):
        for op in column.ops:
            for tensor, mode in _accesses(graph, op):
                block = graph.block_of(tensor)
                assert block is not None
                touches = found.setdefault(block, {})
                new = _touch(graph, number, tensor, mode)
                touches[number] = _join(touches[number], new) if number in touches else new
    ordered = {graph.block_of(t) for a, b, _ in graph.orderings() for op in (a, b) for t in graph.operands(op)}
    ranked = sorted(
        found, key=lambda b: (b not in ordered, len(found[b]) < 2, graph.block(b).kind != "argument", -len(found[b]))
    )
    kept = set(ranked[:LANES])
    lanes = [_lane(graph, block, tuple(found[block].values())) for block in graph.blocks() if block in kept]
    return lanes, len(found) - len(lanes)


def _touch(graph: Graph, column: int, tensor: NodeId, mode: str) -> Touch:
    layout = graph.layout(tensor)
    low, high = layout.extent
    return Touch(column, mode, (low, max(high, low)), touched(layout) >= high - low, (tensor,))


def _join(a: Touch, b: Touch) -> Touch:
    mode = "".join(m for m in "RW" if m in a.mode + b.mode)
    extent = min(a.extent[0], b.extent[0]), max(a.extent[1], b.extent[1])
    sizes = [t.extent[1] - t.extent[0] for t in (a, b)]
    dense = (
        (a.dense and a.extent == extent)
        or (b.dense and b.extent == extent)
        or (a.dense and b.dense and sum(sizes) >= extent[1] - extent[0])
    )
    return Touch(a.column, mode, extent, dense, (*a.tensors, *b.tensors))


def _lane(graph: Graph, block: NodeId, touches: tuple[Touch, ...]) -> Lane:
    ends = sorted({end for t in touches for end in t.extent} | {0, graph.block(block).nbytes})
    if len(ends) - 1 > PARTS or len(ends) < 2:
        ends = [0, max(ends[-1], 1)]
    parts = tuple(itertools.pairwise(ends))
    placed = []
    for t in touches:
        hit = [k for k, (low, high) in enumerate(parts) if t.extent[0] < high and low < t.extent[1]] or [0]
        placed.append(Touch(t.column, t.mode, t.extent, t.dense, t.tensors, hit[0], hit[-1]))
    return Lane(block, parts, tuple(_part_name(graph, block, part, len(parts)) for part in parts), tuple(placed))


def _part_name(graph: Graph, block: NodeId, part: tuple[int, int], count: int) -> str:
    """The tensor that is just these bytes, else the bytes."""
    for tensor in (*graph.inputs(), *graph.tensors()):
        if graph.block_of(tensor) == block and graph.layout(tensor).extent == part:
            return place_text(graph, tensor)
    if count == 1:
        return next((place_text(graph, t) for t in graph.tensors() if graph.block_of(t) == block), "")
    low, high = part
    around = [t for t in graph.inputs() if graph.block_of(t) == block and _holds(graph.layout(t).extent, part)]
    if len(around) == 1 and count == 2:
        return f"rest of {tensor_text(graph, around[0])}"
    if not low:
        return f"first {bytes_text(high)}"
    size = bytes_text(high - low)
    return f"last {size}" if high >= graph.block(block).nbytes else f"{size} at {bytes_text(low)}"


def _holds(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


# ---- arrows -------------------------------------------------------------------------------------------------------

Order = tuple[int, int, NodeId, Ordering, tuple[NodeId, NodeId]]


def orders_of(graph: Graph, columns: list[Column], lanes: list[Lane]) -> list[Order]:
    """Orderings between columns, in the lane of the block that both touch, less what follows from others."""
    column = {op: k for k, c in enumerate(columns) for op in c.ops}
    touches = {lane.block: {t.column for t in lane.touches} for lane in lanes}
    after: dict[int, set[int]] = {}
    found: list[Order] = []
    for first, then, ordering in graph.orderings():
        a, b = column.get(first), column.get(then)
        if a is None or b is None or a >= b:
            continue
        block = next((x for x in _shared(graph, first, then) if x in touches and {a, b} <= touches[x]), None)
        after.setdefault(a, set()).add(b)
        if block is not None:
            found.append((a, b, block, ordering, (first, then)))
    for a, b, _ in flows_of(graph, columns, lanes):
        after.setdefault(a, set()).add(b)
    kept = {order[:3]: order for order in found if not _follows(after, order[0], order[1])}
    return list(kept.values())


def _shared(graph: Graph, first: NodeId, then: NodeId) -> list[NodeId]:
    """Blocks that both touch, those that one of them writes first."""
    homes = [{graph.block_of(t): m for t, m in _accesses(graph, op)} for op in (first, then)]
    both = [b for b in homes[0] if b in homes[1] and b is not None]
    return sorted(both, key=lambda b: "W" not in homes[0][b] + homes[1][b])


def _follows(after: dict[int, set[int]], a: int, b: int) -> bool:
    seen: set[int] = set()
    todo = [n for n in after.get(a, ()) if n != b]
    while todo:
        node = todo.pop()
        if node == b:
            return True
        if node < b and node not in seen:
            seen.add(node)
            todo += after.get(node, ())
    return False


def flows_of(graph: Graph, columns: list[Column], lanes: list[Lane]) -> list[tuple[int, int, NodeId]]:
    """(from, to, block) where a column reads a tensor that another made, and no ordering says more."""
    column = {op: k for k, c in enumerate(columns) for op in c.ops}
    touches = {lane.block: {t.column for t in lane.touches} for lane in lanes}
    ordered = {(column.get(a), column.get(b)) for a, b, _ in graph.orderings()}
    found: dict[tuple[int, int, NodeId], None] = {}
    for op, k in column.items():
        for tensor, _ in _accesses(graph, op):
            block = graph.block_of(tensor)
            maker = column.get(graph.producer(tensor)) if graph.has_producer(tensor) else None
            if maker is None or maker >= k or block is None or (maker, k) in ordered:
                continue
            if {maker, k} <= touches.get(block, set()):
                found[maker, k, block] = None
    return list(found)
