"""Ops on lists of tensors: does it matter in which order their rows run?

Eager's CPU code is a loop over the rows. Its CUDA kernels go through all rows at once, so that a row may read what
another one writes before or after that, as it happens.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from fusekit.ir import Layout
from fusekit.memory.overlap import meets

AT_ONCE = ("cuda",)


class Item(NamedTuple):
    """A tensor of a list. ``row``: its number there, -1 where every row takes it. ``home``: what layouts count from."""

    row: int
    home: Hashable
    layout: Layout
    is_written: bool


def rows_meet(items: Iterable[Item]) -> bool:
    """Does a row write bytes that another one reads or writes, or that it reads itself through another map?"""
    homes: dict[Hashable, list[Item]] = {}
    for item in items:
        homes.setdefault(item.home, []).append(item)
    return any(_meet(sorted(found, key=lambda item: item.layout.extent[0])) for found in homes.values())


def _meet(items: list[Item]) -> bool:
    """The same in one home, in order of first bytes: only neighbours are held against each other."""
    near: list[Item] = []
    for item in items:
        near = [one for one in near if one.layout.extent[1] > item.layout.extent[0]]
        if any(_differ(item, one) and meets(item.layout, one.layout) is not False for one in near):
            return True
        near.append(item)
    return False


def _differ(a: Item, b: Item) -> bool:
    """Is one of two written, and are they not the same elements at the same positions of one row?"""
    return (a.is_written or b.is_written) and not (a.row == b.row and a.layout.is_same_map(b.layout))


def goes_at_once(device: str) -> bool:
    """Do an op's rows have no order there? ``device``: ``cpu``, ``cuda:0``."""
    return device.startswith(AT_ONCE)
