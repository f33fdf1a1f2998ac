"""persistent: the elements are needed again after a fold, and stay in registers where a row fits."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from fusekit.ids import NodeId
from fusekit.ir import Graph, core
from fusekit.schedule.base import (
    BY,
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
    looked,
    row_threads,
    split_order,
    start,
)
from fusekit.schedule.look import VECTOR_BYTES, Look, look
from fusekit.schedule.phases import reads_again
from fusekit.schedule.record import Placements, Schedule
from fusekit.schedule.reduction import folds_apart, is_inner, without_blocks
from fusekit.why import Reason

ODD_ROW = 1024  # elements from which a row that no vector divides is worth aligned vectors


@dataclass(frozen=True)
class Persistent:
    """``vectors`` of a thread to start from; ``words``: the most 32-bit registers a thread holds of one row.

    ``together``: blocks that wait for one another at most, of ``threads`` each with ``unroll`` vectors at once.
    ``blocks``: so many at most, each with several rows one after another; 0 for a row a block.
    """

    name: ClassVar[str] = "persistent"
    vectors: int = 4
    words: int = 64
    together: int = TOGETHER
    threads: int = 512
    unroll: int = 4
    blocks: int = 0

    def accepts(self, graph: Graph, segment: NodeId) -> Reason | None:
        if why := folds_apart(graph, segment):
            return why
        return None if reads_again(graph, segment) else Reason.of("reads-once")

    def schedule(self, graph: Graph, segment: NodeId, target: Target) -> Schedule:
        seen = looked(look(graph, segment))
        if plain := without_blocks(seen, target):
            return plain
        return self.inner(graph, segment, seen) if is_inner(seen) else self._outer(seen)

    def inner(self, graph: Graph, segment: NodeId, seen: Look) -> Schedule:
        """A row a block, or a short row a warp. A row too long for registers is read again in serial loops; where such
        rows are few, several blocks share each."""
        kept, folded = split_order(seen)
        columns, rows = seen.extent(folded), seen.extent(kept)
        n, aligned = self._lanes(seen, folded)
        narrow = min((a.width for a in seen.accesses), default=4) < 4
        threads = row_threads(columns, n, self.vectors, 512 if aligned or narrow else 1024)
        held = ceil_div(columns, n * threads) * n * (2 if narrow and self._rows_read(seen) > 1 else 1)
        fits, packed = held <= self.words, self._packed(graph, segment, seen) if held <= 2 * self.words else ()
        if not (fits or packed) and rows <= self.together // 2:
            return self._shared(seen, kept, folded)
        chain = start(seen, [g for g in (kept, folded) if g])
        at = 1 if kept else 0
        chain = chain.split_aligned(at, n, 0, columns) if aligned else chain.split(at, n)
        chain.split(at, threads)
        inside, placements = [U], Placements()
        if packed and held > self.words // 2:
            placements = Placements(persist=packed, loads="use", blocks_per_sm=1024 // threads if threads >= 256 else 0)
        elif not fits:
            inside, placements = [S, U], Placements(persist=())
            chain.split(at, self.unroll)
        types, count = [B] * at, 128 // threads
        if threads <= 32 and at and count > 1:
            chain.split(0, count)
            types.append(TY)
        if self.blocks and at and chain.extents[0] > self.blocks:
            chain.split(0, ceil_div(chain.extents[0], self.blocks))
            types.insert(1, S)
        return chain.done(*types, *inside, T, V, placements=placements)

    def _shared(self, seen: Look, kept: tuple[int, ...], folded: tuple[int, ...]) -> Schedule:
        """Blocks that wait for one another share a row."""
        n, at = seen.lanes(seen.groups(folded)[-1]), 1 if kept else 0
        chain = start(seen, [g for g in (kept, folded) if g])
        chain.split(at, n).split(at, self.threads).split(at, self.unroll)
        chain.split(at, ceil_div(chain.extents[at], self.together // max(seen.extent(kept), 1)))
        return chain.done(*[BY] * at, B, S, U, T, V, placements=Placements(persist=(), blocks_per_sm=2))

    def _rows_read(self, seen: Look) -> int:
        """How many whole rows a block reads side by side."""
        dims = [k for k in seen.order if seen.reference.shape[k] > 1]
        return sum(not a.is_store and all(seen.step(a, k) != 0 for k in dims) for a in seen.accesses)

    def _packed(self, graph: Graph, segment: NodeId, seen: Look) -> tuple[NodeId, ...]:
        """What is read of a row, where that is all halves: two of them share a register, and the rest is made again."""
        space = seen.reference.shape
        loads = [op for op in graph.members(segment) if isinstance(graph.what(op), core.Load)]
        large = [graph.results(op)[0] for op in loads if prod(graph.tensor(graph.results(op)[0]).shape) == prod(space)]
        is_half = all(graph.tensor(t).dtype.width == 2 and graph.tensor(t).dtype.is_floating for t in large)
        return tuple(large) if len(large) == 1 and is_half else ()

    def _lanes(self, seen: Look, folded: tuple[int, ...]) -> tuple[int, bool]:
        """(elements of a vector, must its pieces be aligned row by row?)"""
        group = seen.groups(folded)[-1]
        n, columns = seen.lanes(group), seen.extent(folded)
        whole = VECTOR_BYTES // max((a.width for a in seen.accesses), default=VECTOR_BYTES)
        if n > 1 or columns < ODD_ROW or len(group) != len(folded) or not self._is_dense(seen, columns):
            return n, False
        return whole, whole > 1

    def _is_dense(self, seen: Look, columns: int) -> bool:
        """Do all rows follow one another, ``columns`` elements apart, in every access that has rows?"""
        kept, folded = split_order(seen)
        rows = [k for k in kept if seen.reference.shape[k] > 1]
        if len(seen.groups(kept)) != 1 or not rows:
            return False
        pairs = [(a, seen.step(a, rows[-1]), seen.step(a, folded[-1])) for a in seen.accesses]
        return all(inner == a.width and outer == columns * a.width for a, outer, inner in pairs if outer and inner)

    def _outer(self, seen: Look) -> Schedule:
        """Columns on threads and lanes; the rows of a column on the other thread axis, and in an unrolled loop where
        they fit registers, else in a serial one around it. Where columns are few, blocks that wait for one another
        share the rows."""
        kept, folded = split_order(seen)
        n = seen.lanes(seen.groups(kept)[-1])
        across, down = column_threads(seen.extent(kept), n, 512 if seen.extent(kept) <= 32 * n else 256)
        chain: Chain = start(seen, [kept, folded]).split(0, n).split(0, across).split(3, down)
        steps = chain.extents[3]
        if steps * n <= self.words // 2:
            return chain.reorder((0, 3, 4, 1, 2)).done(B, U, TY, T, V)
        chain.split(3, self.unroll)
        blocks = self.together // max(chain.extents[0], 1)
        if blocks < 2:
            return chain.reorder((0, 3, 4, 5, 1, 2)).done(B, S, U, TY, T, V, placements=Placements(persist=()))
        chain.split(3, ceil_div(chain.extents[3], blocks)).reorder((0, 3, 4, 5, 6, 1, 2))
        return chain.done(B, BY, S, U, TY, T, V, placements=Placements(persist=(), blocks_per_sm=2))
