"""Schedules that ask little of a lowering: what a GPU runs where no scheduler takes a segment, or its schedule does not
lower."""

from __future__ import annotations

from collections.abc import Iterator

from fusekit.ids import NodeId
from fusekit.ir import Graph, Parallel
from fusekit.schedule.base import BY, TY, B, S, T, Target, fitting, row_threads, split_order, start
from fusekit.schedule.look import Look, look
from fusekit.schedule.record import Schedule

GRID = (B, BY, Parallel.BIDz)
MOST = 65535  # blocks along y and z
MANY = 4096  # rows from which on a thread for each keeps a GPU busier than a block for all


def simple(graph: Graph, segment: NodeId, target: Target) -> Iterator[Schedule]:
    """The fastest first: a block for each row, a thread for each row, one block for all rows. None for a CPU."""
    seen = look(graph, segment)
    if seen is None or target == "cpu" or not seen.reference.shape:
        return
    kept, folded = split_order(seen)
    if not folded:
        yield _row_a_thread(seen)
        return
    yield _row_a_block(seen, [[*kept]] if kept else [])
    if 1 < len(kept) <= len(GRID) and all(seen.reference.shape[k] <= MOST for k in kept):
        yield _row_a_block(seen, [[k] for k in kept])
    if kept:
        ways = [_row_a_thread, _one_block]
        yield from (way(seen) for way in (ways if seen.extent(kept) >= MANY else reversed(ways)))


def _row_a_block(seen: Look, rows: list[list[int]]) -> Schedule:
    """``rows``: the kept dimensions, those that are one axis of the grid together."""
    _, folded = split_order(seen)
    columns = seen.extent(folded)
    most = row_threads(columns, 1, 8, 512)
    whole = fitting(columns, most)  # without a bound more indices are known to be equal
    chain = start(seen, [*rows, folded]).split(len(rows), whole if whole >= 32 else most)
    return chain.done(*GRID[: len(rows)], S, T)


def _row_a_thread(seen: Look) -> Schedule:
    kept, folded = split_order(seen)
    return start(seen, [group for group in (kept, folded) if group]).split(0, 128).done(B, T, *[S] * bool(folded))


def _one_block(seen: Look) -> Schedule:
    """A row a warp: also where all rows meet in one result."""
    return start(seen, split_order(seen)).split(0, 32).split(2, 32).done(S, TY, S, T)
