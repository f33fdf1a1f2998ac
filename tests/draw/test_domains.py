"""The view "domains": ladders from root to logical, with loop and allocation as two forks."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations, pairwise

import pytest

from fusekit.domains import Allocation, Axes, Parallelize, SplitBy, write_allocation
from fusekit.draw import Diagram, diagram
from fusekit.draw.domains import ladders_of
from fusekit.draw.notes import Notes
from fusekit.draw.rungs import depth_of, rungs_of
from fusekit.errors import UnsupportedError
from fusekit.ids import NodeId
from fusekit.ir import DomainKind, Graph, IterDomain, Merge, Parallel, parse, print_graph
from fusekit.passes.schedule import SchedulePass
from fusekit.schedule import Target
from fusekit.why import Reason
from tests.draw import samples as pictures
from tests.schedule import samples

SVG = "{http://www.w3.org/2000/svg}"
S0 = NodeId("$0")
SAMPLES = {
    "softmax": samples.softmax((4096, 4096)),
    "odd softmax": samples.softmax((1024, 1031)),
    "columns": samples.total((1024, 1031), (0,)),
    "all": samples.total((1024, 1031), (0, 1)),
    "0-d": samples.dense_add(()),
    "nothing": samples.dense_add((0, 5)),
    "transposed": samples.transposed_add(),
    "padded": samples.padded(),
}


def scheduled(graph: Graph, target: Target = "cuda") -> Graph:
    return SchedulePass(target)(graph).graph


def shown(graph: Graph, **more: object) -> Diagram:
    return diagram(graph, view="domains", **more)  # type: ignore[arg-type]


def texts(picture: Diagram) -> list[str]:
    return [e.text or "" for e in ET.fromstring(picture.svg).iter(f"{SVG}text")]


def boxes(picture: Diagram, kind: str) -> list[tuple[float, float, float, float]]:
    """First rectangle of each group of a class."""
    found = []
    for group in ET.fromstring(picture.svg).iter(f"{SVG}g"):
        if group.get("class") == kind and (rect := group.find(f"{SVG}rect")) is not None:
            found.append(tuple(float(rect.get(k) or 0) for k in ("x", "y", "width", "height")))
    return found


def allocated(*links: object, shape: tuple[int, ...] = (6,), target: Target = "cpu") -> Graph:
    """A sum of two vectors of which the first lies in memory as the links say."""
    graph = scheduled(samples.dense_add(shape), target)
    place = graph.operands(graph.members(S0)[0])[0]
    draft = graph.draft("what-if")
    axes = Axes.of(shape, prefix=f"0.{place[1:]}.").apply(links)  # type: ignore[arg-type]
    write_allocation(draft, place, S0, Allocation.over(axes))
    return draft.finish().graph


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", SAMPLES)
def test_well_formed_stable_and_nothing_overlaps(name: str, target: Target) -> None:
    graph = scheduled(SAMPLES[name], target)
    picture = shown(graph)
    assert picture == shown(graph) == shown(parse(print_graph(graph)))
    root = ET.fromstring(picture.svg)
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids))
    width, height = float(root.get("width") or 0), float(root.get("height") or 0)
    placed = boxes(picture, "fk-axis") + boxes(picture, "fk-joint")
    assert placed or name == "0-d"
    for x, y, w, h in placed:
        assert min(x, y) >= 0 and x + w <= width and y + h <= height
    for (x, y, w, h), (u, v, a, b) in combinations(placed, 2):
        assert x + w <= u + 0.1 or u + a <= x + 0.1 or y + h <= v + 0.1 or v + b <= y + 0.1


def test_a_row_softmax_says_everything() -> None:
    picture = shown(scheduled(SAMPLES["softmax"]))
    said = texts(picture)
    assert {"root", "logical", "loop", "allocation", "loop starts here", "allocation starts here"} <= set(said)
    assert {"split, inner 4", "split, inner 256", "BIDx", "unroll", "TIDx", "≡ vector", "i1 is folded:"} <= set(said)
    assert "split(1, 4).split(1, 256).parallelize(BIDx, UNROLL, TIDx, VECTORIZE)" in said
    assert {"i0 = bx", "i1 = 4·tx + 1024·u1 + v3"} <= set(said)
    assert said.count("Σ") == 9, "i1 four times, its parts five"
    assert "logical i0 4096, i1 4096 reduced" in picture.desc and "allocation i0 4096" in picture.desc


def test_bars_are_as_long_as_the_logarithm() -> None:
    widths = {round(w) for _, _, w, _ in boxes(shown(scheduled(samples.dense_add((64, 4096)), "cpu")), "fk-axis")}
    assert {20 + 11 * 6, 20 + 11 * 12} <= widths


def test_a_bound_that_stays_is_named() -> None:
    said = texts(shown(scheduled(SAMPLES["columns"])))
    assert "split, inner 32, checked" in said and "checked: 0 <= 32·bx + tx < 1031" in said


def test_an_aligned_split_looks_at_its_row() -> None:
    graph = scheduled(SAMPLES["odd softmax"])
    (ladder,), _ = ladders_of(graph, Notes(), None)
    joint = ladder.loop.joints[0]
    assert joint.text == "split aligned 4, checked" and joint.reads == ("#0.i0",)
    sides = rungs_of(ladder.loop, depth_of(ladder.loop))
    assert [look for _, look in sides.lines].count("side") == 1


def test_an_allocation_is_its_own_fork() -> None:
    graph = allocated(SplitBy(0, 2))
    _, ladder = ladders_of(graph, Notes(), None)[0]
    assert ladder.node != "$0" and ladder.loop.end[0].extent == 6 and ladder.loop.end[0].chip == "serial"
    assert [(bar.name, bar.extent, bar.chip) for bar in ladder.allocation.end] == [
        ("i0o", 3, "stride 2"),
        ("i0i", 2, "stride 1"),
    ]
    assert "i0o = i0 // 2, i0i = i0 % 2" in texts(shown(graph))


def test_loops_that_are_split_otherwise_reach_it_through_logical() -> None:
    graph = allocated(SplitBy(0, 2), shape=(4096,), target="cuda")
    ladder = ladders_of(graph, Notes(), None)[0][1]
    assert {start for start, _ in ladder.loop.loose} == {"start#0.p.i0"} and len(ladder.loop.loose) > 1


def test_an_axis_on_devices_has_no_stride() -> None:
    graph = allocated(SplitBy(0, 2, inner=False), Parallelize((Parallel.DIDx, Parallel.SERIAL)), shape=(8,))
    ladder = ladders_of(graph, Notes(), None)[0][1]
    assert [bar.chip for bar in ladder.allocation.end] == ["DIDx", "stride 1"]


def test_a_root_of_its_own_is_joined_to_logical() -> None:
    graph = scheduled(samples.dense_add((12,)), "cpu")
    draft = graph.draft("what-if")
    outer, inner = (draft.add_iter_domain(IterDomain(n), id=f"#0.r{n}") for n in (3, 4))
    whole = draft.add_iter_domain(IterDomain(12), id="#0.whole")
    draft.add_transform(Merge(), (outer, inner), (whole,))
    draft.set_domain(S0, S0, DomainKind.ROOT, (outer, inner))
    draft.set_domain(S0, S0, DomainKind.LOGICAL, (whole,))
    draft.set_domain(S0, S0, DomainKind.LOOP, (whole,))
    (ladder,), _ = ladders_of(draft.finish().graph, Notes(), None)
    assert [bar.name for bar in ladder.head.start] == ["r3", "r4"] and ladder.head.joints[0].text == "merge"


def test_steps_without_domains_say_so() -> None:
    assert "they are there after the pass schedule" in shown(pictures.segmented()).desc
    refused = SchedulePass(lowers=lambda *_: Reason.of("does-not-lower", because="none does"))(samples.both_ways())
    assert "$0 has no loops: schedule: not done" in shown(refused.graph, explanations=refused.explanations).desc
    library = pictures.chain(2, segmented_by=1)
    assert "extern launches no generated kernel" in shown(library, segment="$0").desc
    with pytest.raises(UnsupportedError, match="no segment"):
        shown(pictures.segmented(), segment="$7")


def test_what_is_new_is_marked_only_beside_old_domains() -> None:
    before, after = scheduled(samples.dense_add((64, 64)), "cpu"), scheduled(samples.dense_add((64, 64)), "cuda")
    marks = {bar.mark for ladder in ladders_of(after, Notes.of(after, (), before), None)[0] for bar in ladder.loop.end}
    assert "added" in marks
    plain = samples.dense_add((64, 64))
    marks = {bar.mark for ladder in ladders_of(after, Notes.of(after, (), plain), None)[0] for bar in ladder.loop.end}
    assert marks == {""}


def test_lines_run_row_by_row() -> None:
    for name, graph in SAMPLES.items():
        for ladder in ladders_of(scheduled(graph), Notes(), None)[0]:
            rungs = rungs_of(ladder.loop, depth_of(ladder.loop))
            for keys, _ in rungs.lines:
                assert all(b[0] == a[0] + 1 for a, b in pairwise(keys)), name
