"""Views of graphs: what is said, marked, counted; and that a picture comes out whatever the engine does."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from fusekit.draw import VIEWS, Diagram, diagram, engine
from fusekit.errors import UnsupportedError
from fusekit.ids import NodeId
from fusekit.ir import Graph, core
from tests.draw import samples

SVG = "{http://www.w3.org/2000/svg}"


def texts(shown: Diagram) -> list[str]:
    return [e.text or "" for e in ET.fromstring(shown.svg).iter(f"{SVG}text")]


def ops(shown: Diagram) -> list[str]:
    return [e.get("data-op") or "" for e in ET.fromstring(shown.svg).iter(f"{SVG}g") if e.get("data-op")]


def tips(shown: Diagram) -> str:
    return "\n".join(e.text or "" for e in ET.fromstring(shown.svg).iter(f"{SVG}title"))


def group(shown: Diagram, id: str) -> ET.Element:
    return next(e for e in ET.fromstring(shown.svg).iter(f"{SVG}g") if e.get("id") == id)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("make", [samples.program, samples.functional, samples.segmented])
def test_every_view_of_every_stage_is_well_formed_and_stable(view: str, make) -> None:
    first, second = (diagram(make(), view=view, explanations=samples.reasons()) for _ in range(2))
    assert first == second
    ids = [e.get("id") for e in ET.fromstring(first.svg).iter() if e.get("id")]
    assert len(ids) == len(set(ids))


def test_program_shows_in_place_ops_and_hazards() -> None:
    shown = diagram(samples.program(), explanations=samples.reasons())
    said = texts(shown)
    assert {"exp_", "tanh_", "mul", "RAW WAR WAW", "a[0,0]", "writes b = a[0,0]", "  line 3"} <= set(said)
    assert {"^in", "^out"}.isdisjoint(ops(shown)) and {"^0", "^1", "^2", "%a", "%b", "%out"} <= set(ops(shown))
    assert "^0=>^2" not in ops(shown), "follows from the two others"
    assert "(1 follows from what is drawn)" in " ".join(said)
    assert "alias-groups: reads what ^1 wrote" in tips(shown)


def test_inputs_of_one_block_are_in_a_capsule() -> None:
    said = " ".join(texts(diagram(samples.program())))
    assert "b lies within a, as a[0,0]" in said and "must alias" in said


def test_values_read_like_sentences() -> None:
    said = set(texts(diagram(samples.functional())))
    assert {"of exp, at [0,0]", "tanh over exp, at [0,0]", "written back"} <= said
    assert not said & {"fk.load", "load", "store"}


def test_segment_has_a_tab_with_launches_and_bytes() -> None:
    shown = diagram(samples.segmented(), view="segments", explanations=samples.reasons())
    said = texts(shown)
    assert "S0" in said and any("1 kernel   12.0 MiB" in text for text in said)
    assert group(shown, "$0").get("data-segment") == "$0" and "one kernel over" in tips(shown)
    assert "%b" not in ops(shown), "nothing reads b under its own name"


def test_load_and_store_are_found_by_their_pills() -> None:
    graph = samples.segmented()
    assert "S0 pointwise, 8 ops, 1 kernel, 12.0 MiB." in diagram(graph, view="segments").desc


def test_since_marks_added_removed_and_changed() -> None:
    before = samples.functional()
    draft = before.draft("edit")
    tanh, mul = NodeId("^3"), NodeId("^5")
    draft.replace(mul, replace(before.op(mul), what=core.Call("aten.div.Tensor", before.op(mul).args)))
    store = next(op for op in before.ops() if op == "^6")
    draft.remove(store)
    extra = draft.add_segment(samples.Segment("pointwise", ()), [tanh])
    shown = diagram(draft.finish().graph, view="program", since=before)
    assert "fk-changed" in (group(shown, mul).get("class") or "")
    assert "was aten.mul.Tensor" in tips(shown)
    assert "1 segment added, 1 op removed" in " ".join(texts(shown)) and extra not in before


def test_since_draws_what_is_gone() -> None:
    later, earlier = samples.functional(), samples.program()
    draft = earlier.draft("edit")
    ghost = draft.add_op(
        samples.Op(core.Call("aten.sin.default", (samples.Operand(0),))), (NodeId("%out"),), (), id="^gone"
    )
    shown = diagram(later, since=draft.finish().graph)
    element = group(shown, ghost)
    assert "fk-removed" in (element.get("class") or "") and element.get("opacity") == "0.78"
    assert "fk-added" in (group(shown, "^4").get("class") or "")


def test_same_graph_has_no_difference() -> None:
    shown = diagram(samples.program(), since=samples.program())
    assert "no difference" in texts(shown) and "fk-added" not in shown.svg


def test_memory_lanes_tell_reads_and_writes() -> None:
    shown = diagram(samples.program(), view="memory")
    assert group(shown, "^0/@0").findtext(f"{SVG}text") == "RW" and group(shown, "^2/@1").findtext(f"{SVG}text") == "W"
    assert "b = a[0,0]" in texts(shown) and "RAW" in " ".join(texts(shown))
    assert shown.dot == "" and "Block A, 4.0 MiB: exp_(a) RW, tanh_(b) RW, mul(a, b) R." in shown.desc


@pytest.mark.parametrize("segmented_by", [0, 1])
def test_large_graph_is_drawn_far_and_fast(segmented_by: int) -> None:
    graph = samples.chain(125, segmented_by=segmented_by)
    assert len(graph.ops()) > 1000
    diagram(samples.program())  # the worker is warm
    start = time.monotonic()
    shown = diagram(graph, view="segments")
    assert time.monotonic() - start < 5, "2 s on a machine with nothing else to do"
    classes = [e.get("class") or "" for e in ET.fromstring(shown.svg).iter(f"{SVG}g")]
    assert sum("fk-tile" in c for c in classes) <= 250 and not any("fk-op" in c.split() for c in classes)
    assert set(graph.ops()) - {"^in", "^out"} <= set(ops(shown))


def test_far_and_near_can_be_asked_for() -> None:
    graph = samples.segmented()
    assert "fk-tile" in diagram(graph, view="segments", far=True).svg
    assert "fk-tile" not in diagram(samples.chain(20), far=False).svg


def test_unknown_view_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"choose one of program, .*domains"):
        diagram(samples.program(), view="fancy")


@pytest.mark.parametrize("view", ["program", "aliases", "segments"])
def test_plain_picture_where_no_engine_is(monkeypatch: pytest.MonkeyPatch, view: str) -> None:
    monkeypatch.setattr(engine, "_shared", None)
    monkeypatch.setattr(engine.shutil, "which", lambda name: None)
    shown = diagram(samples.segmented() if view == "segments" else samples.program(), view=view)
    assert shown.engine == "plain" and "pip install pygraphviz" in shown.why[0]
    assert 'data-engine="plain"' in shown.svg and {"^1", "%a"} <= set(ops(shown))


def test_save_by_ending(tmp_path: Path) -> None:
    shown = diagram(samples.program())
    assert shown.save(tmp_path / "f.svg").read_text() == shown.svg
    assert shown.save(str(tmp_path / "f.dot")).read_text().startswith("digraph")
    with pytest.raises(UnsupportedError, match="svg"):
        shown.save(tmp_path / "f.png")
    with pytest.raises(UnsupportedError, match="without Graphviz"):
        diagram(samples.program(), view="memory").save(tmp_path / "m.dot")


def test_notebook_gets_an_image_that_every_viewer_shows() -> None:
    shown = diagram(samples.program(), title='<b>"f"')
    bundle = shown._repr_mimebundle_()
    assert bundle["text/html"].startswith("<img alt=") and "data:image/svg+xml;base64," in bundle["text/html"]
    assert "<b>" not in bundle["text/html"] and bundle["image/svg+xml"] == shown._repr_svg_()


def test_empty_graph_is_a_picture(empty: Graph) -> None:
    for view in VIEWS:
        assert ET.fromstring(diagram(empty, view=view).svg).tag == f"{SVG}svg"


@pytest.fixture
def empty() -> Graph:
    return samples.empty_graph("nothing")


def test_no_folder_of_this_machine_is_in_a_picture() -> None:
    graph = samples.program()
    draft = graph.draft("edit")
    exp = NodeId("^0")
    draft.replace(exp, replace(graph.op(exp), origin=samples.Origin("/somewhere/project/model.py", 7, "Net.Linear")))
    shown = diagram(draft.finish().graph)
    assert "project/model.py:7 in Net.Linear" in tips(shown) and "someone" not in shown.svg


def test_far_zoom_keeps_a_deep_model_narrow() -> None:
    root = ET.fromstring(diagram(samples.chain(60, segmented_by=1), view="segments").svg)
    assert int(root.get("width") or 0) < 1000


def test_value_computed_in_two_segments_comes_from_neither() -> None:
    graph = samples.functional()
    ops_ = [op for op in graph.ops() if op not in ("^in", "^out")]
    draft = graph.draft("segment")
    stores = [op for op in ops_ if graph.op(op).target == "fk.store"]
    for store in reversed(stores):  # a is written last: the other launch still reads it
        draft.add_segment(
            samples.Segment("pointwise", (samples.N, samples.N)), [op for op in ops_ if op not in stores] + [store]
        )
    shown = draft.finish().graph
    far = ET.fromstring(diagram(shown, view="segments", far=True).svg)
    assert not [
        e for e in far.iter(f"{SVG}g") if (e.get("data-from"), e.get("data-to")) in {("$0", "$1"), ("$1", "$0")}
    ]
    near = diagram(shown, view="segments")
    assert {"^1", "^1~2"} <= {e.get("id") for e in ET.fromstring(near.svg).iter(f"{SVG}g")}
