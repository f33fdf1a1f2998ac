"""Which scheduler takes what, why the others do not, and the chains that they write."""

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from itertools import product
from math import prod

import pytest

from fusekit.domains import LoopDomain, reference_of
from fusekit.dtypes import BF16
from fusekit.ids import NodeId
from fusekit.ir import Graph, Parallel
from fusekit.schedule import SCHEDULERS, choose, parse_schedule, phases
from fusekit.schedule.look import look
from tests.schedule import samples

SEGMENT = "$0"

CHOICES: tuple[tuple[str, Callable[[], Graph], str, str, str], ...] = (
    ("dense", samples.dense_add, "pointwise",
     "merge(0).split(0, 8192).parallelize(BIDx, SERIAL)",
     "merge(0).split(0, 4).split(0, 256).parallelize(BIDx, TIDx, VECTORIZE)"),
    ("dense bf16", lambda: samples.dense_add(dtype=BF16), "pointwise",
     "merge(0).split(0, 8192).parallelize(BIDx, SERIAL)",
     "merge(0).split(0, 8).split(0, 256).parallelize(BIDx, TIDx, VECTORIZE)"),
    ("bias", samples.bias_add, "pointwise",
     "parallelize(BIDx, SERIAL)",
     "merge(0).split(0, 4).split(0, 256).parallelize(BIDx, TIDx, VECTORIZE)"),
    ("small", lambda: samples.dense_add((5, 7)), "pointwise",
     "merge(0).parallelize(SERIAL)",
     "merge(0).split(0, 1).split(0, 256).parallelize(BIDx, TIDx, VECTORIZE)"),
    ("0-d", lambda: samples.dense_add(()), "pointwise",
     "parallelize(SERIAL)",
     "split(0, 1).split(0, 256).parallelize(BIDx, TIDx, VECTORIZE)"),
    ("row sum", lambda: samples.total((256, 4096), (1,)), "reduction",
     "parallelize(BIDx, SERIAL)",
     "split(1, 4).split(1, 256).split(1, 4).parallelize(BIDx, SERIAL, UNROLL, TIDx, VECTORIZE)"),
    ("column sum", lambda: samples.total((256, 4096), (0,)), "reduction",
     ("reorder(1, 0).split(0, 512).reorder(0, 2, 1).split(1, 4).reorder(1, 0, 2, 3)"
      ".parallelize(BIDx, SERIAL, SERIAL, SERIAL)"),
     ("reorder(1, 0).split(0, 4).split(0, 32).split(3, 8).split(3, 4).split(3, 8).reorder(0, 3, 4, 5, 6, 1, 2)"
      ".parallelize(BIDx, BIDy, SERIAL, UNROLL, TIDy, TIDx, VECTORIZE)")),
    ("full sum", lambda: samples.total((1024, 1024), (0, 1)), "reduction",
     "merge(0).split(0, 16384).parallelize(BIDx, SERIAL)",
     ("merge(0).split(0, 4).split(0, 256).split(0, 4).split(0, 1)"
      ".parallelize(BIDx, SERIAL, UNROLL, TIDx, VECTORIZE)")),
    ("softmax", samples.softmax, "persistent",
     "parallelize(BIDx, SERIAL)",
     "split(1, 4).split(1, 256).parallelize(BIDx, UNROLL, TIDx, VECTORIZE)"),
    ("short rows", lambda: samples.softmax((4096, 64)), "persistent",
     "parallelize(BIDx, SERIAL)",
     "split(1, 4).split(1, 32).split(0, 4).parallelize(BIDx, TIDy, UNROLL, TIDx, VECTORIZE)"),
    ("odd rows", lambda: samples.softmax((64, 4095)), "persistent",
     "parallelize(BIDx, SERIAL)",
     "split_aligned(1, 4, row=0, pitch=4095).split(1, 256).parallelize(BIDx, UNROLL, TIDx, VECTORIZE)"),
    ("long rows", lambda: samples.softmax((8, 131072 * 4)), "persistent",
     "parallelize(BIDx, SERIAL)",
     ("split(1, 4).split(1, 512).split(1, 4).split(1, 2)"
      ".parallelize(BIDy, BIDx, SERIAL, UNROLL, TIDx, VECTORIZE).persist().blocks_per_sm(2)")),
    ("many long rows", lambda: samples.softmax((512, 131072)), "persistent",
     "parallelize(BIDx, SERIAL)",
     "split(1, 4).split(1, 1024).split(1, 4).parallelize(BIDx, SERIAL, UNROLL, TIDx, VECTORIZE).persist()"),
    ("softmax of columns", lambda: samples.softmax((64, 4096), (0,)), "persistent",
     ("reorder(1, 0).split(0, 512).reorder(0, 2, 1).split(1, 1).reorder(1, 0, 2, 3)"
      ".parallelize(BIDx, SERIAL, SERIAL, SERIAL)"),
     ("reorder(1, 0).split(0, 4).split(0, 32).split(3, 8).reorder(0, 3, 4, 1, 2)"
      ".parallelize(BIDx, UNROLL, TIDy, TIDx, VECTORIZE)")),
    ("long columns", lambda: samples.softmax((65536, 64), (0,)), "persistent",
     ("reorder(1, 0).split(0, 64).reorder(0, 2, 1).split(1, 1024).reorder(1, 0, 2, 3)"
      ".parallelize(BIDx, SERIAL, SERIAL, SERIAL)"),
     ("reorder(1, 0).split(0, 4).split(0, 16).split(3, 32).split(3, 4).split(3, 2).reorder(0, 3, 4, 5, 6, 1, 2)"
      ".parallelize(BIDx, BIDy, SERIAL, UNROLL, TIDy, TIDx, VECTORIZE).persist().blocks_per_sm(2)")),
    ("channels", lambda: samples.softmax((8, 16, 32, 32), (0, 2, 3)), "persistent",
     "reorder(1, 0, 2, 3).merge(2).parallelize(BIDx, SERIAL, SERIAL)",
     "reorder(1, 0, 2, 3).merge(1).merge(1).split(1, 4).split(1, 512).parallelize(BIDx, UNROLL, TIDx, VECTORIZE)"),
    ("transposed", samples.transposed_add, "transpose",
     "split(0, 32).split(2, 32).reorder(0, 2, 1, 3).parallelize(BIDx, SERIAL, SERIAL, SERIAL)",
     ("split(0, 64).split(2, 64).reorder(0, 2, 1, 3).merge(2).split(2, 4).split(2, 256)"
      ".parallelize(BIDx, BIDy, UNROLL, TIDx, VECTORIZE).loads(top)"
      ".share(%v.1, after=3, loop=reorder(0, 1, 3, 2).merge(2)"
      ".split(2, 4).split(2, 256).parallelize(BIDx, BIDy, UNROLL, TIDx, VECTORIZE), axes=[3, 2], strides=[65, 1])")),
    ("padded", samples.padded, "resize",
     "parallelize(BIDx, SERIAL)",
     "merge(0).split(0, 4).split(0, 128).parallelize(BIDx, TIDx, VECTORIZE)"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "make", "scheduler", "cpu", "cuda"), CHOICES, ids=[c[0] for c in CHOICES])
def test_a_scheduler_takes_it_and_writes_this_chain(
    name: str, make: Callable[[], Graph], scheduler: str, cpu: str, cuda: str
) -> None:
    graph = make()
    for target, chain in (("cpu", cpu), ("cuda", cuda)):
        choice = choose(graph, SEGMENT, target)  # type: ignore[arg-type]
        assert choice.scheduler is not None and choice.scheduler.name == scheduler, choice.refusals
        assert str(choice.schedule) == chain
        assert parse_schedule(chain) == choice.schedule
        asked = [s.name for s in SCHEDULERS]
        assert [n for n, _ in choice.refusals] == asked[: asked.index(scheduler)]


SMALL: tuple[Graph, ...] = (
    samples.dense_add((6, 10)), samples.dense_add((3, 1, 5)), samples.bias_add((5, 7)), samples.dense_add((0, 4)),
    samples.total((6, 10), (1,)), samples.total((6, 10), (0,)), samples.total((3, 5), (0, 1)), samples.softmax((6, 40)),
    samples.softmax((6, 5), (0,)), samples.softmax((2, 3, 4), (0, 2)), samples.softmax((3,), (0,)),
    samples.transposed_add(5, 9), samples.padded((3, 5), 1), samples.dense_add(()), samples.total((), ()),
    samples.softmax((), ()), samples.softmax((0, 3), (1,)), samples.softmax((3, 0), (1,)), samples.total((0, 3), (0,)),
)  # fmt: skip


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("graph", SMALL, ids=range(len(SMALL)))
def test_what_schedulers_write_runs_over_every_index_once(graph: Graph, target: str) -> None:
    choice = choose(graph, SEGMENT, target)  # type: ignore[arg-type]
    reference = reference_of(graph, SEGMENT)
    assert choice.scheduler is not None and reference is not None
    loops = [choice.schedule.check(reference)]
    loops += [choice.schedule.tile_loops(tile, reference) for tile in choice.schedule.placements.shared]
    for loop in loops:
        assert _covered(loop) == Counter(product(*map(range, reference.shape)))


def _covered(loop: LoopDomain) -> Counter[tuple[int, ...]]:
    variables, derived = loop.variables(), loop.derive()
    index = derived.of(loop.logical)
    names = [form.terms[0][0].name if form.terms else "" for form in variables.values()]  # type: ignore[union-attr]
    found: Counter[tuple[int, ...]] = Counter()
    assert prod(loop.extents) < 200_000
    for at in product(*map(range, loop.extents)):
        values = dict(zip(names, at, strict=True))
        if all(0 <= guard.form.evaluate(values) < guard.extent for guard in derived.bounds):
            found[tuple(form.evaluate(values) for form in index)] += 1
    return found


def test_two_folds_of_one_value_are_left_to_the_fallback() -> None:
    choice = choose(samples.both_ways(), SEGMENT, "cpu")
    assert choice.scheduler is not None and choice.scheduler.name == "fallback" and str(choice.schedule) == "keep()"
    said = dict(choice.refusals)
    assert said["reduction"].name == said["persistent"].name == "folds-differ"
    assert said["pointwise"].name == "has-reductions"


def test_a_store_of_more_than_is_folded_has_no_room() -> None:
    s = samples.Sample()
    total = s.op("fk.reduce", (s.load((4,)),), (), kind="sum", dims=(0,))
    s.store(s.op("aten.add.Tensor", (total, s.load((64, 32))), (64, 32)), (64, 32))
    choice = choose(s.done((64, 32)), SEGMENT, "cuda")
    assert choice.scheduler is None
    assert {dict(choice.refusals)[name].name for name in ("reduction", "persistent")} == {"store-is-larger"}


def test_nothing_stored_is_nothing_to_schedule() -> None:
    choice = choose(samples.nothing_stored(), SEGMENT, "cpu")
    assert choice.scheduler is None and dict(choice.refusals)["pointwise"].name == "computes-nothing"


def test_alias_and_library_segments_are_their_own() -> None:
    for kind in ("alias", "extern"):
        sample = samples.Sample()
        sample.load((4,))
        choice = choose(sample.done((4,), kind), SEGMENT, "cpu")
        assert choice.scheduler is not None and choice.scheduler.name == kind and str(choice.schedule) == "keep()"


def test_phases_count_finished_reductions() -> None:
    graph = samples.softmax()
    waits = phases(graph, SEGMENT)
    store = next(op for op in graph.ops() if graph.op(op).target == "fk.store")
    assert waits[store] == 2
    assert sorted(waits[op] for op in graph.ops() if graph.op(op).target == "fk.reduce") == [0, 1]


def test_the_reference_of_a_reduction_is_its_operand() -> None:
    reference = reference_of(samples.total((6, 10), (0,)), SEGMENT)
    assert reference is not None and reference.shape == (6, 10) and reference.reduced == {0} and reference.kept == (1,)
    assert {reference.loops().payload(k).parallel for k in range(2)} == {Parallel.SERIAL}


def test_a_look_keeps_no_graph_alive() -> None:
    graph = samples.bias_add()
    assert look(graph, NodeId("$0")) is look(graph, NodeId("$0"))
    gone = weakref.ref(graph)
    del graph
    gc.collect()
    assert gone() is None
