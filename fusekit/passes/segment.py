"""segment: which ops run together, in which order of launches, and why no more of them do.

A unit is a store with all that its value needs, a library call, or a look at indices. Units are joined by bytes saved:
everything at once where one kernel holds it, else the pair next that saves most (``fusekit.passes.segments.merge``).
Data and ordering edges between units stay free of cycles (``.reach``), so stores on both sides of a library call may be
one kernel where nothing orders them. Views that outputs are rebuilt from are alias segments, which launch nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from fusekit.ids import NodeId
from fusekit.ir import SEGMENTED, UNSEGMENTED, Graph, Invariant, OnTrial, PassResult
from fusekit.passes.segments.decided import check_apart, check_there, put_in_order, put_together
from fusekit.passes.segments.judge import Ops
from fusekit.passes.segments.merge import Limits, Merger
from fusekit.passes.segments.sharing import cost, readers, shared
from fusekit.passes.segments.stored import with_cuts, with_loops
from fusekit.passes.segments.units import units_of
from fusekit.passes.segments.write import write
from fusekit.schedule import SCHEDULERS, Lowers, Scheduler, Target, choose, segment_target
from fusekit.why import Reason

Roots = tuple[NodeId, ...]
ROUNDS = 4  # of storing what crosses
CUTS = 32  # rounds of taking back what makes no kernel


@dataclass(frozen=True)
class SegmentOps:
    """``values``: the most ops of a kernel whose stores share bytes; ``unrelated``: of one that saves only a launch.

    ``again``: values that no pass forwards may be computed again in each kernel that needs them, where that moves fewer
    bytes than to store them once. ``exact``: False launches a write after the reads that it may meet. The rest is what
    a person decided, by stores and library calls: sets that are one kernel (``together``), sets of which no two are
    (``apart``), values with a boundary after them (``cuts``), sequences that are launched in their order (``order``).
    Raises FusekitError for a decision that breaks the order or the loops.

    ``lowers``: asked of each set that is to be one kernel, for ``target``, with what ``schedulers`` make of it; a set
    of which nothing lowers is none, and the next best merges are taken.
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
    target: Target = "cpu"
    schedulers: tuple[Scheduler, ...] = SCHEDULERS
    lowers: Lowers | None = None

    def __call__(self, graph: Graph) -> PassResult:
        merger = self._lowering(with_cuts(graph, self.cuts))
        check_there(merger, self.together, (*self.apart, *self.order))
        draft = merger.graph.draft(self.name)
        rows = write(graph, draft, merger)
        return replace(draft.finish(self.ensures), merges=rows)

    def _lowering(self, graph: Graph) -> Merger:
        """Groups of which each makes a kernel, or is a store that nothing can be taken from."""
        refused: dict[Ops, Reason] = {}
        merger = self._all_merged(graph, refused)
        for _ in range(CUTS):
            found = self._without_kernel(merger)
            if not found.keys() - refused.keys():
                break
            refused |= found
            merger = self._all_merged(graph, refused)
        return merger

    def _without_kernel(self, merger: Merger) -> dict[Ops, Reason]:
        """Groups of which no scheduler's loops lower, and why; what holds no reduction always has loops."""
        found: dict[Ops, Reason] = {}
        if self.lowers is None:
            return found
        trials = OnTrial(merger.graph)
        for group in merger.info.values():
            if group.is_kernel and group.folds:
                segment = trials.segment_on_trial(group.ops)
                target = segment_target(trials, segment, self.target)
                choice = choose(trials, segment, target, self.schedulers, self.lowers)
                if choice.scheduler is None:
                    found[group.ops] = choice.refusals[-1][1]
        return found

    def _all_merged(self, graph: Graph, refused: Mapping[Ops, Reason]) -> Merger:
        return self._stored_once(self._merged(with_loops(graph, refused), refused))

    def _stored_once(self, merger: Merger) -> Merger:
        """With values that cross from kernel to kernel in memory, while that moves fewer bytes in all."""
        for _ in range(ROUNDS):
            found = readers(merger, self.again)
            if not found:
                break
            stored = shared(merger.graph, found)
            other = self._merged(stored, merger.refused_sets)
            if self.again and cost(other) >= cost(merger) and not self._asks_for(stored, merger.graph):
                break
            merger = other
        return merger

    def _asks_for(self, stored: Graph, before: Graph) -> bool:
        """Has a person decided about a store that is new?"""
        return any(root in stored and root not in before for roots in (*self.apart, *self.order) for root in roots)

    def _merged(self, graph: Graph, refused: Mapping[Ops, Reason]) -> Merger:
        apart = tuple(map(frozenset[NodeId], self.apart))
        merger = Merger(graph, units_of(graph), Limits(self.values, self.unrelated, self.exact), apart, refused)
        check_apart(merger, self.apart)
        put_in_order(merger, self.order)
        put_together(merger, self.together)
        merger.run()
        return merger
