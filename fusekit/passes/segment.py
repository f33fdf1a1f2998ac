"""segment: which ops run together, in which order of launches, and why no more of them do.

A unit is a store with all that its value needs, a library call, or a look at indices. Units are joined by bytes saved:
everything at once where one kernel holds it, else the pair next that saves most (``fusekit.passes.segments.merge``).
Data and ordering edges between units stay free of cycles (``.reach``), so stores on both sides of a library call may be
one kernel where nothing orders them. Views that outputs are rebuilt from are alias segments, which launch nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fusekit.ids import NodeId
from fusekit.ir import SEGMENTED, UNSEGMENTED, Graph, Invariant, PassResult
from fusekit.passes.segments.decided import check_apart, check_there, put_in_order, put_together
from fusekit.passes.segments.merge import Limits, Merger
from fusekit.passes.segments.sharing import cost, readers, shared
from fusekit.passes.segments.stored import with_cuts, with_loops
from fusekit.passes.segments.units import units_of
from fusekit.passes.segments.write import write

Roots = tuple[NodeId, ...]
ROUNDS = 4  # of storing what crosses


@dataclass(frozen=True)
class SegmentOps:
    """``values``: the most ops of a kernel whose stores share bytes; ``unrelated``: of one that saves only a launch.

    ``again``: values that no pass forwards may be computed again in each kernel that needs them, where that moves fewer
    bytes than to store them once. ``exact``: False launches a write after the reads that it may meet. The rest is what
    a person decided, by stores and library calls: sets that are one kernel (``together``), sets of which no two are
    (``apart``), values with a boundary after them (``cuts``), sequences that are launched in their order (``order``).
    Raises FusekitError for a decision that breaks the order or the loops.
    """

    name: ClassVar[str] = "segment"
    expects: ClassVar[tuple[Invariant, ...]] = UNSEGMENTED
    ensures: ClassVar[tuple[Invariant, ...]] = SEGMENTED
    values: int = 400
    unrelated: int = 64
    again: bool = True
    exact: bool = True
    together: tuple[Roots, ...] = ()
    apart: tuple[Roots, ...] = ()
    cuts: Roots = ()
    order: tuple[Roots, ...] = ()

    def __call__(self, graph: Graph) -> PassResult:
        merger = self._stored_once(self._merged(with_loops(with_cuts(graph, self.cuts))))
        check_there(merger, self.together, (*self.apart, *self.order))
        draft = merger.graph.draft(self.name)
        rows = write(graph, draft, merger)
        return replace(draft.finish(self.ensures), merges=rows)

    def _stored_once(self, merger: Merger) -> Merger:
        """With values that cross from kernel to kernel in memory, while that moves fewer bytes in all."""
        for _ in range(ROUNDS):
            found = readers(merger, self.again)
            if not found:
                break
            stored = shared(merger.graph, found)
            other = self._merged(stored)
            if self.again and cost(other) >= cost(merger) and not self._asks_for(stored, merger.graph):
                break
            merger = other
        return merger

    def _asks_for(self, stored: Graph, before: Graph) -> bool:
        """Has a person decided about a store that is new?"""
        return any(root in stored and root not in before for roots in (*self.apart, *self.order) for root in roots)

    def _merged(self, graph: Graph) -> Merger:
        apart = tuple(map(frozenset[NodeId], self.apart))
        merger = Merger(graph, units_of(graph), Limits(self.values, self.unrelated, self.exact), apart)
        check_apart(merger, self.apart)
        put_in_order(merger, self.order)
        put_together(merger, self.together)
        merger.run()
        return merger
