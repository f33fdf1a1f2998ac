"""Loads see memory as it was before the kernel, whatever its stores do to the same bytes."""

import pytest

from fusekit.dtypes import I32
from fusekit.index import Form, Var
from tests.lower.sketch import Sketch, at, check


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


@pytest.mark.parametrize("shape", [(8,), (5, 7), (2, 3, 4)])
def test_flip_takes_a_snapshot(shape: tuple[int, ...]) -> None:
    s = Sketch()
    place = s.fresh(shape, name="x")
    flipped = [Form.of(n - 1) - i for n, i in zip(shape, at(*shape), strict=True)]
    s.store(s.add(s.window(s.load(place), shape, *flipped), 1), place)
    kernel = check(s.finish())
    assert kernel.copies == 1
    assert "x = load_f32(m0_before, " in kernel.source


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


def test_row_that_is_overwritten_by_all_rows() -> None:
    s = Sketch()
    place = s.fresh((6, 5), name="x")
    row = s.window(s.load(place), (6, 5), 0, at(6, 5)[1])
    s.store(s.add(s.load(place), row), place)
    check(s.finish())


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
    assert check(s.finish()).copies == 1


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
        target, source = s.place(block, (10,), name="t"), s.place(block, (10,), offset=Form.of(Var("n0", 12)), name="s")
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
