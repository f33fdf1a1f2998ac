"""pointwise: no reduction; whatever is read is read whole, and along the innermost loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fusekit.domains import reductions
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.schedule.base import B, T, Target, U, V, cpu_blocks, looked, start
from fusekit.schedule.look import Look, look, resized_by
from fusekit.schedule.record import Schedule
from fusekit.why import Reason


@dataclass(frozen=True)
class Pointwise:
    """``threads`` of a block, each with ``unroll`` vectors."""

    name: ClassVar[str] = "pointwise"
    threads: int = 256
    unroll: int = 1

    def accepts(self, graph: Graph, segment: NodeId) -> Reason | None:
        seen = look(graph, segment)
        if seen is None:
            return Reason.of("computes-nothing")
        if found := reductions(graph, segment):
            return Reason.of("has-reductions", op=found[0], count=len(found))
        if across := seen.across():
            return Reason.of("read-across", place=across[0].place)
        if resized := resized_by(graph, segment):
            return Reason.of("read-in-part", op=resized)
        return None

    def schedule(self, graph: Graph, segment: NodeId, target: Target) -> Schedule:
        seen = looked(look(graph, segment))
        if target == "cpu":
            groups = seen.groups(seen.order)
            return cpu_blocks(start(seen, groups), len(groups))
        return flat(seen, self.threads, self.unroll)


def flat(seen: Look, threads: int, unroll: int, only_stores: bool = False) -> Schedule:
    """All dimensions as one: blocks, unrolled vectors, threads, lanes. ``only_stores``: vectors are those of stores."""
    groups = seen.groups(seen.order)
    lanes = seen.lanes(groups[-1], only_stores) if groups else 1
    chain = start(seen, [seen.order])
    chain.split(0, lanes).split(0, threads)
    return chain.split(0, unroll).done(B, U, T, V) if unroll > 1 else chain.done(B, T, V)
