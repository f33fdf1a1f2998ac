"""The schedule pass: domains in the graph, reasons for the choice and for each refusal, nothing else changed."""

import pytest
import torch

from fusekit.domains import read_loops, reference_of
from fusekit.errors import IllegalTransform, InvalidGraph
from fusekit.ir import Graph, diff, parse, print_graph
from fusekit.passes import PIPELINE, SchedulePass
from fusekit.programs import PROGRAMS, Program
from fusekit.schedule import parse_schedule
from fusekit.trace import record
from fusekit.why import Reason
from tests.schedule import samples


def segmented(program: Program) -> Graph:
    graph = record(program.fn, program.make((6, 5), torch.float32)).graph
    for one in PIPELINE[:-1]:
        graph = one(graph).graph
    return graph


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_every_segment_gets_loops(program: Program, target: str) -> None:
    before = segmented(program)
    text = print_graph(before)
    result = SchedulePass(target)(before)  # type: ignore[arg-type]
    after = result.graph
    assert print_graph(before) == text and SchedulePass(target)(before).graph == after  # type: ignore[arg-type]
    assert parse(print_graph(after)) == after
    for segment in after.segments():
        payload = after.segment(segment)
        if payload.scheduler in ("alias", "extern"):
            assert not payload.by
            continue
        reference = reference_of(after, segment)
        assert reference is not None
        assert read_loops(after, segment) == parse_schedule(payload.schedule).loops(reference, f"{segment[1:]}.")
        assert any(e.reason.name == "scheduled-by" and e.subject == (segment,) for e in result.explanations)
    changed = diff(before, after)
    assert all(node[0] in "#!" for node in changed.added) and all(node[0] == "$" for node in changed.changed)


def test_refusals_come_before_the_choice() -> None:
    result = SchedulePass("cuda")(samples.softmax())
    said = [(e.verdict, e.reason.name) for e in result.explanations]
    assert said == [("declined", "refused-by")] * 4 + [("did", "runs-over"), ("did", "scheduled-by")]
    assert "needs the elements again" in str(result.explanations[3])


def test_a_segment_that_no_scheduler_takes_stays_and_says_why() -> None:
    graph = samples.both_ways()
    result = SchedulePass(lowers=lambda *_: Reason.of("does-not-lower", because="nothing does"))(graph)
    assert result.graph == graph
    assert [e.reason.name for e in result.explanations[-2:]] == ["refused-by", "no-scheduler"]
    assert SchedulePass()(samples.nothing_stored()).explanations[-1].reason.name == "computes-nothing"


def test_a_chain_that_does_not_make_the_domains_is_found() -> None:
    text = print_graph(SchedulePass("cuda")(samples.dense_add()).graph)
    wrong = parse(text.replace("split(0, 256)", "split(0, 128)"))
    with pytest.raises(InvalidGraph, match="chains-make-the-domains"):
        wrong.draft("edit").finish(SchedulePass.ensures)


def test_a_chain_that_is_given_is_taken_instead_of_asking() -> None:
    chain = "split(0, 8).parallelize(BIDx, SERIAL, SERIAL).persist(%v)"
    result = SchedulePass(given=(("$0", chain),))(samples.dense_add())
    assert (result.graph.segment("$0").by, result.graph.segment("$0").schedule) == ("given", chain)
    assert [e.reason.name for e in result.explanations] == ["runs-over", "schedule-given"]


@pytest.mark.parametrize(
    ("chain", "what"),
    [("merge(5)", "no axis 5"), ("persist(%nobody)", "no value of"), ("split(0, 0)", "a factor of 0")],
)
def test_a_given_chain_that_is_illegal_is_refused(chain: str, what: str) -> None:
    with pytest.raises(IllegalTransform, match=what):
        SchedulePass(given=(("$0", chain),))(samples.dense_add())
