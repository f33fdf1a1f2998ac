"""Loads see memory as it was before the kernel, whatever its stores do to the same bytes."""

import pytest

from fusekit.dtypes import I32
from fusekit.index import Form, number_var
from fusekit.ir import Graph
from fusekit.lower import lower_segment
from tests.lower.sketch import Sketch, at, check, stores


def _shift(n: int, by: int) -> Sketch:
    """x[by:] += x[:-by] of one block (or the other way round)."""
    s = Sketch()
    block = s.block(4 * n)
    left, right = (
        s.place(block, (n - abs(by),), name="left"),
        s.place(block, (n - abs(by),), offset=abs(by), name="right"),
    )
    source, target = (left, right) if by > 0 else (right, left)
    s.store(s.add(s.load(target), s.load(source)), target)
    return s


@pytest.mark.parametrize(("by", "order"), [(1, "backward"), (3, "backward"), (-1, "forward"), (-3, "forward")])
def test_shift_takes_the_loop_order(by: int, order: str) -> None:
    kernel = check(_shift(37, by).finish())
    assert (kernel.order, kernel.copies) == (order, 0)


@pytest.mark.parametrize("shape", [(8,), (9,), (5, 7), (2, 3, 4), (3, 3, 3)])
@pytest.mark.parametrize("dims", [(0,), (-1,), (0, -1)])
def test_flip_pairs_its_orbits(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    kernel = check(_flipped(shape, dims))
    assert (kernel.order, kernel.copies) == ("any", 0)
    assert {race.remedy for race in kernel.races} == {"pairing of orbits"}


def _flipped(shape: tuple[int, ...], dims: tuple[int, ...]) -> Graph:
    s = Sketch()
    place = s.fresh(shape, name="x")
    turned = {d % len(shape) for d in dims}
    index = [Form.of(n - 1) - i if d in turned else i for d, (n, i) in enumerate(zip(shape, at(*shape), strict=True))]
    s.store(s.add(s.window(s.load(place), shape, *index), 1), place)
    return s.finish()


def test_flips_of_both_dimensions_have_orbits_of_four() -> None:
    s, shape = Sketch(), (5, 6)
    place = s.fresh(shape, name="x")
    i, j = at(*shape)
    x = s.load(place)
    rows, columns = s.window(x, shape, -i + 4, j), s.window(x, shape, i, -j + 5)
    s.store(s.add(s.add(x, rows), columns), place)
    kernel = check(s.finish())
    assert (kernel.order, kernel.copies) == ("any", 0)
    assert kernel.source.count("store_f32(m0") == 4


def test_a_quarter_turn_has_orbits_of_four() -> None:
    s, n = Sketch(), 7
    place = s.fresh((n, n), name="x")
    i, j = at(n, n)
    s.store(s.window(s.load(place), (n, n), j, -i + (n - 1)), place)
    kernel = check(s.finish())
    assert (kernel.order, kernel.copies) == ("any", 0)


def test_both_halves_of_a_pair_may_be_stored_by_two_ops() -> None:
    """x = flip(x) + 1 and y = x * 2 of one moment: what y reads at i is stored by the iteration at n-1-i."""
    s, n = Sketch(), 9
    x, y = s.fresh((n,), name="x"), s.fresh((n,), name="y")
    value = s.load(x)
    s.store(s.add(s.window(value, (n,), -at(n)[0] + (n - 1)), 1), x)
    s.store(s.apply("aten.mul.Tensor", value, 2), y)
    kernel = check(s.finish())
    assert (kernel.order, kernel.copies) == ("any", 0)


def test_a_shift_around_the_end_is_no_orbit_of_few() -> None:
    """x = roll(x, 1): one orbit of all elements."""
    s, n = Sketch(), 11
    place = s.fresh((n,), name="x")
    s.store(s.window(s.load(place), (n,), (at(n)[0] + 1) % n), place)
    kernel = check(s.finish())
    said = {refused.remedy: refused.why for race in kernel.races for refused in race.considered}
    assert kernel.copies == 1 or kernel.order != "any"
    assert not said or "pairing of orbits" in said


def test_both_directions_snapshot_only_what_fails() -> None:
    """x[i] = x[i-1] + x[i+1]: one of the loads is saved by the order."""
    s = Sketch()
    block = s.block(4 * 40)
    middle = s.place(block, (38,), offset=1)
    left, right = s.place(block, (38,), name="left"), s.place(block, (38,), offset=2, name="right")
    s.store(s.add(s.load(left), s.load(right)), middle)
    kernel = check(s.finish())
    assert kernel.copies == 1
    assert kernel.order in ("forward", "backward")


@pytest.mark.parametrize("shape", [(6, 5), (9, 40)])
def test_row_that_all_rows_read_is_stored_last(shape: tuple[int, int]) -> None:
    s = Sketch()
    place = s.fresh(shape, name="x")
    row = s.window(s.load(place), shape, 2, at(*shape)[1])
    s.store(s.add(s.load(place), row), place)
    kernel = check(s.finish())
    assert (kernel.order, kernel.copies) == ("any", 0)
    assert kernel.source.splitlines()[-2].startswith("    deliver(m0, m0_later, ")


def test_few_rows_are_all_of_them() -> None:
    """Two rows of three are no small part: a snapshot, whose record says what else was looked at."""
    s, shape = Sketch(), (3, 5)
    place = s.fresh(shape, name="x")
    j = at(*shape)[1]
    s.store(s.add(s.window(s.load(place), shape, 1, j), s.window(s.load(place), shape, 2, -j + 4)), place)
    kernel = check(s.finish())
    assert kernel.copies == 1
    refused = {one.remedy: one.why for race in kernel.races for one in race.considered if race.remedy == "snapshot"}
    assert refused["store left to the last block"] == "10 elements are more than are worth a second store"
    assert {"loop order forward", "pairing of orbits", "another launch"} <= refused.keys()


def test_a_snapshot_holds_the_bytes_that_are_read() -> None:
    """Rows 2 to 5, up to the last column but one, of eight."""
    s, shape = Sketch(), (8, 8)
    place = s.fresh(shape, name="x")
    i, j = at(*shape)
    s.store(s.add(s.load(place), s.window(s.load(place), shape, i // 2 + 2, (j // 2) * 2)), place)
    kernel = check(s.finish())
    assert kernel.copies == 1
    assert "snapshot(m0, 64, 188)" in kernel.source


def test_element_of_its_row_is_read_before_the_inner_loop() -> None:
    s = Sketch()
    place = s.fresh((6, 5), name="x")
    first = s.window(s.load(place), (6, 5), at(6, 5)[0], 0)
    s.store(s.add(s.load(place), first), place)
    kernel = check(s.finish())
    assert (kernel.order, kernel.copies) == ("any", 0)
    assert "read before the inner loop" in {race.remedy for race in kernel.races}


def test_element_is_read_before_the_loop() -> None:
    s = Sketch()
    block = s.block(4 * 60)
    x, element = s.place(block, (6, 10)), s.place(block, (), (), 17, name="element")
    s.store(s.add(s.load(x), s.load(element)), x)
    kernel = check(s.finish())
    assert (kernel.order, kernel.copies) == ("any", 0)


def test_transpose_in_place() -> None:
    s = Sketch()
    place = s.fresh((5, 5), name="x")
    i, j = at(5, 5)
    s.store(s.add(s.load(place), s.window(s.load(place), (5, 5), j, i)), place)
    assert check(s.finish()).copies == 0


@pytest.mark.parametrize("offset", [1, 3, 7, 11])
def test_boxes_that_overlap_in_part(offset: int) -> None:
    s = Sketch()
    block = s.block(4 * 80)
    target, source = s.place(block, (4, 5), (8, 1), name="t"), s.place(block, (4, 5), (8, 1), offset, name="s")
    s.store(s.add(s.load(source), s.load(target)), target)
    check(s.finish())


def test_interleaved_columns_never_meet() -> None:
    s = Sketch()
    block = s.block(4 * 40)
    even, odd = s.place(block, (20,), (2,), name="even"), s.place(block, (20,), (2,), 1, name="odd")
    s.store(s.load(odd), even)
    kernel = check(s.finish())
    assert (kernel.order, kernel.copies) == ("any", 0)


def test_swap_of_halves_by_two_stores() -> None:
    s = Sketch()
    block = s.block(4 * 20)
    low, high = s.place(block, (10,), name="low"), s.place(block, (10,), offset=10, name="high")
    a, b = s.load(low), s.load(high)
    s.store(b, low)
    s.store(a, high)
    kernel = check(s.finish())
    assert kernel.copies == 0


def test_two_views_of_other_dtypes_on_one_block() -> None:
    s = Sketch()
    block = s.block(4 * 16)
    floats, ints = s.place(block, (16,), name="f"), s.place(block, (16,), dtype=I32, name="i")
    out = s.fresh((16,), I32)
    read, seen = s.load(floats), s.load(ints)
    s.store(s.add(read, 1), floats)
    s.store(s.add(seen, 1), out)
    check(s.finish())


def test_offset_that_the_caller_passes() -> None:
    for n in (0, 3, 9):
        s = Sketch()
        block = s.block(4 * 30)
        target, source = (
            s.place(block, (10,), name="t"),
            s.place(block, (10,), offset=Form.of(number_var(0, 12)), name="s"),
        )
        s.store(s.add(s.load(source), s.load(target)), target)
        graph = s.finish()
        kernel = check(graph, numbers=(n,))
        assert kernel.params[-1].name == "n0"


def test_row_result_is_stored_behind_the_inner_loop() -> None:
    s = Sketch()
    place = s.fresh((6, 5), name="x")
    column = s.place(s.blocks[0], (6,), (5,), name="column")
    out = s.fresh((6,), name="o")
    first = s.load(column)
    s.store(s.add(s.load(place), s.window(first, (6, 5), at(6, 5)[0])), place)
    s.store(s.add(first, 1), out)
    kernel = check(s.finish())
    assert kernel.source.splitlines()[-1].startswith("        store_f32(")


def _launch(s: Sketch) -> str:
    graph = s.finish()
    check(graph)
    kernel = lower_segment(graph, stores(graph), ordered=False)
    assert kernel.copies == 1
    return next(one.why for race in kernel.races for one in race.considered if one.remedy == "another launch")


def test_another_launch_is_weighed() -> None:
    s, n = Sketch(), 64
    block = s.block(4 * (n + 1))
    x, right = s.place(block, (n,), name="x"), s.place(block, (n,), offset=1, name="right")
    s.store(s.add(s.load(right), 1), x)
    assert _launch(s) == "one store is one launch"

    s = Sketch()
    block = s.block(4 * (n + 1))
    x, right = s.place(block, (n,), name="x"), s.place(block, (n,), offset=1, name="right")
    value = s.load(x)
    s.store(s.add(value, s.load(right)), s.fresh((n,), name="y"))
    s.store(s.add(value, 1), x)
    assert _launch(s) == "it would move 256 bytes fewer: split the segment (x.what_if(split=...))"
