"""reduction: every reduction folds the same axes, and nothing needs the elements again after a fold."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from fusekit.domains import reductions
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.schedule.base import (
    BLOCKS,
    BY,
    SMALL,
    TOGETHER,
    TY,
    B,
    Chain,
    S,
    T,
    Target,
    U,
    V,
    ceil_div,
    column_threads,
    cpu_blocks,
    looked,
    row_threads,
    split_order,
    start,
)
from fusekit.schedule.look import Look, folds_alike, larger_root, look
from fusekit.schedule.phases import reads_again
from fusekit.schedule.plan import MOST_ACCUMULATORS
from fusekit.schedule.pointwise import flat
from fusekit.schedule.record import Schedule
from fusekit.why import Reason

COLUMNS = 512
PARTS = 64  # of a fold of everything on a CPU, whatever threads there are: the result is the same on any machine
GRID = 65536  # elements of a row from which several blocks share it
FEW_ROWS = 512  # from which several blocks share a column


@dataclass(frozen=True)
class Reduction:
    """``threads`` of a block and ``unroll`` vectors of each; ``blocks`` that share what they fold, in all."""

    name: ClassVar[str] = "reduction"
    threads: int = 256
    unroll: int = 4
    blocks: int = 512

    def accepts(self, graph: Graph, segment: NodeId) -> Reason | None:
        if why := folds_apart(graph, segment):
            return why
        if again := reads_again(graph, segment):
            return Reason.of("reads-again", op=again[1], reduction=again[0])
        return None

    def schedule(self, graph: Graph, segment: NodeId, target: Target) -> Schedule:
        seen = looked(look(graph, segment))
        if plain := without_blocks(seen, target):
            return plain
        return self._inner(seen) if is_inner(seen) else self._outer(seen)

    def _inner(self, seen: Look) -> Schedule:
        """A row a block; long rows, if they are few, are shared by blocks, the last of which finishes."""
        kept, folded = split_order(seen)
        rows, columns = seen.extent(kept), seen.extent(folded)
        n = seen.lanes(seen.groups(folded)[-1])
        threads = row_threads(columns, n, self.unroll, self.threads)
        chain = start(seen, [g for g in (kept, folded) if g])
        at = 1 if kept else 0
        chain.split(at, n).split(at, threads).split(at, max(1, min(self.unroll, ceil_div(columns, n * threads))))
        if rows <= TOGETHER and columns >= GRID:
            chain.split(at, ceil_div(chain.extents[at], max(self.blocks // rows, 1)))
            return chain.done(*[BY] * at, B, S, U, T, V)
        return chain.done(*[B] * at, S, U, T, V)

    def _outer(self, seen: Look) -> Schedule:
        """Columns on threads and lanes, rows on the other thread axis, an unrolled and a serial loop, and on blocks."""
        kept, folded = split_order(seen)
        rows = seen.extent(folded)
        n = seen.lanes(seen.groups(kept)[-1])
        across, down = column_threads(seen.extent(kept), n, self.threads)
        chain = start(seen, [kept, folded]).split(0, n).split(0, across)  # blocks, threads, lanes | rows
        blocks = max(self.blocks // max(chain.extents[0], 1), 1) if rows >= FEW_ROWS else 1
        steps = ceil_div(rows, down * self.unroll)
        chain.split(3, down).split(3, self.unroll).split(3, max(ceil_div(steps, blocks), 1))
        return chain.reorder((0, 3, 4, 5, 6, 1, 2)).done(B, BY, S, U, TY, T, V)


def folds_apart(graph: Graph, segment: NodeId) -> Reason | None:
    """Why the segment is not one space that its reductions fold alike; None where it is."""
    if not (found := reductions(graph, segment)):
        return Reason.of("no-reduction")
    if larger := larger_root(graph, segment):
        return Reason.of("store-is-larger", op=larger, reduction=found[0])
    if differ := folds_alike(graph, segment):
        return Reason.of("folds-differ", first=differ[0], second=differ[1])
    return None


def without_blocks(seen: Look, target: Target) -> Schedule | None:
    """The schedule of rows where no threads fold together: on a CPU, and where a fold is over no dimension."""
    if target == "cpu":
        return cpu_rows(seen)
    return None if seen.reference.reduced else flat(seen, 256, 1)


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
        is_all = folded and seen.extent(kept) == 1
        return cpu_parts(chain, len(outside)) if is_all else cpu_blocks(chain, len(outside))
    last = len(outside) - 1
    chain.split(last, columns_of(chain.extents[last]))
    order = [k for k in range(len(chain.loop)) if k != last + 1]
    chain.reorder([*order, last + 1])
    pieces = seen.extent(kept) // chain.extents[-1]
    few = pieces < BLOCKS and seen.extent(kept) <= MOST_ACCUMULATORS
    return cpu_parts(chain, last + 1) if few else cpu_blocks(chain, last + 1)


def cpu_parts(chain: Chain, axis: int) -> Schedule:
    """For a CPU: parts of one axis on blocks, outside of all else; each finds its own, and they are put together."""
    total = prod(chain.extents)
    if total < SMALL:
        return chain.done(*[S] * len(chain.loop))
    extent = chain.extents[axis]
    parts = next((d for d in range(PARTS, PARTS // 2, -1) if extent % d == 0), PARTS)
    chain.split(axis, ceil_div(extent, parts))
    chain.reorder([axis, *(k for k in range(len(chain.loop)) if k != axis)])
    return chain.done(B, *[S] * (len(chain.loop) - 1))


def columns_of(extent: int) -> int:
    """Columns whose sums grow side by side: a divisor near 512, so that no iteration needs a bound."""
    most = min(extent, COLUMNS)
    return next((d for d in range(most, most // 4, -1) if extent % d == 0), most)
