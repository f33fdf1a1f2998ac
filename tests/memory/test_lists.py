"""Ops on lists: does a row write what another one touches? Held against sets of bytes."""

from itertools import product

import pytest

from fusekit.dtypes import F32
from fusekit.ir import Layout
from fusekit.memory import Item, rows_meet

LAYOUTS = [
    Layout.of(4 * offset, shape, [4 * stride for stride in strides], F32)
    for offset, shape, strides in (
        (0, (4,), (1,)), (4, (4,), (1,)), (3, (3,), (1,)), (0, (4,), (2,)), (1, (4,), (2,)), (0, (1, 4), (9, 1)),
        (2, (), ()),
    )
]  # fmt: skip


def bytes_of(layout: Layout) -> set[int]:
    places = product(*map(range, layout.shape))
    first = [layout.offset.const + sum(i * s for i, s in zip(at, layout.strides, strict=True)) for at in places]
    return {at + byte for at in first for byte in range(4)}


@pytest.mark.parametrize("written", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("rows", [(0, 1), (0, 0), (0, -1)])
def test_two_tensors_by_their_bytes(written: tuple[bool, bool], rows: tuple[int, int]) -> None:
    for a, b in product(LAYOUTS, LAYOUTS):
        shared = not bytes_of(a).isdisjoint(bytes_of(b))
        same = rows[0] == rows[1] and a.is_same_map(b)
        items = [Item(row, "@0", one, w) for row, one, w in zip(rows, (a, b), written, strict=True)]
        assert rows_meet(items) == (shared and any(written) and not same), (a, b)


def test_another_home_is_other_memory() -> None:
    assert not rows_meet([Item(k, k, LAYOUTS[0], True) for k in range(3)])


def test_only_one_pair_of_many_meets() -> None:
    apart = [Item(k, None, Layout.contiguous((5,), F32, 20 * k), True) for k in range(40)]
    assert not rows_meet(apart)
    assert rows_meet([*apart, Item(40, None, Layout.contiguous((2,), F32, 20 * 17 + 16), False)])
