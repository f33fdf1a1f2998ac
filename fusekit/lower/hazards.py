"""What protects the loads of a kernel, which see memory as it was before the kernel, from its own stores.

Reading before a loop, and before the inner loop, come from where a load stands. Here the rest is chosen, load by load,
the cheapest first: the order of the loops (on a CPU), a barrier of the block (on a GPU), stores that are left until all
loads are done, and last a snapshot of the bytes that the load may read. Iterations that are paired beforehand
(``fusekit.lower.orbits``) have little left to protect.

A load in one pass over a loop and a store in a later pass over it are in order whatever the loop does: only the loops
outside of both passes count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from fusekit.ids import NodeId
from fusekit.ir import Guard
from fusekit.lower.build import Nest, Root
from fusekit.lower.items import Item, Path
from fusekit.lower.later import leave, span_of
from fusekit.lower.loops import is_block, is_thread
from fusekit.lower.program import Hold, Load, Snapshot, Store
from fusekit.memory import Access, Race, Refused, Unless, Verdict, race, remedies
from fusekit.memory.access import BACKWARD, BARRIER, FORWARD, GRID, LAST_BLOCK, SNAPSHOT

Order = Literal["any", "forward", "backward"]
Wait = tuple[Path, tuple[int, int] | None]
"""Where threads wait: in the body of the loops ``path``, before the loop (step, number), or before the stores."""


@dataclass(frozen=True, slots=True)
class Protected:
    """``nest``: with stores that are left for later. ``kept``: load -> the snapshot that it reads instead of memory."""

    nest: Nest
    order: Order
    snapshots: tuple[Snapshot, ...]
    kept: dict[str, str]
    races: tuple[Race, ...]
    waits: frozenset[Wait] = frozenset()
    later: tuple[Hold, ...] = ()

    @property
    def cost(self) -> tuple[int, int]:
        """(further launches, bytes that remedies move)."""
        left = sum(3 * one.size for one in self.later)
        return len(self.snapshots), left + sum(2 * (one.last - one.first) for one in self.snapshots)


class Meeting(NamedTuple):
    """A load and a store that may touch one byte. ``common``: loops in whose one pass both stand; ``is_late``: the load
    comes after the store there."""

    item: Item
    root: Root
    race: Race
    common: int
    is_late: bool


def protect(nest: Nest, ordered: bool) -> Protected:
    """The cheapest remedies for all races of a nest; ``ordered``: loops may be relied on to run in order."""
    found = tuple(_meetings(nest, tuple(nest.stops.values())))
    late = {m.item.name for m in found if m.is_late and m.race.verdict is not Verdict.NEVER}
    answer = remedies([m.race for m in found if m.item.name not in late], ordered)
    failing = late | {m.item.name for m in found if m.race.load in answer.snapshots}
    work = _Work(nest, found, "backward" if answer.backward else "forward")
    for item in (item for item in nest.items if item.name in failing):
        work.settle(item, ordered, item.name in late)
    work.leave()
    used = any(not m.race.remedy and m.item.name not in failing for m in found)
    return replace(work.protected(), order=work.order if used else "any")


@dataclass
class _Work:
    """``taken``: load that no order saves -> its remedy; ``refused``: load -> what else was looked at; ``open``: loads
    without a remedy yet."""

    nest: Nest
    found: tuple[Meeting, ...]
    order: Order
    taken: dict[str, str] = field(default_factory=dict[str, str])
    refused: dict[str, list[Refused]] = field(default_factory=dict[str, "list[Refused]"])
    open: list[Item] = field(default_factory=list[Item])
    later: tuple[Hold, ...] = ()

    def settle(self, item: Item, ordered: bool, is_late: bool) -> None:
        """The first remedy that protects a load by itself."""
        mine = [m for m in self.found if m.item.name == item.name and (is_late or not m.race.remedy)]
        why = self.refused[item.name] = [Refused(f"loop order {self.order}", _why_no_order(mine, ordered, is_late))]
        asked = ((BARRIER, _why_no_barrier), (LAST_BLOCK, _why_not_counted)) if self.nest.loops.axes else ()
        for remedy, refusal in asked:
            said = "it is read again after the store" if is_late else refusal(self.nest, mine)
            if said is None:
                self.taken[item.name] = GRID if remedy == LAST_BLOCK and _waits_for_all(self.nest) else remedy
                return
            why.append(Refused(remedy, said))
        self.open.append(item)

    def leave(self) -> None:
        """Stores that all loads of a block wait for come last; where they cannot, the loads read a snapshot."""
        stores = [root for root in self.nest.roots if isinstance(root.statement, Store)]
        blocks = list(dict.fromkeys(item.block for item in self.open))
        for block in blocks:
            loads = [item for item in self.open if item.block == block]
            answer = leave(self.nest, loads, [root for root in stores if root.block == block])
            if not isinstance(answer, str):
                self.nest, made = answer
                self.later += made
            for item in loads:
                self.taken[item.name] = SNAPSHOT if isinstance(answer, str) else LAST_BLOCK
                if isinstance(answer, str):
                    kept = [one for one in self.refused[item.name] if one.remedy != LAST_BLOCK]
                    self.refused[item.name] = [*kept, Refused(LAST_BLOCK, answer)]
        self.open = [item for item in self.open if self.taken[item.name] == SNAPSHOT]

    def protected(self) -> Protected:
        snapshots, by_block = _snapshots(self.nest, self.open)
        kept = {item.name: by_block[item.block] for item in self.open}
        races = tuple(self._settled(m) for m in self.found)
        waits = frozenset(_wait(m) for m, r in zip(self.found, races, strict=True) if r.remedy == BARRIER)
        return Protected(self.nest, "any", snapshots, kept, races, waits, self.later)

    def _settled(self, m: Meeting) -> Race:
        one = m.race
        if one.verdict is Verdict.NEVER or (one.remedy and not m.is_late):
            return one
        remedy = self.taken.get(m.item.name, FORWARD if self.order == "forward" else BACKWARD)
        refused = [x for x in self.refused.get(m.item.name, ()) if x.remedy != remedy]
        if remedy != SNAPSHOT:
            first, last = span_of(m.item)
            refused.append(Refused(SNAPSHOT, f"one more launch, and {2 * (last - first):,} bytes"))
        return replace(one, remedy=remedy, considered=tuple(refused))


# ---- what each remedy asks ------------------------------------------------------------------------------------------


def _why_no_order(mine: Sequence[Meeting], ordered: bool, is_late: bool) -> str:
    if not ordered:
        return "iterations run in any order"
    if is_late:
        return "it is read again after the store"
    if any(m.race.verdict is Verdict.TOO_HARD for m in mine):
        return "which iterations meet is not known"
    if any(not (m.race.forward or m.race.backward) for m in mine):
        return "iterations meet both ways"
    return "other loads need the other order"


def _why_no_barrier(nest: Nest, mine: Sequence[Meeting]) -> str | None:
    """All that meet are threads of one block, in one pass: between a load and its store they wait for one another."""
    if not any(is_thread(axis) for axis in nest.loops.axes):
        return "there are no threads that wait for one another"
    return None if all(m.race.together for m in mine) else "iterations of several blocks meet"


def _why_not_counted(nest: Nest, mine: Sequence[Meeting]) -> str | None:
    """Where blocks put results together, only the last of them goes on: what stands behind waits for all in front."""
    steps = [f.step for f in nest.folds if any(one.over in ("blocks", "grid") for one in f.combine)]
    if not steps:
        return "no block is the last one"
    if all(_step(m.item.path, m.item.step) <= min(steps) < _step(m.root.path, m.root.step) for m in mine):
        return None
    return "it stands in front of the last block's own part"


def _waits_for_all(nest: Nest) -> bool:
    return any(one.over == "grid" for folded in nest.folds for one in folded.combine)


def _step(path: Path, step: int) -> int:
    """The step of the outermost body."""
    return path[0][0] if path else step


def _wait(m: Meeting) -> Wait:
    path = m.root.path[: m.common]
    return path, (m.root.path[m.common] if m.root.depth > m.common else None)


# ---- races ----------------------------------------------------------------------------------------------------------


def _meetings(nest: Nest, stops: tuple[Guard, ...]) -> Iterator[Meeting]:
    axes = sorted(nest.loops.axes, key=lambda axis: not is_block(axis))
    given = tuple(axis.var for axis in axes)
    threads = frozenset(axis.var for axis in axes if is_thread(axis))
    stores = [root for root in nest.roots if isinstance(root.statement, Store)]
    for item in nest.items:
        for root in stores:
            if not isinstance(item.statement, Load) or root.block != item.block:
                continue
            common, is_late = _meeting(item, root)
            around = [*dict.fromkeys(nest.loops.order[at] for _, at in (*item.path[:common], *item.path, *root.path))]
            loop = (*given, *around)
            for load in _reads(nest, item, len(given) + common, stops):
                one = race(load, _write(root, stops), loop, threads=threads)
                if one is not None:
                    yield Meeting(item, root, one, common, is_late)


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
        yield Access(item.block, address, statement.dtype.width, item.extent, tuple(guards), depth, statement.ops)


def _write(root: Root, stops: tuple[Guard, ...]) -> Access:
    statement, region = root.statement, root.region
    assert isinstance(statement, Store) and region is not None
    inside = tuple(guard for guard in stops if guard.form.free <= statement.address.free)
    width = statement.dtype.width
    return Access(root.block, statement.address, width, region.extent, (*root.guards, *inside), ops=statement.ops)


def _snapshots(nest: Nest, loads: Sequence[Item]) -> tuple[tuple[Snapshot, ...], dict[NodeId | None, str]]:
    """One snapshot a block, of the bytes that the loads may read."""
    spans: dict[NodeId, tuple[int, int]] = {}
    for item in loads:
        assert item.block is not None
        first, last = span_of(item)
        known = spans.get(item.block, (first, last))
        spans[item.block] = (min(first, known[0]), max(last, known[1]))
    names: dict[NodeId | None, str] = {}
    snapshots: list[Snapshot] = []
    for block, (first, last) in spans.items():
        memory = nest.names.blocks[block]
        names[block] = nest.names.fresh(f"{memory}_before")
        snapshots.append(Snapshot(names[block], memory, first, last))
    return tuple(snapshots), names
