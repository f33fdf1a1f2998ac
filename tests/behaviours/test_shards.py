"""15 to 20: views of a tensor whose allocation has an axis on devices. A view is free where every element stays on its
device, at its address: then the view has an allocation of its own over the same bytes."""

from __future__ import annotations

from itertools import product

import pytest

from fusekit.domains import Allocation, Parallelize, SplitBy, TransformBy
from fusekit.errors import IllegalTransform
from fusekit.index import Form
from fusekit.ir import Parallel

D, S = Parallel.DIDx, Parallel.SERIAL
Places = list[tuple[int, int]]


def on_devices(axis: int, rank: int) -> Parallelize:
    return Parallelize(tuple(D if k == axis else S for k in range(rank)))


def places(allocation: Allocation) -> Places:
    """(device, address) of every element, row-major over the logical shape."""
    found: Places = []
    for at in product(*map(range, allocation.axes.shape)):
        index = [Form.of(k) for k in at]
        found.append((allocation.device(index).evaluate({}), allocation.address(index).evaluate({})))
    return found


def split(shape: tuple[int, ...], strides: tuple[int, ...], *chain: TransformBy) -> Allocation:
    """Over memory of a device with these strides."""
    return Allocation.of(shape, chain).bind(strides)


def test_b015_a_view_away_from_the_split_axis() -> None:
    whole = split((4, 3, 5), (15, 5, 1), SplitBy(0, 2, inner=False), on_devices(0, 4))
    view = split((4, 15), (15, 1), SplitBy(0, 2, inner=False), on_devices(0, 3))
    assert places(whole) == places(view)
    assert {device for device, _ in places(view)} == {0, 1}


def test_b016_a_split_in_front_of_the_axis() -> None:
    """[6, 4] with its columns over 2 devices, as [2, 3, 4]."""
    whole = split((6, 4), (2, 1), SplitBy(1, 2, inner=False), on_devices(1, 3))
    view = split((2, 3, 4), (6, 2, 1), SplitBy(2, 2, inner=False), on_devices(2, 4))
    assert places(whole) == places(view)


def test_b017_a_merge_of_the_split_axis() -> None:
    """[4, 3, 5] with its first axis over 2 devices, as [12, 5]."""
    whole = split((4, 3, 5), (15, 5, 1), SplitBy(0, 2, inner=False), on_devices(0, 4))
    view = split((12, 5), (5, 1), SplitBy(0, 2, inner=False), on_devices(0, 3))
    assert places(whole) == places(view)


def test_b018_a_split_of_the_split_axis() -> None:
    """[12, 5] over 2 devices, as [4, 3, 5]."""
    whole = split((12, 5), (5, 1), SplitBy(0, 2, inner=False), on_devices(0, 3))
    view = split((4, 3, 5), (15, 5, 1), SplitBy(0, 2, inner=False), on_devices(0, 4))
    assert places(whole) == places(view)


def test_b019_a_merge_with_the_split_axis_inside_is_no_view() -> None:
    """[3, 4] with its columns over 2 devices, as [12]: no allocation of [12] puts the elements there."""
    whole = places(split((3, 4), (2, 1), SplitBy(1, 2, inner=False), on_devices(1, 3)))
    outer = split((12,), (1,), SplitBy(0, 2, inner=False), on_devices(0, 2))
    inner = split((12,), (1,), SplitBy(0, 2), on_devices(1, 2))
    assert whole != places(outer) and whole != places(inner)


def test_b020_a_split_with_the_devices_inside_is_no_view() -> None:
    """[12] dealt out element by element, as [3, 4]: the devices do not cut the first axis of that."""
    whole = places(split((12,), (1,), SplitBy(0, 2), on_devices(1, 2)))
    first = Allocation.of((3, 4), [SplitBy(0, 3, inner=False), on_devices(0, 3)])
    assert whole != places(first.bind((4, 1)))
    with pytest.raises(IllegalTransform, match="cannot cut 3"):
        Allocation.of((3, 4), [SplitBy(0, 2, inner=False), on_devices(0, 3)]).bind((4, 1))
