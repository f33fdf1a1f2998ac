"""The document of an exploration: what it holds is what the exploration says, and JSON holds it."""

import dataclasses
import json
import re
from itertools import combinations

import pytest
import torch

from fusekit.errors import BackendUnavailable
from fusekit.exploration import explore
from fusekit.ids import NodeId
from fusekit.notebook import document
from fusekit.notebook.document import plain
from fusekit.notebook.pairs import END_IN_A_CHANGE, OWN_CHANGES
from fusekit.notebook.said import HAZARDS, MEMORY
from fusekit.notebook.source import excerpts, python_runs, short_path
from fusekit.why import SENTENCES
from tests.notebook.samples import aliased, several


@pytest.fixture(scope="module")
def shown():
    return document(aliased())


def test_steps_are_those_of_the_exploration(shown):
    x = aliased()
    assert [s.name for s in shown.steps] == [s.name for s in x.steps]
    assert [s.ops for s in shown.steps] == [s.graph.ops() for s in x.steps]


def test_counts_agree_with_the_differences(shown):
    x = aliased()
    for k, step in enumerate(shown.steps[1:], 1):
        found = x.diff(k - 1, k)
        counts = step.counts.added, step.counts.removed, step.counts.changed
        assert counts == (len(found.added), len(found.removed), len(found.changed))
        assert (step.delta == "no change") == (not step.changes)


def test_every_explanation_is_told(shown):
    for step, told in zip(aliased().steps, shown.steps, strict=True):
        subjects = {n for e in step.explanations for n in e.subject}
        assert {n for said in told.said for n in said.subject} == subjects
    hazards = {said.kind for said in shown.steps[1].said}
    assert {"hazard", "memory"} <= hazards


def test_a_sentence_names_the_op_that_it_means(shown):
    sentences = [said.sentence for said in shown.steps[1].said]
    assert any("exp_ ^1" in sentence for sentence in sentences), sentences


def test_texts_are_those_of_the_exploration_without_the_users_folders(shown):
    x = aliased()
    for step in shown.steps:
        text = "\n".join(line.text for line in step.text)
        ours = [line.partition("  # ")[0] for line in text.splitlines()]
        assert ours == [line.partition("  # ")[0] for line in x.text(step.name).splitlines()]
    assert "# notebook/samples.py:" in text
    assert __file__.rpartition("/")[0] not in json.dumps(plain(shown))


def test_source_lines_know_their_ops(shown):
    (source,) = shown.sources
    assert source.path == "notebook/samples.py"
    assert source.lines[0].text.startswith("def in_place")
    written = next(line for line in source.lines if "exp_" in line.text)
    assert {"^1", "^2", "^3"} <= set(written.nodes)
    assert not source.lines[0].nodes


def test_kernel_lines_know_their_ops_and_keep_the_source(shown):
    kernel = aliased().kernels[0]
    (segment,) = (s for s in shown.segments if s.lines)
    assert "\n".join(line.text for line in segment.lines) == kernel.source.rstrip("\n")
    for number, ops in kernel.lines:
        assert segment.lines[number - 1].nodes == ops
    assert segment.races


def test_a_library_call_says_that_it_has_no_source():
    shown = document(several())
    calls = [s for s in shown.segments if not s.lines]
    assert calls and all(s.note for s in calls)
    assert any("aten" in s.name for s in calls)


def test_the_merge_log_is_told_row_by_row(shown):
    for step, told in zip(aliased().steps, shown.steps, strict=True):
        assert len(step.merges) == len(told.merges)
        for trial, row in zip(step.merges, told.merges, strict=True):
            assert row.verdict == trial.verdict and row.asked == trial.asked_lines and " + " in row.title
            assert set(row.nodes) <= {*trial.first, *trial.second} and set(row.nodes) <= set(shown.nodes)
    (row,) = next(s.merges for s in shown.steps if s.name == "segment")
    assert row.title == "overlay ^store + mul ^store.1" and row.verdict == "merged" and row.saved == "80 B"


def test_any_two_segments_say_why_they_are_two():
    x = several()
    shown = document(x)
    ids = [s.id for s in shown.segments]
    assert [(a.first, a.second) for a in shown.apart] == list(combinations(ids, 2))
    told = next(a for a in shown.apart)
    assert told.sentence == "mm is a library call, which no kernel takes in" and "in place of" in told.change
    for one in shown.apart:
        assert one.sentence in str(x.why(one.first, one.second)[0].reason) and "; " not in one.change


def test_sentences_name_segments_and_blocks_as_the_pictures_do():
    x = explore(lambda a, w: (a.exp() @ w).exp() @ w + a.exp(), torch.rand(33, 33), torch.rand(33, 33))
    shown = document(x)
    sentences = [one.sentence for one in (*shown.apart, *shown.steps[-2].said)]
    sentences += [one.because for step in shown.steps for one in step.merges]
    assert any("must run after S0" in text for text in sentences), sentences
    assert not any(re.search(r"\$\d|(?<!block [A-Z] )@\d", text) for text in sentences)


def test_a_change_stands_apart_from_its_reason():
    x = explore(lambda a, b: (a.exp(), b.sin()), torch.ones(3, 5), torch.ones(7))
    (told,) = document(x).apart
    assert told.sentence.startswith("iteration spaces differ ([3, 5] against [7])")
    assert told.change == "one shape, or a tensor that both read, would join them"


def test_the_race_record_has_the_words_of_why(shown):
    x = aliased()
    (segment,) = (s for s in shown.segments if s.lines)
    assert [r.sentence for r in segment.races] == [str(e.reason) for e in x.why(segment.id) if e.by == "lower"]
    assert {r.kind for r in segment.races} == {"hazard"}


def test_many_pairs_with_one_remedy_are_few_rows():
    x = explore(lambda a: a.copy_(a.flip(0) + a.t()), torch.rand(65, 65))
    (segment,) = document(x).segments
    record = [e for e in x.why(segment.id) if e.by == "lower"]
    assert len(record) > 60 and len(segment.races) < 20
    assert any("more alike" in row.sentence for row in segment.races)


def test_schedulers_that_refuse_are_one_row(shown):
    refused = [one for one in shown.steps[-1].said if one.sentence.startswith("not ")]
    assert len(refused) == len({one.subject for one in refused}) and "\nnot " in refused[0].sentence


def test_marks_are_of_reasons_that_exist():
    assert set(SENTENCES) >= HAZARDS | MEMORY | END_IN_A_CHANGE | set(OWN_CHANGES) and not HAZARDS & MEMORY


def test_cards_follow_a_node_through_the_steps(shown):
    seen = shown.nodes[NodeId("^1")]
    assert [s.since for s in seen] == sorted({s.since for s in seen})
    facts = dict(seen[0].card.facts)
    assert facts["op"] == "aten.exp_.default" and facts["line"].startswith("notebook/samples.py:")
    last = shown.steps[-1].ops
    for node, seen in shown.nodes.items():
        here = node in aliased().graph
        assert (seen[-1].card is not None) == here
    assert set(last) <= set(shown.nodes)


def test_views_are_those_that_draw(shown):
    x = aliased()
    for k, step in enumerate(shown.steps):
        assert step.best in step.views
        for view in step.views:
            assert x.diagram(k, view).svg.startswith("<svg")


def test_it_is_plain_frozen_data(shown):
    assert json.loads(json.dumps(plain(shown)))["program"] == "in_place"
    with pytest.raises(dataclasses.FrozenInstanceError):
        shown.program = "another"


def test_what_cannot_be_told_is_said():
    class Broken:
        name, fn, steps = "broken", None, aliased().steps

        @property
        def segments(self):
            raise BackendUnavailable("no compiler", None, "install one")

    shown = document(Broken())
    assert shown.problem == "BackendUnavailable: no compiler; install one"
    assert len(shown.steps) == len(aliased().steps) and not shown.summary


def test_runs_join_to_the_text():
    text = 'def f(x):\n    """two\n    lines"""\n\n    return x @ 1.5  # </script>\n'
    lines = python_runs(text)
    assert "\n".join("".join(piece for _, piece in line) for line in lines) == text
    assert ("k", "def") in lines[0] and ("nf", "f") in lines[0]


def test_a_missing_or_broken_file_is_left_out(tmp_path):
    broken = tmp_path / "cell.py"
    broken.write_text("%magic\nx = (\ny = x.exp()\n")
    nodes = {str(broken): {3: (NodeId("^1"),)}, str(tmp_path / "gone.py"): {1: (NodeId("^2"),)}}
    (shown,) = excerpts(None, nodes)
    assert [line.nodes for line in shown.lines] == [(), (), ("^1",)]


def test_paths_are_short():
    assert short_path("/a/b/c/model.py") == "c/model.py"
    assert short_path("/x/ipykernel_17/123.py") == "cell of the notebook"
