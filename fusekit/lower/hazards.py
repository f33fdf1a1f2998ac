"""What protects the loads of a kernel, which see memory as it was before the kernel, from its own stores.

Hoisting and "before the inner loop" come from where a load stands; here the order of the loops is chosen, and what no
order saves is read from a snapshot. A load in one pass over a loop and a store in a later pass over it are in order
whatever the loop does: only the loops outside of both passes count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fusekit.ids import NodeId
from fusekit.ir import Guard
from fusekit.lower.build import Nest, Root
from fusekit.lower.items import Item
from fusekit.lower.program import Load, Snapshot, Store
from fusekit.memory import Access, Race, Unless, Verdict, race, remedies

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
    found = list(_races(nest, tuple(nest.stops.values())))
    late = {name for name, one, is_late in found if is_late and one.verdict is not Verdict.NEVER}
    answer = remedies([one for name, one, _ in found if name not in late], ordered)
    failing = {name for name, one, _ in found if name in late or one.load in answer.snapshots}
    needed = [r for r in answer.races if r.load not in answer.snapshots and r.remedy.startswith("loop order")]
    order: Order = "any" if not needed else "backward" if answer.backward else "forward"
    snapshots, by_block = _snapshots(nest, failing)
    blocks = {item.name: item.block for item in nest.items}
    held = [remedy for name, one, _ in found if name in late for remedy in (_held(one),)]
    return Protected(order, snapshots, {n: by_block[blocks[n]] for n in failing}, (*answer.races, *held))


def _held(one: Race) -> Race:
    """A load after a store of the same iteration reads from a snapshot."""
    return Race(one.load, one.store, one.verdict, one.forward, one.backward, "snapshot", one.untried)


def _races(nest: Nest, stops: tuple[Guard, ...]) -> Iterator[tuple[str, Race, bool]]:
    """(load, how it meets a store, does it come after the store in one iteration of the loops around both?)"""
    given = tuple(axis.var for axis in nest.loops.axes)
    stores = [root for root in nest.roots if isinstance(root.statement, Store)]
    for item in nest.items:
        for root in stores:
            if not isinstance(item.statement, Load) or root.block != item.block:
                continue
            common, is_late = _meeting(item, root)
            around = [*dict.fromkeys(nest.loops.order[at] for _, at in (*item.path[:common], *item.path, *root.path))]
            loop = (*given, *around)
            for load in _reads(nest, item, len(given) + common, stops):
                one = race(load, _write(root, stops), loop)
                if one is not None:
                    yield item.name, one, is_late


def _meeting(item: Item, root: Root) -> tuple[int, bool]:
    """(loops in whose one pass both stand, does the load come after the store there?)"""
    for k in range(min(item.depth, root.depth)):
        if item.path[k] != root.path[k]:
            return k, item.path[k] > root.path[k]
    k = min(item.depth, root.depth)
    return k, item.depth == k < root.depth and item.step > root.path[k][0]


def _reads(nest: Nest, item: Item, depth: int, stops: tuple[Guard, ...]) -> Iterator[Access]:
    """The accesses of a load, one a case in which it matters."""
    statement = item.statement
    assert isinstance(statement, Load)
    is_looked_up = not statement.address.free.isdisjoint(nest.data)
    address = None if is_looked_up else statement.address
    for case in sorted(nest.cases[item.name], key=sorted):
        guards: list[Guard | Unless] = [guard for guard in stops if guard.form.free <= item.free]
        for tested, holds in nest.guards_of(case):
            guards += tested if holds else [Unless(tested)]
        yield Access(item.block, address, statement.dtype.width, item.extent, tuple(guards), depth)


def _write(root: Root, stops: tuple[Guard, ...]) -> Access:
    statement, region = root.statement, root.region
    assert isinstance(statement, Store) and region is not None
    inside = tuple(guard for guard in stops if guard.form.free <= statement.address.free)
    width = statement.dtype.width
    return Access(root.block, statement.address, width, region.extent, (*root.guards, *inside))


def _snapshots(nest: Nest, failing: set[str]) -> tuple[tuple[Snapshot, ...], dict[NodeId | None, str]]:
    """One snapshot a block, of the bytes that the failing loads may read."""
    spans: dict[NodeId, tuple[int, int]] = {}
    for item in nest.items:
        if item.name in failing and item.block is not None:
            first, last = spans.get(item.block, item.extent)
            spans[item.block] = (min(first, item.extent[0]), max(last, item.extent[1]))
    names: dict[NodeId | None, str] = {}
    snapshots: list[Snapshot] = []
    for block, (first, last) in spans.items():
        memory = nest.names.blocks[block]
        names[block] = nest.names.fresh(f"{memory}_before")
        snapshots.append(Snapshot(names[block], memory, first, last))
    return tuple(snapshots), names
