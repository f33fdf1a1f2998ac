"""reduction: every reduction folds the same axes, and nothing needs the elements again after a fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fusekit.domains import reductions
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.schedule.base import (
    BY,
    TY,
    B,
    S,
    T,
    Target,
    U,
    V,
    ceil_div,
    cpu_blocks,
    looked,
    row_threads,
    split_order,
    start,
)
from fusekit.schedule.look import Look, folds_alike, larger_root, look
from fusekit.schedule.phases import reads_again
from fusekit.schedule.pointwise import flat
from fusekit.schedule.record import Schedule
from fusekit.why import Reason

COLUMNS = 512
GRID = 65536  # elements of one row from which several blocks share it


@dataclass(frozen=True)
class Reduction:
    """``threads`` of a row and ``unroll`` vectors of each thread; ``rows`` threads and ``blocks`` of a column."""

    name: ClassVar[str] = "reduction"
    threads: int = 256
    unroll: int = 4
    rows: int = 8
    blocks: int = 64

    def accepts(self, graph: Graph, segment: NodeId) -> Reason | None:
        if not (found := reductions(graph, segment)):
            return Reason.of("no-reduction")
        if larger := larger_root(graph, segment):
            return Reason.of("store-is-larger", op=larger, reduction=found[0])
        if differ := folds_alike(graph, segment):
            return Reason.of("folds-differ", first=differ[0], second=differ[1])
        if again := reads_again(graph, segment):
            return Reason.of("reads-again", op=again[1], reduction=again[0])
        return None

    def schedule(self, graph: Graph, segment: NodeId, target: Target) -> Schedule:
        seen = looked(look(graph, segment))
        if target == "cpu":
            return cpu_rows(seen)
        if not seen.reference.reduced:  # a fold over no dimension
            return flat(seen, self.threads, 1)
        alone = len(reductions(graph, segment)) == 1
        return self._inner(seen, alone) if is_inner(seen) else self._outer(seen, alone)

    def _inner(self, seen: Look, alone: bool) -> Schedule:
        """A row a block; a long row that is the only one is shared by blocks, the last of which finishes."""
        kept, folded = split_order(seen)
        rows, columns = seen.extent(kept), seen.extent(folded)
        n = seen.lanes(seen.groups(folded)[-1])
        threads = row_threads(columns, n, self.unroll, self.threads)
        chain = start(seen, [g for g in (kept, folded) if g])
        at = 1 if kept else 0
        chain.split(at, n).split(at, threads).split(at, max(1, min(self.unroll, ceil_div(columns, n * threads))))
        if rows == 1 and alone and columns >= GRID:
            return chain.split(at, ceil_div(chain.extents[at], self.blocks * 8)).done(*[S] * at, B, S, U, T, V)
        return chain.done(*[B] * at, S, U, T, V)

    def _outer(self, seen: Look, alone: bool) -> Schedule:
        """Columns on threads and lanes, rows on the other thread axis, an unrolled and a serial loop, and on blocks."""
        kept, folded = split_order(seen)
        rows = seen.extent(folded)
        n = seen.lanes(seen.groups(kept)[-1])
        chain = start(seen, [kept, folded]).split(0, n).split(0, 32)  # blocks, threads, lanes | rows
        blocks = self.blocks if alone and rows >= 4096 else 1
        steps = ceil_div(rows, self.rows * self.unroll)
        chain.split(3, self.rows).split(3, self.unroll).split(3, max(ceil_div(steps, blocks), 1))
        return chain.reorder((0, 3, 4, 5, 6, 1, 2)).done(B, BY, S, U, TY, T, V)


def is_inner(seen: Look) -> bool:
    """Is the innermost dimension folded?"""
    return not seen.order or seen.order[-1] in seen.reference.reduced


def cpu_rows(seen: Look) -> Schedule:
    """Kept dimensions outside, folded ones inside, each as few loops as they can be.

    Where memory is walked along a kept dimension, pieces of that one are innermost: many accumulators at once.
    """
    kept, folded = split_order(seen)
    outside = seen.groups(kept)
    chain = start(seen, [*outside, *seen.groups(folded)])
    if not folded or is_inner(seen) or seen.extent(outside[-1]) == 1:
        return cpu_blocks(chain, len(outside))
    last = len(outside) - 1
    chain.split(last, columns_of(chain.extents[last]))
    order = [k for k in range(len(chain.loop)) if k != last + 1]
    return cpu_blocks(chain.reorder([*order, last + 1]), last + 1)


def columns_of(extent: int) -> int:
    """Columns whose sums grow side by side: a divisor near 512, so that no iteration needs a bound."""
    most = min(extent, COLUMNS)
    return next((d for d in range(most, most // 4, -1) if extent % d == 0), most)
