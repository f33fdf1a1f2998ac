"""extern: one library call, which brings its own loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.schedule.base import Target
from fusekit.schedule.record import Schedule
from fusekit.why import Reason


@dataclass(frozen=True)
class Extern:
    name: ClassVar[str] = "extern"

    def accepts(self, graph: Graph, segment: NodeId) -> Reason | None:
        return None if graph.segment(segment).scheduler == self.name else Reason.of("no-library-call")

    def schedule(self, graph: Graph, segment: NodeId, target: Target) -> Schedule:
        return Schedule()
