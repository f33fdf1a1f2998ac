"""What protects the loads of a kernel, which see memory as it was before the kernel, from its own stores.

Hoisting and "before the inner loop" come from where a load stands; here the order of the loops is chosen, and what no
order saves is read from a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fusekit.ids import NodeId
from fusekit.index import Form
from fusekit.ir import Guard
from fusekit.lower.build import Nest, Root
from fusekit.lower.nest import Item
from fusekit.lower.program import Load, Snapshot
from fusekit.memory import Access, Race, Unless, race, remedies

Order = Literal["any", "forward", "backward"]


@dataclass(frozen=True, slots=True)
class Protected:
    """``kept``: load -> the snapshot that it reads instead of memory."""

    order: Order
    snapshots: tuple[Snapshot, ...]
    kept: dict[str, str]
    races: tuple[Race, ...]


def protect(nest: Nest, ordered: bool) -> Protected:
    """The cheapest remedies for all races of a nest; ``ordered``: loops may be relied on to run in order."""
    loads = [(item.name, access) for item in nest.items for access in _reads(nest, item)]
    races, backward, failing = _ask(nest, loads, ordered, backward=False)
    if backward:  # stores behind the inner loops now follow their iteration 0: ask again
        races, still, failing = _ask(nest, loads, ordered, backward=True)
        if not still:
            races, _, failing = _ask(nest, loads, ordered=False, backward=False)
            backward = False
    needed = [r for r in races if r.load not in failing and r.remedy.startswith("loop order")]
    order: Order = "backward" if backward else "forward" if needed else "any"
    named = {name: access for name, access in loads if access in failing}
    snapshots, by_block = _snapshots(nest, named)
    return Protected(order, snapshots, {name: by_block[access.block] for name, access in named.items()}, races)


def _ask(
    nest: Nest, loads: list[tuple[str, Access]], ordered: bool, backward: bool
) -> tuple[tuple[Race, ...], bool, frozenset[Access]]:
    stores = [_write(root, backward) for root in nest.roots]
    reads = dict.fromkeys(access for _, access in loads)
    found = [race(load, store, nest.loops.order) for load in reads for store in stores]
    answer = remedies([r for r in found if r is not None], ordered)
    return answer.races, answer.backward, answer.snapshots


def _reads(nest: Nest, item: Item) -> Iterator[Access]:
    """The accesses of a load, one a case in which it matters."""
    statement = item.statement
    if not isinstance(statement, Load):
        return
    for case in sorted(nest.cases[item.name], key=sorted):
        guards: list[Guard | Unless] = []
        for tested, holds in nest.guards_of(case):
            guards += tested if holds else [Unless(tested)]
        yield Access(item.block, statement.address, statement.dtype.width, item.extent, tuple(guards), nest.depth(item))


def _write(root: Root, backward: bool) -> Access:
    """A store behind inner loops counts as done in their last iteration."""
    last = tuple(Guard(Form.of(var) - (0 if backward else var.extent - 1), 1) for var in root.last)
    return Access(root.block, root.store.address, root.store.dtype.width, root.region.extent, root.guards + last)


def _snapshots(nest: Nest, failing: dict[str, Access]) -> tuple[tuple[Snapshot, ...], dict[object, str]]:
    """One snapshot a block, of the bytes that the failing loads may read."""
    spans: dict[object, tuple[int, int]] = {}
    for access in failing.values():
        first, last = spans.get(access.block, access.extent)
        spans[access.block] = (min(first, access.extent[0]), max(last, access.extent[1]))
    names: dict[object, str] = {}
    snapshots = []
    for block, (first, last) in spans.items():
        memory = nest.names.blocks[NodeId(str(block))]
        names[block] = nest.names.fresh(f"{memory}_before")
        snapshots.append(Snapshot(names[block], memory, first, last))
    return tuple(snapshots), names
