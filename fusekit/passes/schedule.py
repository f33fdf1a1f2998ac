"""schedule: which scheduler takes each segment, and the loops that it makes of the segment's iteration space.

The logical domain of the segment's reference and every transform become nodes of the graph; the segment's payload keeps
the chain, which is what a person edits and what the lowering reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from fusekit.domains import read_loops, reference_of, write_loops
from fusekit.errors import FusekitError, IllegalTransform
from fusekit.ids import NodeId
from fusekit.ir import SCHEDULED, SEGMENTED, Draft, Graph, Invariant, PassResult
from fusekit.schedule import (
    SCHEDULERS,
    Lowers,
    Schedule,
    Scheduler,
    Target,
    check_names,
    choose,
    parse_schedule,
    segment_target,
)
from fusekit.why import Reason


def _chains_make_the_domains(graph: Graph) -> Iterator[tuple[NodeId, str]]:
    """The loop domain that the graph holds for a segment is the one that its chain makes."""
    for segment in graph.segments():
        found, reference = read_loops(graph, segment), reference_of(graph, segment)
        if found is None or reference is None:
            continue
        try:
            made = parse_schedule(graph.segment(segment).schedule).loops(reference, prefix_of(segment))
        except FusekitError as error:
            yield segment, f"has a chain that is illegal: {error}"
            continue
        if [made.graph.ids[i] for i in made.axes] != [found.graph.ids[i] for i in found.axes]:
            yield segment, f"has the loops {found}, its chain makes {made}"


def prefix_of(segment: NodeId) -> str:
    """What the names of a segment's iteration domains start with: ``$3`` -> ``3.``."""
    return f"{segment[1:]}."


@dataclass(frozen=True)
class SchedulePass:
    """``target``: cpu or cuda. ``schedulers`` are asked in order, and the first that accepts a segment takes it, if
    ``lowers`` says that its schedule makes a kernel (without ``lowers`` nobody is asked).

    ``given``: (segment, or an op of it, chain) of segments that are not asked about; an illegal one raises
    IllegalTransform.
    """

    name: ClassVar[str] = "schedule"
    expects: ClassVar[tuple[Invariant, ...]] = SEGMENTED
    ensures: ClassVar[tuple[Invariant, ...]] = (
        *SCHEDULED,
        Invariant("chains-make-the-domains", _chains_make_the_domains),
    )
    target: Target = "cpu"
    schedulers: tuple[Scheduler, ...] = SCHEDULERS
    lowers: Lowers | None = None
    given: tuple[tuple[str, str], ...] = ()

    def __call__(self, graph: Graph) -> PassResult:
        draft = graph.draft(self.name)
        for name, chain in self.given:
            if name not in graph:
                raise IllegalTransform(f"no segment holds {name} any more", f"the schedule {chain}", "write it anew")
        for segment in graph.segments():
            if graph.segment(segment).scheduler not in ("alias", "extern"):
                self._one(graph, draft, segment)
        return draft.finish(self.ensures)

    def _one(self, graph: Graph, draft: Draft, segment: NodeId) -> None:
        reference = reference_of(graph, segment)
        if reference is None:
            draft.decline((segment,), Reason.of("computes-nothing"))
            return
        members = set(graph.members(segment))
        given = next((chain for name, chain in reversed(self.given) if name == segment or name in members), None)
        if given is not None:
            name, schedule = "given", parse_schedule(given)
            why = Reason.of("schedule-given", chain=str(schedule))
        else:
            target = segment_target(graph, segment, self.target)
            choice = choose(graph, segment, target, self.schedulers, self.lowers)
            for refuser, refusal in choice.refusals:
                draft.decline((segment,), Reason.of("refused-by", scheduler=refuser, because=str(refusal)))
            if choice.scheduler is None:
                draft.decline((segment,), Reason.of("no-scheduler"))
                return
            name, schedule = choice.scheduler.name, choice.schedule
            why = Reason.of("scheduled-by", scheduler=name, target=target, chain=str(schedule))
        self._write(draft, graph, segment, name, schedule)
        space = str(list(reference.shape))
        draft.note((segment,), Reason.of("runs-over", space=space, root=reference.root), (reference.root,))
        draft.note((segment,), why, (reference.root,))

    @staticmethod
    def _write(draft: Draft, graph: Graph, segment: NodeId, by: str, schedule: Schedule) -> None:
        """Checks a schedule, and adds what it makes to the graph. Raises IllegalTransform."""
        reference = reference_of(graph, segment)
        assert reference is not None, "only what computes something is scheduled"
        check_names(graph, segment, schedule)
        schedule.check(reference)
        draft.replace(segment, replace(graph.segment(segment), by=by, schedule=str(schedule)))
        write_loops(draft, segment, schedule.loops(reference, prefix_of(segment)))
