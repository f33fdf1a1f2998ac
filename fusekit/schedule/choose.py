"""Which scheduler takes a segment: the first that accepts it, in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusekit.errors import IllegalTransform
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.schedule.alias import Alias
from fusekit.schedule.base import Scheduler, Target
from fusekit.schedule.extern import Extern
from fusekit.schedule.nested import Nested
from fusekit.schedule.persistent import Persistent
from fusekit.schedule.pointwise import Pointwise
from fusekit.schedule.record import Schedule
from fusekit.schedule.reduction import Reduction
from fusekit.schedule.resize import Resize
from fusekit.schedule.transpose import Transpose
from fusekit.why import Reason

SCHEDULERS: tuple[Scheduler, ...] = (
    Alias(), Extern(), Pointwise(), Reduction(), Persistent(), Transpose(), Resize(), Nested(),
)  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """``scheduler`` took the segment, or None did; ``refusals`` are of those that were asked before."""

    scheduler: Scheduler | None
    schedule: Schedule
    refusals: tuple[tuple[str, Reason], ...]


def fitted(schedulers: tuple[Scheduler, ...], multiprocessors: int) -> tuple[Scheduler, ...]:
    """The schedulers for a device: so many blocks wait for one another as it holds at once, two on each."""
    together = 2 * multiprocessors
    return tuple(
        replace(one, together=together) if isinstance(one, Persistent)
        else replace(one, rows=replace(one.rows, together=together)) if isinstance(one, Nested) else one
        for one in schedulers
    )  # fmt: skip


def check_names(graph: Graph, segment: NodeId, schedule: Schedule) -> None:
    """Raises IllegalTransform where placements name what the segment does not compute."""
    values = {t for op in graph.members(segment) for t in graph.results(op)}
    named = (*(schedule.placements.persist or ()), *(tile.tensor for tile in schedule.placements.shared))
    for tensor in named:
        if tensor not in values:
            raise IllegalTransform(f"{tensor} is no value of {segment}", str(schedule), "name a value that it computes")


def choose(graph: Graph, segment: NodeId, target: Target, schedulers: tuple[Scheduler, ...] = SCHEDULERS) -> Choice:
    """Asks one scheduler after another."""
    refusals: list[tuple[str, Reason]] = []
    for scheduler in schedulers:
        refusal = scheduler.accepts(graph, segment)
        if refusal is None:
            return Choice(scheduler, scheduler.schedule(graph, segment, target), tuple(refusals))
        refusals.append((scheduler.name, refusal))
    return Choice(None, Schedule(), tuple(refusals))
