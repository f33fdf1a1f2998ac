"""Where the page stands and how it moves, in Python and in the page's own language alike."""

import json
import random
import shutil
import subprocess
from dataclasses import replace

import pytest

from fusekit.ids import NodeId
from fusekit.notebook import document, state
from fusekit.notebook.document import plain
from fusekit.notebook.page import STATIC
from fusekit.notebook.state import MOVES, Result, State, arrived, hits, moved, picture_of, rail, start, view_of, where
from tests.notebook.samples import aliased, several


@pytest.fixture(scope="module")
def doc():
    return document(aliased())


def test_it_starts_at_the_last_step(doc):
    at = start(doc)
    assert at.step == len(doc.steps) - 1 and view_of(at, doc) == "segments"
    assert picture_of(at, doc) == (at.step, "segments", False)


def test_steps_end_at_the_ends(doc):
    at = start(doc)
    assert state.forward(at, doc) == at
    for _ in range(10):
        at = state.back(at, doc)
    assert at.step == 0
    assert state.go(at, doc, 99).step == len(doc.steps) - 1


def test_a_quiet_rail_skips_what_changed_nothing(doc):
    same = replace(doc.steps[1], delta="no change")
    others = (replace(step, delta="1 op changed") for step in doc.steps[2:])
    still = replace(doc, steps=(doc.steps[0], same, *others))
    at = State(step=0, quiet=True)
    assert rail(at, still) == (0, *range(2, len(doc.steps)))
    assert state.forward(at, still).step == 2
    assert rail(State(step=1, quiet=True), still) == tuple(range(len(doc.steps))), "the current step is always there"


def test_a_selection_survives_a_step_and_an_event_does_not(doc):
    at = state.event(State(step=1), doc, 1)
    assert at.event == 0 and at.selected == doc.steps[1].said[0].subject
    later = state.forward(at, doc)
    assert later.selected == at.selected and later.event == -1


def test_events_are_walked_in_order(doc):
    at, seen = State(step=1), []
    for _ in doc.steps[1].said:
        at = state.event(at, doc, 1)
        seen.append(at.event)
    assert seen == list(range(len(doc.steps[1].said)))
    assert state.event(at, doc, 1).event == at.event


def test_ops_are_walked_in_program_order(doc):
    at, seen = State(step=0), []
    for _ in doc.steps[0].ops:
        at = state.walk(at, doc, 1)
        seen += at.selected
    assert tuple(seen) == doc.steps[0].ops
    assert state.walk(at, doc, 1).selected == doc.steps[0].ops[:1]
    assert state.walk(State(step=0), doc, -1).selected == doc.steps[0].ops[-1:]


def test_unknown_nodes_are_not_selected(doc):
    assert state.select(State(), doc, ["^1", "^999", "<script>"]).selected == ("^1",)


def test_a_selected_op_shows_its_kernel():
    doc = document(several())
    k, segment = next((k, s) for k, s in enumerate(doc.segments) if s.lines)
    op = next(n for line in segment.lines for n in line.nodes)
    assert state.select(State(step=len(doc.steps) - 1), doc, [op]).segment == k


def test_a_second_node_is_selected_beside_the_first_and_taken_out_again(doc):
    at = state.toggle(state.select(State(), doc, ["^1"]), doc, "^2")
    assert at.selected == ("^1", "^2")
    assert state.toggle(at, doc, "^1").selected == ("^2",)
    assert state.toggle(at, doc, "^none") == at


def test_two_selected_segments_are_a_pair():
    doc = document(several())
    first, second = (s.id for s in doc.segments[:2])
    at = state.select(State(), doc, [second, first])
    assert state.pair(at, doc) == (first, second), "in launch order, however they were selected"
    ops = state.select(State(), doc, [doc.segments[0].nodes[0], doc.segments[1].nodes[-1]])
    assert state.pair(ops, doc) == (first, second), "ops stand for their segments"
    assert state.pair(state.select(State(), doc, [first]), doc) is None
    assert state.pair(state.select(State(), doc, doc.segments[1].nodes[:2]), doc) is None, "two ops of one segment"


def test_a_view_that_a_step_lacks_falls_back(doc):
    at = state.choose_view(start(doc), doc, "segments")
    first = state.go(at, doc, 0)
    assert view_of(first, doc) == "program" and view_of(state.go(first, doc, 99), doc) == "segments"
    assert state.choose_view(first, doc, "segments") == first


def test_changes_are_marked_only_where_a_step_is_before(doc):
    at = state.mark_changes(State(step=0), doc, True)
    assert picture_of(at, doc)[2] is False and picture_of(state.go(at, doc, 1), doc)[2] is True


@pytest.mark.parametrize(
    ("query", "finds", "not_"),
    [
        ("exp", "^1", "^2"),
        ("op:tanh", "^2", "^1"),
        ("type:f32 role:input", "%a", "^1"),
        ("^2", "^2", "^1"),
        ("changed:added", "^store", "^1"),
        ("EXP aten", "^1", "^2"),
    ],
)
def test_search(doc, query, finds, not_):
    found = hits(State(step=2, query=query), doc)
    assert finds in found and not_ not in found


def test_search_of_nothing_finds_nothing(doc):
    assert hits(State(query="  "), doc) == () == hits(State(query="no such thing"), doc)


def test_results_arrive(doc):
    at = arrived(State(), "check", Result("ok", "the same"))
    assert at.check.status == "ok" and at.run.status == "none"
    assert arrived(at, "run", Result("failed", "E")).check == at.check


@pytest.mark.parametrize(
    "nonsense",
    [
        {},
        {"step": "2", "selected": 5, "segment": None, "event": 1e9},
        {"step": -5, "selected": ["^1", 7], "pane": "<b>", "view": "no view", "query": "x" * 1000},
        {"step": 10**9, "segment": 10**9, "event": 10**9, "since": "yes", "unknown": 1},
    ],
)
def test_whatever_a_page_asks_for_is_a_state(doc, nonsense):
    at = moved(start(doc), doc, nonsense)
    assert 0 <= at.step < len(doc.steps) and 0 <= at.segment < len(doc.segments)
    assert at.pane in state.PANES and len(at.query) <= 200 and view_of(at, doc) in doc.steps[at.step].views
    json.dumps(where(at))


def test_a_state_survives_the_way_to_the_page_and_back(doc):
    at = state.event(State(step=1, since=True, query="exp", pane="text"), doc, 2)
    assert moved(start(doc), doc, json.loads(json.dumps(where(at)))) == at


def _random_moves(doc, count: int, seed: int) -> list[tuple[str, object]]:
    pick = random.Random(seed)
    nodes = [*doc.nodes, NodeId("^none")]
    values = {
        "go": lambda: pick.randrange(-2, len(doc.steps) + 2),
        "event": lambda: pick.choice([-1, 1]),
        "walk": lambda: pick.choice([-1, 1]),
        "select": lambda: pick.sample(nodes, pick.randrange(3)),
        "toggle": lambda: pick.choice(nodes),
        "markChanges": lambda: pick.random() < 0.5,
        "hideUnchanged": lambda: pick.random() < 0.5,
        "chooseView": lambda: pick.choice(["program", "aliases", "segments", "memory", "none"]),
        "chooseSegment": lambda: pick.randrange(-1, 4),
        "choosePane": lambda: pick.choice(["kernel", "text", "none"]),
        "search": lambda: pick.choice(["", "exp", "op:tanh", "changed:added", "type:f32 a", "none:x"]),
    }
    names = [pick.choice(sorted(MOVES)) for _ in range(count)]
    return [(name, values[name]() if name in values else None) for name in names]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("explored", [aliased, several], ids=["aliased", "several"])
def test_the_page_moves_as_python_does(explored, tmp_path):
    doc = document(explored())
    asked = _random_moves(doc, 400, 7)
    ours, at = [], start(doc)
    for name, value in asked:
        at = MOVES[name](at, doc, *([] if value is None else [value]))
        two = state.pair(at, doc)
        ours.append([where(at), list(hits(at, doc)), two and list(two)])
    script = (STATIC / "moves.js").read_text() + (
        "const {doc, at, asked} = JSON.parse(require('fs').readFileSync(0));\nlet s = at; const out = [];\n"
        "for (const [name, value] of asked) {\n"
        "  s = moves[name](s, doc, value);\n  out.push([s, hits(s, doc), pairOf(s, doc)]);\n}\n"
        "console.log(JSON.stringify(out));\n"
    )
    given = json.dumps({"doc": plain(doc), "at": where(start(doc)), "asked": asked})
    (tmp_path / "walk.cjs").write_text(script)
    done = subprocess.run(["node", "walk.cjs"], cwd=tmp_path, input=given, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    for k, (mine, theirs) in enumerate(zip(ours, json.loads(done.stdout), strict=True)):
        assert theirs == mine, f"after move {k}: {asked[k]}"
