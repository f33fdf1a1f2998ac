"""Why two groups are not one, for any pair: from what refused them, from the order, or for want of a gain."""

from __future__ import annotations

from dataclasses import dataclass

from fusekit.ids import NodeId
from fusekit.passes.segments import reasons
from fusekit.passes.segments.merge import Merger
from fusekit.why import Reason


@dataclass(frozen=True)
class Apart:
    """Reads a finished merging; ``names``: the segment of each group."""

    merger: Merger
    names: dict[int, NodeId]

    def why(self, a: int, b: int) -> Reason:
        """For groups ``a`` and ``b``, in either order."""
        merger, info = self.merger, self.merger.info
        bar = merger.order.barred((a, b))
        calls = [g for g in (a, b) if not info[g].is_kernel]
        if calls:
            return reasons.extern_call(merger.graph, info[calls[0]].roots[0])
        if bar is not None:
            return reasons.must_follow(merger.graph, bar)
        if (through := merger.order.between((a, b))) is not None:
            first, then = (a, b) if merger.order.reaches(a, b) else (b, a)
            return reasons.cycle(self.names[through], self.names[first], self.names[then], info[through].is_kernel)
        if (refused := merger.refused.get((min(a, b), max(a, b)))) is not None:
            return refused
        one, other = info[a], info[b]
        found = merger.obstacle((a, b)) or merger.no_loops(one, other)
        return found or reasons.no_gain(one, other, merger.limits.unrelated)
