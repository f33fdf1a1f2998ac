"""Loop domains: every transform against brute force, both directions of derivation, and what is refused."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusekit.domains import (
    IdGraph,
    LoopDomain,
    MergeAxes,
    Parallelize,
    Reference,
    ReorderAxes,
    SplitAligned,
    SplitBy,
    TransformBy,
)
from fusekit.errors import IllegalTransform
from fusekit.index import Form, Var, loop_vars, print_form
from fusekit.ir import IterDomain, Kind, Parallel
from fusekit.schedule import parse_schedule
from fusekit.testing.schedules import random_schedule, schedules

P = Parallel


def points(loop: LoopDomain) -> Iterator[tuple[int, ...]]:
    """The logical index of every iteration whose bounds hold."""
    variables, derived = loop.variables(), loop.derive()
    index = derived.of(loop.logical)
    for at in product(*map(range, loop.extents)):
        values = {form.terms[0][0].name: k for form, k in zip(variables.values(), at, strict=True) if form.terms}  # type: ignore[union-attr]
        if all(0 <= guard.form.evaluate(values) < guard.extent for guard in derived.bounds):
            yield tuple(form.evaluate(values) for form in index)


def covers_once(loop: LoopDomain) -> bool:
    return Counter(points(loop)) == Counter(product(*map(range, loop.shape)))


RULES: tuple[tuple[tuple[int, ...], tuple[TransformBy, ...]], ...] = (
    ((), ()),
    ((1,), ()),
    ((0, 3), (MergeAxes(0), SplitBy(0, 4))),
    ((12,), (SplitBy(0, 4),)),
    ((7,), (SplitBy(0, 2),)),
    ((7,), (SplitBy(0, 2, inner=False),)),
    ((7,), (SplitBy(0, 9),)),
    ((7,), (SplitBy(0, 4), SplitBy(1, 3))),
    ((7,), (SplitBy(0, 4), SplitBy(0, 3))),
    ((3, 5), (MergeAxes(0),)),
    ((3, 5), (MergeAxes(0), SplitBy(0, 4))),
    ((3, 5), (MergeAxes(0), SplitBy(0, 4), SplitBy(0, 3), ReorderAxes((2, 0, 1)))),
    ((3, 5), (ReorderAxes((1, 0)), MergeAxes(0))),
    ((3, 5), (SplitBy(0, 2), SplitBy(2, 2), ReorderAxes((0, 2, 1, 3)), MergeAxes(0), MergeAxes(1))),
    ((3, 5), (SplitAligned(1, 4, 0, 5),)),
    ((3, 9), (SplitAligned(1, 4, 0, 9), SplitBy(1, 2))),
    ((3, 9), (SplitAligned(1, 4, 0, 9), ReorderAxes((2, 0, 1)), SplitBy(1, 2))),
    ((2, 1, 3), (MergeAxes(0), MergeAxes(0))),
    ((2, 3, 4), (MergeAxes(1), SplitBy(1, 5), MergeAxes(0))),
)


@pytest.mark.parametrize(("shape", "transforms"), RULES)
def test_a_loop_domain_runs_over_every_index_once(shape: tuple[int, ...], transforms: tuple[TransformBy, ...]) -> None:
    assert covers_once(LoopDomain.of(shape).apply(transforms))


@pytest.mark.parametrize(("shape", "transforms"), RULES)
def test_loops_follow_from_the_logical_index_too(shape: tuple[int, ...], transforms: tuple[TransformBy, ...]) -> None:
    """Down to the loops and up again is the identity."""
    loop = LoopDomain.of(shape).apply(transforms)
    down = loop.graph.derive(dict(zip(loop.logical, loop_vars(shape), strict=True)))
    for at in product(*map(range, shape)):
        values = {f"i{k}": n for k, n in enumerate(at)}
        index = {i: Form((), form.evaluate(values)) for i, form in down.index.items() if i in loop.axes}
        assert all(0 <= form.const < loop.graph.ids[i].extent for i, form in index.items())
        up = loop.graph.derive({i: index.get(i, Form()) for i in loop.axes})
        assert tuple(form.const for form in up.of(loop.logical)) == at


def test_the_forms_of_a_flat_vector_loop_stay_flat() -> None:
    loop = LoopDomain.of((64, 4096)).apply(parse_schedule("merge(0).split(0, 4).split(0, 256)").transforms)
    loop = loop.then(Parallelize((P.BIDx, P.TIDx, P.VECTORIZE)))
    row, column = loop.index()
    assert print_form(row) == "(bx//4)"
    assert print_form(row * 4096 + column) == "1024*bx + 4*tx + v2"
    assert not loop.derive().bounds


def test_an_aligned_split_starts_at_multiples_of_the_factor() -> None:
    loop = LoopDomain.of((5, 7)).then(SplitAligned(1, 4, 0, 7))
    row, column = loop.index()
    piece = row * 7 + column - Form.of(Var("s2", 4))
    assert piece.is_divisible(4)


def test_no_dimension_is_one_loop_of_one_step() -> None:
    loop = LoopDomain.of(())
    assert loop.extents == (1,) and loop.logical == () and loop.index() == ()
    assert loop.then(SplitBy(0, 4)).extents == (1, 4)


def test_a_split_of_the_one_step_runs_once() -> None:
    assert covers_once(LoopDomain.of(()).then(SplitBy(0, 4)))


def test_reductions_keep_their_kind_through_transforms() -> None:
    loop = LoopDomain.of((4, 6), reduced=(1,)).apply((SplitBy(1, 4), SplitBy(0, 2)))
    assert [loop.payload(k).kind for k in range(4)] == [Kind.ITERATION] * 2 + [Kind.REDUCTION] * 2
    assert loop.reduced() == loop.axes[2:]


@pytest.mark.parametrize(
    ("transform", "what"),
    [
        (SplitBy(2, 2), "no axis 2"),
        (SplitBy(-1, 2), "no axis -1"),
        (SplitBy(0, 0), "a factor of 0"),
        (MergeAxes(1), "the last one"),
        (MergeAxes(0), "reduction"),
        (ReorderAxes((0, 0)), "no permutation"),
        (SplitAligned(1, 4, 1, 8), "no row of itself"),
        (Parallelize((P.SERIAL,)), "1 types for 2"),
        (Parallelize((P.BIDx, P.BIDx)), "two axes on BIDx"),
        (Parallelize((P.VECTORIZE, P.SERIAL)), "a vector of 6"),
        (Parallelize((P.UNROLL, P.TIDx)), "2000 on TIDx"),
        (Parallelize((P.SERIAL, P.UNROLL)), "2000 on UNROLL"),
    ],
)
def test_what_is_illegal_says_what_where_and_how_to_mend_it(transform: TransformBy, what: str) -> None:
    with pytest.raises(IllegalTransform, match=what) as caught:
        LoopDomain.of((6, 2000), reduced=(1,)).then(transform)
    assert str(transform) in caught.value.what and "#i0" in str(caught.value.where) and caught.value.fix


def test_too_many_threads_are_refused() -> None:
    with pytest.raises(IllegalTransform, match="2048 threads"):
        LoopDomain.of((64, 32)).then(Parallelize((P.TIDx, P.TIDy)))


def test_equal_axes_share_their_index() -> None:
    ids = {name: IterDomain(6) for name in ("#a", "#b", "#c")}
    graph = IdGraph(ids).same("#a", "#b").same("#b", "#c")  # type: ignore[arg-type]
    form = Form.of(Var("x", 6))
    assert graph.derive({"#b": form}).of(("#a", "#b", "#c")) == (form,) * 3  # type: ignore[arg-type, dict-item]
    with pytest.raises(IllegalTransform, match="not one axis"):
        graph.with_ids({"#d": IterDomain(7)}).same("#a", "#d")  # type: ignore[arg-type, dict-item]


def test_what_nothing_derives_is_refused() -> None:
    loop = LoopDomain.of((6,)).then(SplitBy(0, 2))
    with pytest.raises(IllegalTransform, match="no index for #i0"):
        loop.graph.derive({loop.axes[0]: Form()}).of(loop.logical)


def test_a_loop_domain_is_a_value() -> None:
    loop = LoopDomain.of((4, 6))
    loop.then(SplitBy(0, 2))
    assert loop == LoopDomain.of((4, 6)) and loop.extents == (4, 6)


REFERENCES = [
    Reference("^store", shape, frozenset(reduced))  # type: ignore[arg-type]
    for shape, reduced in (
        ((), ()), ((1,), ()), ((7,), ()), ((3, 5), ()), ((4, 6), (1,)), ((5, 3), (0,)), ((2, 3, 5), (0, 2)),
        ((2, 1, 9), (2,)), ((0, 3), ()), ((6,), (0,)),
    )
]  # fmt: skip


def test_500_random_schedules_run_over_every_index_once() -> None:
    for seed in range(500):
        random = Random(seed)
        reference = random.choice(REFERENCES)
        schedule = random_schedule(reference, random)
        loop = schedule.check(reference)
        assert covers_once(loop), (seed, reference.shape, str(schedule))
        assert parse_schedule(str(schedule)) == schedule


def test_a_seed_gives_the_same_schedule() -> None:
    assert all(
        random_schedule(REFERENCES[3], Random(k)) == random_schedule(REFERENCES[3], Random(k)) for k in range(20)
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_hypothesis_schedules_run_over_every_index_once(data: st.DataObject) -> None:
    reference = data.draw(st.sampled_from(REFERENCES))
    assert covers_once(data.draw(schedules(reference)).check(reference))
