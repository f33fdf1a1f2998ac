"""Which scheduler takes a segment: the first, in a fixed order, that accepts it and whose schedule lowers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fusekit.errors import IllegalTransform
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.schedule.alias import Alias
from fusekit.schedule.base import Cost, Lowers, Scheduler, Target
from fusekit.schedule.extern import Extern
from fusekit.schedule.fallback import Fallback
from fusekit.schedule.nested import Nested
from fusekit.schedule.persistent import Persistent
from fusekit.schedule.pointwise import Pointwise
from fusekit.schedule.record import Schedule
from fusekit.schedule.reduction import Reduction
from fusekit.schedule.resize import Resize
from fusekit.schedule.transpose import Transpose
from fusekit.why import Reason

SCHEDULERS: tuple[Scheduler, ...] = (
    Alias(), Extern(), Pointwise(), Reduction(), Persistent(), Transpose(), Resize(), Nested(), Fallback(),
)  # fmt: skip


FREE: Cost = (0, 0)


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


def segment_target(graph: Graph, segment: NodeId, target: Target) -> Target:
    """What a segment's kernel is made for: among tensors of a GPU, what touches only the CPU's memory runs there."""
    if target == "cpu" or not any(_is_of_gpu(graph, block) for block in graph.blocks()):
        return target
    members = graph.members(segment)
    touched = {graph.block_of(t) for op in members for t in (*graph.operands(op), *graph.results(op))}
    return target if any(block is not None and _is_of_gpu(graph, block) for block in touched) else "cpu"


def _is_of_gpu(graph: Graph, block: NodeId) -> bool:
    return graph.block(block).device.startswith("cuda")


@dataclass(frozen=True)
class _Taken:
    scheduler: Scheduler
    schedule: Schedule
    cost: Cost


def choose(
    graph: Graph,
    segment: NodeId,
    target: Target,
    schedulers: tuple[Scheduler, ...] = SCHEDULERS,
    lowers: Lowers | None = None,
) -> Choice:
    """Asks one scheduler after another. Without ``lowers`` what a scheduler accepts is taken unseen.

    A schedule that is safe only with bytes copied gives way to one of the fallback's that needs fewer.
    """
    refusals: list[tuple[str, Reason]] = []
    for k, scheduler in enumerate(schedulers):
        refusal = scheduler.accepts(graph, segment)
        found = refusal if refusal is not None else _lowered(scheduler, graph, segment, target, lowers)
        if isinstance(found, Reason):
            refusals.append((scheduler.name, found))
            continue
        fallback = next((one for one in schedulers[k + 1 :] if isinstance(one, Fallback)), None)
        if found.cost > FREE and fallback is not None and fallback.accepts(graph, segment) is None:
            cheaper = _lowered(fallback, graph, segment, target, lowers, found.cost)
            if isinstance(cheaper, _Taken):
                refusals.append((scheduler.name, Reason.of("copies-more", nbytes=found.cost[1], other=fallback.name)))
                found = cheaper
        return Choice(found.scheduler, found.schedule, tuple(refusals))
    return Choice(None, Schedule(), tuple(refusals))


def _lowered(
    scheduler: Scheduler, graph: Graph, segment: NodeId, target: Target, lowers: Lowers | None, than: Cost | None = None
) -> _Taken | Reason:
    """The scheduler's first schedule that lowers, if at less cost ``than`` that; else why there is none."""
    refusal: Reason | None = None
    for schedule in _schedules(scheduler, graph, segment, target):
        cost = FREE if lowers is None else lowers(graph, segment, schedule, target)
        if isinstance(cost, Reason):
            refusal = refusal or cost
        elif than is None or cost < than:
            return _Taken(scheduler, schedule, cost)
        else:
            break
    return refusal or Reason.of("copies-as-much")


def _schedules(scheduler: Scheduler, graph: Graph, segment: NodeId, target: Target) -> Iterable[Schedule]:
    """Only the fallback has several."""
    if isinstance(scheduler, Fallback):
        return scheduler.schedules(graph, segment, target)
    return (scheduler.schedule(graph, segment, target),)
