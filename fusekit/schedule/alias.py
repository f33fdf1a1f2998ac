"""alias: nothing but views of what is there; nothing is launched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fusekit.domains import roots
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.schedule.base import Target
from fusekit.schedule.record import Schedule
from fusekit.why import Reason


@dataclass(frozen=True)
class Alias:
    name: ClassVar[str] = "alias"

    def accepts(self, graph: Graph, segment: NodeId) -> Reason | None:
        if graph.segment(segment).scheduler == self.name:
            return None
        first = (*roots(graph, segment), *graph.members(segment))[0]
        return Reason.of("not-only-views", op=first)

    def schedule(self, graph: Graph, segment: NodeId, target: Target) -> Schedule:
        return Schedule()
