"""persistent: the elements are needed again after a fold, and stay in registers where a row fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fusekit.domains import reductions
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.schedule.base import TY, B, Chain, S, T, Target, U, V, looked, row_threads, split_order, start
from fusekit.schedule.look import VECTOR_BYTES, Look, folds_alike, larger_root, look
from fusekit.schedule.phases import reads_again
from fusekit.schedule.pointwise import flat
from fusekit.schedule.record import Placements, Schedule
from fusekit.schedule.reduction import cpu_rows, is_inner
from fusekit.why import Reason

ODD_ROW = 1024  # elements from which a row that no vector divides is worth aligned vectors


@dataclass(frozen=True)
class Persistent:
    """``vectors`` of a thread to start from; ``words``: the most 32-bit registers a thread holds of one row."""

    name: ClassVar[str] = "persistent"
    vectors: int = 4
    words: int = 64
    rows: int = 8

    def accepts(self, graph: Graph, segment: NodeId) -> Reason | None:
        if not (found := reductions(graph, segment)):
            return Reason.of("no-reduction")
        if larger := larger_root(graph, segment):
            return Reason.of("store-is-larger", op=larger, reduction=found[0])
        if differ := folds_alike(graph, segment):
            return Reason.of("folds-differ", first=differ[0], second=differ[1])
        return None if reads_again(graph, segment) else Reason.of("reads-once")

    def schedule(self, graph: Graph, segment: NodeId, target: Target) -> Schedule:
        seen = looked(look(graph, segment))
        if target == "cpu":
            return cpu_rows(seen)
        if not seen.reference.reduced:  # a fold over no dimension
            return flat(seen, 256, 1)
        return self._inner(seen) if is_inner(seen) else self._outer(seen)

    def _inner(self, seen: Look) -> Schedule:
        """A row a block, or a short row a warp; a row too long for registers is read again in serial loops."""
        kept, folded = split_order(seen)
        columns = seen.extent(folded)
        n, aligned = self._lanes(seen, folded)
        narrow = min((a.width for a in seen.accesses), default=4) < 4
        threads = row_threads(columns, n, self.vectors, 512 if aligned or narrow else 1024)
        chain = start(seen, [g for g in (kept, folded) if g])
        at = 1 if kept else 0
        chain = chain.split_aligned(at, n, 0, columns) if aligned else chain.split(at, n)
        chain.split(at, threads)
        fits = chain.extents[at] * n <= self.words
        inside, placements = (U, Placements()) if fits else (S, Placements(persist=()))
        rows = 128 // threads
        if threads <= 32 and at and rows > 1:
            return chain.split(0, rows).done(B, TY, inside, T, V, placements=placements)
        return chain.done(*[B] * at, inside, T, V, placements=placements)

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
        """Columns on threads; the rows of a column on the other thread axis and in a serial loop."""
        kept, folded = split_order(seen)
        chain: Chain = start(seen, [kept, folded]).split(0, 32).split(2, self.rows)
        return chain.reorder((0, 2, 3, 1)).done(B, S, TY, T, placements=Placements(persist=()))
