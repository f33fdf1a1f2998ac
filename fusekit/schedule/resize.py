"""resize: slices, paddings and joins of values: parts are pulled with a choice, in the loops of the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fusekit.domains import reductions
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.schedule.base import Target, cpu_blocks, looked, start
from fusekit.schedule.look import look, resized_by
from fusekit.schedule.pointwise import flat
from fusekit.schedule.record import Schedule
from fusekit.why import Reason


@dataclass(frozen=True)
class Resize:
    """Dimensions are joined only where every access, also one in part, goes through them as through one."""

    name: ClassVar[str] = "resize"
    threads: int = 128

    def accepts(self, graph: Graph, segment: NodeId) -> Reason | None:
        if look(graph, segment) is None:
            return Reason.of("computes-nothing")
        if found := reductions(graph, segment):
            return Reason.of("has-reductions", op=found[0], count=len(found))
        return None if resized_by(graph, segment) else Reason.of("read-whole")

    def schedule(self, graph: Graph, segment: NodeId, target: Target) -> Schedule:
        seen = looked(look(graph, segment))
        if target == "cpu":
            groups = seen.groups(seen.order)
            return cpu_blocks(start(seen, groups), len(groups))
        return flat(seen, self.threads, 1, only_stores=True)
