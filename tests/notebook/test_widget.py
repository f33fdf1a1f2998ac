"""The widget's protocol, spoken with a fake comm: what it sends, what it answers, and what it leaves alone."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import comm
import pytest
from comm.base_comm import BaseComm

from fusekit.errors import FusekitError
from fusekit.notebook.widget import Stepper
from tests.names.hostile import explored
from tests.notebook.samples import aliased, several


class FakeComm(BaseComm):
    """Keeps what it was told to send."""

    sent: list[dict[str, object]]

    def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
        self.__dict__.setdefault("sent", []).append({"type": msg_type, "data": data or {}})


@pytest.fixture
def stepper(monkeypatch):
    monkeypatch.setattr(comm, "create_comm", lambda **keys: FakeComm(**keys))
    made = aliased().stepper()
    yield made
    made.close()


def say(stepper: Stepper, content: object) -> list[dict[str, object]]:
    """What the widget answers to a message of the page: states by name, and custom messages."""
    before = len(stepper.comm.sent)
    stepper._handle_msg({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})
    return _told(stepper, before)


def move(stepper: Stepper, **where: object) -> list[dict[str, object]]:
    before = len(stepper.comm.sent)
    state = {"where": {**stepper.where, **where}}
    stepper._handle_msg({"content": {"data": {"method": "update", "state": state, "buffer_paths": []}}, "buffers": []})
    return _told(stepper, before)


def _told(stepper: Stepper, before: int) -> list[dict[str, object]]:
    told = []
    for message in stepper.comm.sent[before:]:
        data = message["data"]
        if data["method"] == "custom":
            told.append(data["content"])
        elif data["method"] == "update":
            told.append(data["state"])
    return told


def test_it_opens_with_everything_but_the_pictures(stepper):
    state = stepper.comm.sent[0]["data"]["state"]
    assert state["document"]["program"] == "in_place"
    assert list(state["first"]) == [f"{len(aliased().steps) - 1}|segments|0"]
    json.dumps({name: state[name] for name in ("document", "first", "where", "results")})


def test_a_picture_is_drawn_when_it_is_asked_for_and_once(stepper, monkeypatch):
    (answer,) = say(stepper, {"ask": "picture", "step": 1, "view": "aliases", "since": True})
    assert answer["picture"] == "1|aliases|1" and answer["svg"].startswith("<svg")
    monkeypatch.setattr("fusekit.notebook.widget.picture", None)
    assert say(stepper, {"ask": "picture", "step": 1, "view": "aliases", "since": True}) == [answer]


@pytest.mark.parametrize(
    "nonsense",
    [
        None,
        "picture",
        {"ask": "picture"},
        {"ask": "picture", "step": 99, "view": "program", "since": False},
        {"ask": "picture", "step": 0, "view": "segments", "since": False},
        {"ask": "exec", "code": "1/0"},
        {"ask": "what if", "wish": "exec", "nodes": ["$0"]},
        {"ask": "what if", "wish": "merge", "nodes": [5, 6]},
        {"step": 1},
    ],
)
def test_what_makes_no_sense_is_left_alone(stepper, nonsense):
    assert say(stepper, nonsense) == []


def test_check_and_run_answer_with_a_result(stepper):
    for what in ("check", "run"):
        told = [state["results"][what] for state in say(stepper, {"ask": what})]
        assert [result["status"] for result in told] == ["running", "ok"]
    assert "tensor(" in stepper.results["run"]["detail"]
    assert all(row[0] == "✓" for row in stepper.results["check"]["rows"])


def test_an_error_is_shown_in_place(stepper):
    def _fail() -> None:
        raise ValueError("<b>no</b>")

    stepper._x = SimpleNamespace(run=_fail, check=_fail)
    *_, last = say(stepper, {"ask": "run"})
    assert last["results"]["run"]["status"] == "failed"
    assert last["results"]["run"]["sentence"] == "ValueError: <b>no</b>"
    assert "Traceback" in last["results"]["run"]["detail"]


def test_a_difference_from_eager_is_no_error(stepper):
    rows = [
        SimpleNamespace(what=w, eager="1", fusekit=f, ok=ok) for w, f, ok in (("a", "1", True), ("out", "2", False))
    ]
    report = SimpleNamespace(ok=False, rows=rows, failures=rows[1:], repro=lambda: "# script")
    stepper._x = SimpleNamespace(check=lambda: report)
    result = stepper.check()
    assert result.status == "differs" and result.sentence == "1 of 2 facts differ"
    assert result.rows[0] == ("✗", "out", "1", "2") and result.detail == "# script"


def test_the_page_moves_the_state_and_python_moves_the_page(stepper):
    move(stepper, step=1, selected=["^2"], since=True)
    assert (stepper.state.step, stepper.state.selected, stepper.state.since) == (1, ("^2",), True)
    before = len(stepper.comm.sent)
    stepper.show("functionalize", view="memory")
    (told,) = _told(stepper, before)
    assert told["where"]["step"] == 2 and told["where"]["view"] == "memory" and told["where"]["selected"] == ["^2"]


def test_nonsense_of_a_page_is_put_right(stepper):
    told = move(stepper, step=1000, selected=["<script>"], segment=-4)
    assert told[-1]["where"]["step"] == len(aliased().steps) - 1
    assert stepper.where["selected"] == [] and stepper.where["segment"] == 0


def test_results_are_not_the_pages_to_set(stepper):
    stepper.check()
    before = stepper.state.check
    move(stepper, check={"status": "ok", "sentence": "trust me"})
    assert stepper.state.check == before


def test_a_wish_shows_another_exploration_and_back_the_first(stepper):
    move(stepper, step=len(aliased().steps) - 2, selected=["^2"])
    name = aliased().steps[-2].name
    running, told = say(stepper, {"ask": "what if", "wish": "without", "nodes": ["schedule"]})
    assert running["told"]["status"] == "running" and told["told"]["status"] == "ok"
    assert told["document"]["decisions"] == ["without='schedule'"] and told["where"]["selected"] == []
    steps = [step["name"] for step in told["document"]["steps"]]
    assert "schedule" not in steps and steps[told["where"]["step"]] == name
    assert list(told["first"]) == [f"{told['where']['step']}|segments|0"]
    (again,) = say(stepper, {"ask": "back"})
    assert again["document"]["decisions"] == [] and again["told"]["is_first"]
    assert stepper._x is aliased()


def test_without_its_step_the_page_stands_at_the_one_before(stepper):
    move(stepper, step=len(aliased().steps) - 1)
    *_, told = say(stepper, {"ask": "what if", "wish": "without", "nodes": ["schedule"]})
    assert told["document"]["steps"][told["where"]["step"]]["name"] == "segment"


def test_a_wish_that_is_not_legal_moves_nothing(stepper):
    told = say(stepper, {"ask": "what if", "wish": "split", "nodes": ["%a"]})
    assert [set(state) for state in told] == [{"told"}, {"told"}]
    last = stepper.told
    assert last["status"] == "failed" and "in memory already" in last["what"] and last["where"] == "%a" and last["fix"]
    assert stepper._x is aliased()


def test_pictures_are_those_of_the_exploration_that_is_shown(stepper):
    step = len(aliased().steps) - 2
    before = stepper.svg(step, "segments", False)
    assert stepper.what_if(split="$0").status == "ok"
    assert stepper.svg(step, "segments", False) != before
    assert stepper.exploration.decisions == ("split='$0'",)
    stepper.back()
    assert stepper.exploration is aliased()
    assert stepper.svg(step, "segments", False) == before


def test_it_can_begin_elsewhere():
    at = several().stepper(step="trace", node="^1", view="aliases")
    assert (at.state.step, at.state.selected) == (0, ("^1",))
    with pytest.raises(FusekitError, match="no step is called"):
        several().stepper(step="no step")


def test_the_bundle_has_a_picture_beside_the_widget():
    data, _ = aliased()._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/html"].startswith("<img alt=") and "image/svg+xml" not in data
    assert data["text/plain"].startswith("exploration of in_place")


def test_without_widgets_there_is_the_picture(monkeypatch):
    monkeypatch.setitem(sys.modules, "fusekit.notebook.widget", None)
    data = aliased()._repr_mimebundle_()
    assert data["text/html"].startswith("<img alt=") and "application/vnd.jupyter.widget-view+json" not in data


def test_the_room_and_the_front_door_load_no_widgets():
    rooms = "fusekit, fusekit.notebook, fusekit.exploration"
    code = f"import sys, {rooms}; print('ipywidgets' in sys.modules, 'pygments' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def update(stepper: Stepper, state: dict[str, object]) -> list[dict[str, object]]:
    before = len(stepper.comm.sent)
    stepper._handle_msg({"content": {"data": {"method": "update", "state": state, "buffer_paths": []}}, "buffers": []})
    return _told(stepper, before)


@pytest.mark.parametrize("name", ["document", "first", "results", "told", "_esm", "_css", "layout", "_model_name"])
def test_a_page_changes_nothing_but_where_it_stands_and_is_told_what_is_true(stepper, name):
    truth = stepper.get_state(name)[name]
    for value in ({"program": "another"}, "<b>", None, 3, {}):
        told = update(stepper, {name: value})
        assert stepper.get_state(name)[name] == truth
        assert [state[name] for state in told if name in state] == [truth]


@pytest.mark.parametrize("where", ["x", None, 3, [], [["step", 1]]])
def test_a_place_that_is_none_is_answered_with_the_true_one(stepper, where):
    truth = dict(stepper.where)
    told = update(stepper, {"where": where, "nonsense": 1})
    assert stepper.where == truth and {"where": truth} in told


def test_a_page_may_select_anything_at_all(stepper):
    for selected in ([["a"]], [{}], [None, 3], "x", {"a": 1}, ["\ud800", "%a"]):
        move(stepper, selected=selected, view=["program"], pane={}, query=["\ud800"])
        assert set(stepper.state.selected) <= {"%a"}
    assert stepper.state.view in ("", "program", "segments") and stepper.state.pane == "kernel"


def test_what_a_page_sends_back_can_be_sent(stepper):
    told = move(stepper, query="\ud800 \x00 \u202e")
    json.dumps(told, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "wanted",
    [{"nonsense": 1}, {"view": "no"}, {"step": 1.5}, {"since": "yes"}, {"node": 3}, {"pane": "no"}, {"event": "1"}],
)
def test_what_is_no_place_is_refused_by_name(stepper, wanted):
    with pytest.raises(FusekitError, match=next(iter(wanted))) as told:
        stepper.show(**wanted)
    assert told.value.fix
    with pytest.raises(FusekitError):
        aliased().stepper(**wanted)


def test_names_that_are_no_text_reach_the_page_as_text(monkeypatch):
    monkeypatch.setattr(comm, "create_comm", lambda **keys: FakeComm(**keys))
    made = explored("lone\ud800", "lone\ud800").stepper()
    made.check()
    json.dumps(made.get_state(), ensure_ascii=False, default=str).encode()
    made.close()
