"""fallback: loops that ask little of a lowering, where no other scheduler takes a segment or its schedule lowers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from fusekit.domains import reference_of
from fusekit.ids import NodeId
from fusekit.ir import Graph, Parallel
from fusekit.schedule.base import BY, TY, B, S, T, Target, fitting, looked, row_threads, split_order, start
from fusekit.schedule.look import Look, look
from fusekit.schedule.nesting import cannot_nest
from fusekit.schedule.record import Schedule
from fusekit.why import Reason

GRID = (B, BY, Parallel.BIDz)
MOST = 65535  # blocks along y and z
MANY = 4096  # rows from which on a thread for each keeps a GPU busier than a block for all


@dataclass(frozen=True)
class Fallback:
    """Takes whatever one nest of loops holds. It has several schedules, of which the first that lowers is taken."""

    name: ClassVar[str] = "fallback"

    def accepts(self, graph: Graph, segment: NodeId) -> Reason | None:
        if reference_of(graph, segment) is None:
            return Reason.of("computes-nothing")
        return cannot_nest(graph, graph.members(segment))

    def schedule(self, graph: Graph, segment: NodeId, target: Target) -> Schedule:
        return next(self.schedules(graph, segment, target))

    def schedules(self, graph: Graph, segment: NodeId, target: Target) -> Iterator[Schedule]:
        """The fastest first, and last the loops as they are: one thread of a GPU runs them all."""
        if target == "cuda":
            yield from _of_gpu(looked(look(graph, segment)))
        yield Schedule()


def _of_gpu(seen: Look) -> Iterator[Schedule]:
    """A block for each row, a thread for each row, one block for all rows."""
    if not seen.reference.shape:
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
