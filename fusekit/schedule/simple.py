"""Schedules that ask little of a lowering: what a GPU runs where the chosen schedule does not lower."""

from __future__ import annotations

from collections.abc import Iterator

from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.schedule.base import B, S, T, Target, row_threads, split_order, start
from fusekit.schedule.look import look
from fusekit.schedule.record import Schedule


def simple(graph: Graph, segment: NodeId, target: Target) -> Iterator[Schedule]:
    """From the fastest to the surest: a row a block, a row a thread. None for a CPU, whose plain loops are fine."""
    seen = look(graph, segment)
    if seen is None or target == "cpu" or not seen.reference.shape:
        return
    kept, folded = split_order(seen)
    groups = [group for group in (kept, folded) if group]
    if folded:
        columns, at = seen.extent(folded), 1 if kept else 0
        chain = start(seen, groups).split(at, row_threads(columns, 1, 8, 512))
        yield chain.done(*[B] * at, S, T)
    if kept:
        yield start(seen, groups).split(0, 128).done(B, T, *[S] * bool(folded))
