"""From the flat list to a loop nest: every statement in as few loops as its index allows, stores after loads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from fusekit.index import Form
from fusekit.ir import Graph, Guard, Number
from fusekit.lower.arrange import arrange, is_costly
from fusekit.lower.assume import assume
from fusekit.lower.build import FILL, Nest, Root
from fusekit.lower.expressions import Literal, Position
from fusekit.lower.items import Item, Path
from fusekit.lower.order import at_top, at_use, can_store_early
from fusekit.lower.program import (
    ALWAYS,
    Accumulate,
    Assign,
    Cases,
    Deliver,
    For,
    Hold,
    If,
    Load,
    Param,
    Program,
    Snapshot,
    Statement,
    Store,
    Sync,
    Test,
    TileStore,
)
from fusekit.lower.uses import walk


@dataclass(frozen=True, slots=True)
class Ways:
    """How the loops run. ``kept``: load -> the snapshot it reads instead of memory. ``waits``: where the threads of a
    block wait for one another: (loops around, the loop behind it, or None for the stores). ``holds``: stores for last.
    """

    snapshots: Sequence[Snapshot]
    kept: dict[str, str]
    reverse: bool
    parallel: bool
    waits: frozenset[tuple[Path, tuple[int, int] | None]] = frozenset()
    holds: tuple[Hold, ...] = ()


def assemble(graph: Graph, nest: Nest, ways: Ways) -> Program:
    """The program."""
    maker = _Assembler(nest, ways)
    last = (Deliver(ways.holds),) if ways.holds else ()
    body = (*nest.checks, *ways.snapshots, *ways.holds, *maker.filled(), *maker.level(()), *last)
    return Program(_params(nest, graph), body, nest.loops.axes, nest.loops.lanes)


class _Assembler:
    def __init__(self, nest: Nest, ways: Ways):
        loads = nest.placements.loads
        if loads == "top":
            nest = replace(nest, items=at_top(nest.items, nest.cases, FILL if nest.tiles else 0))
        self.nest, self.ways, self.at_use = nest, ways, loads == "use"
        self.early = self.at_use and not (ways.holds or ways.waits or ways.snapshots) and can_store_early(nest)
        self.users: dict[str, set[str]] = {}
        for item in nest.items:
            for operand, _ in item.uses:
                self.users.setdefault(operand, set()).add(item.name)
        self.taken = {root.statement.value for root in nest.roots} | {kept.of.name for kept in nest.kept}
        self.finishes = {folded.finish.name for folded in nest.folds}

    def filled(self) -> tuple[Statement, ...]:
        """The block's tiles, with what its threads put in."""
        if not self.nest.tiles:
            return ()
        return (*self.nest.tiles, *self._straight((), FILL), *self._roots((), FILL, TileStore), Sync())

    def level(self, path: Path) -> tuple[Statement, ...]:
        """What stands in the pass ``path`` of the loops: steps one after another, then stores."""
        out: list[Statement] = [kept.tile for kept in self.nest.kept if kept.path == path]
        for step in range(self._steps(path)):
            folds = [f for f in self.nest.folds if f.path == path and f.step == step]
            if self.at_use:
                out += [folded.init for folded in folds]
                out += self._at_use(path, step)
            else:
                out += self._straight(path, step)
            out += [kept.store for kept in self.nest.kept if (kept.of.path, kept.of.step) == (path, step)]
            if not self.at_use:
                out += [folded.init for folded in folds]
            out += self._loops(path, step)
            if not self.at_use:
                out += self._roots(path, step, Accumulate)
            out += [c for folded in folds for c in folded.combine if c.over not in ("blocks", "grid")]
            out += [c for folded in folds for c in folded.combine if c.over in ("blocks", "grid")]
            out += [folded.finish for folded in folds if folded.init.count is None]
        if (path, None) in self.ways.waits:
            out.append(Sync())
        for step in range(self._steps(path)):
            out += [] if self.early else self._roots(path, step, Store)
        return tuple(out)

    def _steps(self, path: Path) -> int:
        depth = len(path)
        inside = [*self.nest.items, *self.nest.roots]
        found = [x.step if x.depth == depth else x.path[depth][0] for x in inside if x.path[:depth] == path]
        found += [folded.step for folded in self.nest.folds if folded.path == path]
        return 1 + max(found, default=0)

    def _loops(self, path: Path, step: int) -> list[Statement]:
        """The loops of one step of a body."""
        depth = len(path)
        inside = [x.path[depth] for x in (*self.nest.items, *self.nest.roots) if x.path[:depth] == path != x.path]
        out: list[Statement] = []
        for at in sorted({at for found, at in inside if found == step}):
            var = self.nest.loops.order[at]
            stop = self.nest.stops.get(var)
            end = None if stop is None else Form.of(stop.extent) - (stop.form - Form.of(var))
            parallel = self.ways.parallel and var in self.nest.loops.shared and depth == 0
            if (path, (step, at)) in self.ways.waits:
                out.append(Sync())
            out.append(For(var, self.level((*path, (step, at))), self.ways.reverse, parallel, end))
        return out

    def _straight(self, path: Path, step: int) -> Iterator[Statement]:
        for cases, group in arrange(self._items(path, step), self.nest.cases):
            yield from self._guarded(cases, group)

    def _items(self, path: Path, step: int) -> list[Item]:
        items = [item for item in self.nest.items if item.path == path and item.step == step]
        return [item for item in items if item.name not in self.finishes]

    def _at_use(self, path: Path, step: int) -> Iterator[Statement]:
        """Each fold, and where that is allowed each store, right behind what it takes."""
        kinds = (Accumulate, Store) if self.early else (Accumulate,)
        roots = [r for r in self.nest.roots if r.path == path and r.step == step and isinstance(r.statement, kinds)]
        for items, root in at_use(self._items(path, step), roots, self.nest.cases):
            for cases, group in arrange(items, self.nest.cases):
                yield from self._guarded(cases, group)
            if root is not None:
                yield root.statement if root.cases == ALWAYS else If(root.cases, (root.statement,))

    def _guarded(self, cases: Cases, group: list[Item]) -> list[Statement]:
        if cases == ALWAYS or (cases and not any(map(is_costly, group))):
            return [self._statement(item) for item in group]
        inside = {item.name for item in group}
        live = [item for item in group if item.name in self.taken or not self.users.get(item.name, set()) <= inside]
        declared: list[Statement] = [
            Assign(item.name, Literal(0, item.statement.dtype), item.statement.dtype, (), item.lanes)
            for item in live
            if not isinstance(item.statement, Test)
        ]
        if not cases:  # contradictory tests: a dead arm, whose name must still exist
            return declared
        return [*declared, If(cases, tuple(self._statement(item) for item in group))]

    def _statement(self, item: Item) -> Statement:
        statement = item.statement
        if not isinstance(statement, Load):
            return statement
        clamp = None if self._is_inside(item) and not self._is_at_once(item) else item.extent
        memory = self.ways.kept.get(item.name, statement.memory)
        return Load(statement.name, memory, statement.address, statement.dtype, clamp, statement.ops, statement.lanes)

    def _is_at_once(self, item: Item) -> bool:
        """Is the address looked up while another thread may still find that it lies outside?"""
        looked_up = isinstance(item.statement, Load) and not item.statement.address.free.isdisjoint(self.nest.data)
        return looked_up and bool(self.nest.checks and self.nest.loops.axes)

    def _is_inside(self, item: Item) -> bool:
        """Does the load stay in its tensor wherever it is computed?"""
        stops = [((guard,), True) for guard in self.nest.stops.values()]
        cases = self.nest.cases[item.name]
        return all(_in_extent(item, [*self.nest.guards_of(case), *stops]) for case in cases)

    def _roots(self, path: Path, step: int, kind: type) -> list[Statement]:
        roots = [r for r in self.nest.roots if r.path == path and r.step == step and isinstance(r.statement, kind)]
        out: list[Statement] = []
        for cases, group in groupby(roots, key=lambda root: root.cases):
            statements = tuple(root.statement for root in group)
            out += statements if cases == ALWAYS else [If(cases, statements)]
        return out


def _in_extent(item: Item, atoms: Iterable[tuple[tuple[Guard, ...], bool]]) -> bool:
    statement = item.statement
    assert isinstance(statement, Load)
    address = statement.address
    for guards, holds in atoms:
        for guard in guards if holds else ():
            address = assume(address, guard)
    low, high = address.bounds
    return item.extent[0] <= low and high + statement.dtype.width <= item.extent[1]


def _params(nest: Nest, graph: Graph) -> tuple[Param, ...]:
    """Addresses in the order of the graph's blocks, then numbers."""
    numbers, blocks = dict(nest.names.numbers), graph.blocks()
    recorded = {number.index: number for number in graph.numbers()}
    for form in forms_of(nest):
        for var in (var for var in form.free if var.kind == "number"):
            index = int(var.name[1:])  # a parameter whose call became an index: only forms still name it
            numbers.setdefault(var.name, recorded.get(index, Number(index, 0)))
    addresses = tuple(
        Param(name, node=block)
        for block, name in sorted(nest.names.blocks.items(), key=lambda item: blocks.index(item[0]))
    )
    return addresses + tuple(Param(name, number=numbers[name]) for name in sorted(numbers, key=lambda n: int(n[1:])))


def forms_of(nest: Nest) -> Iterable[Form]:
    """Every index form that a statement of the nest holds."""
    yield from (s.address for s in walk(nest.checks) if isinstance(s, Load))
    for item in nest.items:
        match item.statement:
            case Load(address=address):
                yield address
            case Test(guards=guards):
                yield from (guard.form for guard in guards)
            case Assign(value=Position(form=form)):
                yield form
            case _:
                pass
    for root in nest.roots:
        match root.statement:
            case Store(address=address):
                yield address
            case Accumulate(position=Form() as position):
                yield position
            case _:
                pass


__all__ = ["Root", "Ways", "assemble", "forms_of"]
