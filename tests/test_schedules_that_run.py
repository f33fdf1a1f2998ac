"""What runs is what is recorded: every kernel is made by its segment's schedule, and every set of ops has a kernel."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

import fusekit as fk
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.lower import lower_segment, lowers
from fusekit.passes import SegmentOps
from fusekit.pipeline import Options, lower_graph, run_passes
from fusekit.programs import LARGE, ODD, PROGRAMS, PROGRAMS_REAL
from fusekit.schedule import Cost, Fallback, Schedule, Target, choose, parse_schedule
from fusekit.trace import record
from fusekit.why import Reason

BY_NAME = {p.name: p for p in (*PROGRAMS, *PROGRAMS_REAL)}


def scheduled(name: str, target: str, size: tuple[int, ...] = LARGE) -> Graph:
    program = BY_NAME[name]
    graph = record(program.fn, program.make(size, torch.float32)).graph
    return run_passes(graph, Options(backend=target))[-1].graph


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", BY_NAME)
def test_the_recorded_schedule_makes_the_kernel(name: str, target: Literal["cpu", "cuda"]) -> None:
    graph = scheduled(name, target)
    made = lower_graph(graph, target)
    assert not made.refused
    for segment, kernel in made.kernels.items():
        chain = graph.segment(segment).schedule
        again = lower_segment(graph, segment, schedule=parse_schedule(chain), target=target)
        assert (kernel.schedule, kernel.source) == (chain, again.source)
        assert graph.segment(segment).by


@pytest.mark.parametrize("size", [LARGE, ODD])
def test_two_directions_of_sums_are_two_kernels_where_one_does_not_lower(size: tuple[int, int]) -> None:
    """A layer norm's backward sums rows and columns: one kernel where a block holds all rows, else two."""
    graph = scheduled("layer_norm_backward", "cuda", size)
    kernels = lower_graph(graph, "cuda").kernels
    names = [graph.segment(s).by for s in kernels]
    assert names == (["persistent", "reduction"] if size == LARGE else ["fallback"])


def test_the_fallback_is_told_like_any_scheduler() -> None:
    x = fk.explore(lambda a: (a.softmax(1), a.sum(0)), torch.rand(64, 32))
    (segment,) = x.segments
    assert x.graph.segment(segment.id).by == "fallback" and segment.schedule == segment.kernel.schedule == "keep()"
    said = [e.reason.name for e in x.why(segment.id)]
    assert "scheduled-by" in said and "no-scheduler" not in said
    assert x.check().ok


def test_a_set_of_which_nothing_lowers_is_cut_and_says_why() -> None:
    """With a lowering that takes one reduction at a time, what would be one kernel is cut, and all of it has some."""
    program = record(lambda a: (a.sum(1), (a * a).sum(1), a.amax(1)), (torch.rand(8, 16),)).graph
    graph = run_passes(program, Options())[-3].graph
    asked: list[int] = []

    def one_fold(graph: Graph, segment: NodeId, schedule: Schedule, target: Target) -> Cost | Reason:
        folds = sum(graph.op(op).target == "fk.reduce" for op in graph.members(segment))
        asked.append(folds)
        return lowers(graph, segment, schedule, target) if folds < 2 else Reason.of("does-not-lower", because="two")

    whole = SegmentOps(lowers=lowers)(graph)
    cut = SegmentOps(lowers=one_fold)(graph)
    assert len(whole.graph.segments()) == 1 and len(cut.graph.segments()) == 3 and max(asked) == 3
    reasons = [t.reason for t in cut.merges if t.verdict == "refused"]
    assert reasons and all(r.name == "no-common-loops" and "two" in str(r) for r in reasons)


@pytest.mark.parametrize("cheap", [True, False])
def test_a_schedule_that_copies_gives_way_to_one_that_need_not(cheap: bool) -> None:
    graph = scheduled("transposed_add", "cuda")
    segment = graph.segments()[0]
    fallbacks = list(map(str, Fallback().schedules(graph, segment, "cuda")))

    def copying(graph: Graph, segment: NodeId, schedule: Schedule, target: Target) -> Cost | Reason:
        return (0, 0) if cheap and str(schedule) in fallbacks else (1, 4096)

    choice = choose(graph, segment, "cuda", lowers=copying)
    assert choice.scheduler is not None
    if cheap:
        assert choice.scheduler.name == "fallback" and choice.refusals[-1][1]["nbytes"] == 4096
    else:
        assert choice.scheduler.name == "transpose" and str(choice.schedule) not in fallbacks
