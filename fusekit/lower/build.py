"""A segment's stores and reductions over the loops of a schedule: a flat list of statements, and when each matters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import cast

from fusekit.domains import Placed, Reference
from fusekit.ids import NodeId
from fusekit.index import Form, Var, substitute
from fusekit.ir import Graph, Guard, Layout, core
from fusekit.lower.blocks import Across, across_blocks
from fusekit.lower.checks import checks
from fusekit.lower.contexts import Ranges, contexts, simplify, visible
from fusekit.lower.folded import Folded, fold_of, position_of
from fusekit.lower.items import Item, Path, Result
from fusekit.lower.keep import Kept, keep, used
from fusekit.lower.loops import Loops, is_block, loops_of
from fusekit.lower.names import Names
from fusekit.lower.nest import Puller
from fusekit.lower.orbits import Orbit
from fusekit.lower.placement import anchored
from fusekit.lower.program import ALWAYS, Accumulate, Cases, Statement, Store, Test, Tile, TileStore
from fusekit.lower.refuse import CannotLower, NoVectors
from fusekit.lower.stops import find_stops
from fusekit.lower.target import Target
from fusekit.lower.tiles import Shared, shared_tiles, unrolled
from fusekit.lower.vectors import in_lanes, near, without_lane
from fusekit.schedule import Placements, Schedule
from fusekit.schedule.plan import (
    MOST_ACCUMULATORS,
    Plan,
    free_of,
    open_guards,
    order_loops,
    plan_roots,
    set_steps,
)

FILL = -1
"""The step in which shared tiles are filled: in front of all others."""


@dataclass(frozen=True, slots=True)
class Root:
    """A store or an accumulation, done where ``guards`` hold; see ``Item`` for where it stands.

    ``region``: what a store may write.
    """

    statement: Store | Accumulate | TileStore
    guards: tuple[Guard, ...]
    cases: Cases
    path: Path
    step: int
    block: NodeId | None = None
    region: Layout | None = None

    @property
    def depth(self) -> int:
        return len(self.path)


@dataclass(frozen=True, slots=True)
class Nest:
    """The flat list, in an order in which it can run; ``cases`` says when each item matters where it stands.

    ``data``: variables of index forms that are scalars of the kernel. ``stops``: loops that end early. ``kept``: arrays
    that carry values from one pass over a loop to a later one. ``checks``: what looks at indices before all of it.
    """

    loops: Loops
    items: tuple[Item, ...]
    roots: tuple[Root, ...]
    folds: tuple[Folded, ...]
    cases: dict[str, Cases]
    names: Names
    data: frozenset[Var]
    stops: dict[Var, Guard]
    kept: tuple[Kept, ...] = ()
    checks: tuple[Statement, ...] = ()
    placements: Placements = field(default_factory=Placements)
    tiles: tuple[Tile, ...] = ()

    def guards_of(self, case: Iterable[tuple[str, bool]]) -> tuple[tuple[tuple[Guard, ...], bool], ...]:
        """(guards of a test, do they hold?) for each atom of a case."""
        tests = {item.name: item.statement for item in self.items if isinstance(item.statement, Test)}
        return tuple((tests[test].guards, holds) for test, holds in sorted(case))


@dataclass(frozen=True)
class Segment:
    """What is lowered: the roots (fk.store and fk.reduce ops in program order) and the space that they run over.

    ``checks``: fk.check_index ops, which come before any store. ``orbits``: stores whose iterations are paired.
    """

    graph: Graph
    roots: tuple[NodeId, ...]
    reference: Reference
    checks: tuple[NodeId, ...] = ()
    orbits: Mapping[NodeId, Orbit] = field(default_factory=dict[NodeId, Orbit])


def build(segment: Segment, schedule: Schedule, target: Target, reserved: Iterable[str], limit: int) -> Nest:
    """The nest of a segment over the loops of a schedule. Raises CannotLower, and IllegalTransform."""
    reserved = tuple(reserved)
    try:
        nest = _build(segment, schedule, target, reserved, limit, vectors=True)
    except NoVectors:
        nest = _build(segment, schedule, target, reserved, limit, vectors=False)
    return replace(nest, placements=schedule.placements)


def _build(
    segment: Segment, schedule: Schedule, target: Target, reserved: tuple[str, ...], limit: int, vectors: bool
) -> Nest:
    graph, reference = segment.graph, segment.reference
    loops = loops_of(reference, schedule.check(reference), target, vectors)
    anchors = list(_anchors(segment))

    def places(op: NodeId, loops: Loops) -> Placed | None:
        block, region = _place(graph, graph.operands(op)[1])
        return anchored(region, block, loops.space, loops.index, anchors)

    most = MOST_ACCUMULATORS if target.name == "cpu" else 0
    first = plan_roots(graph, segment.roots, reference, loops, lambda op: places(op, loops))
    ordered = loops.reordered(order_loops(graph, loops, first.values(), most))
    plans = plan_roots(graph, segment.roots, reference, ordered, lambda op: places(op, ordered))
    blocks = frozenset(axis.var for axis in ordered.axes if is_block(axis))
    plans, loops = set_steps(plans, ordered, blocks), ordered
    for op, orbit in segment.orbits.items():
        plans[op] = replace(plans[op], guards=(*plans[op].guards, *orbit.guards(plans[op].index)))
    plans, stops = find_stops(plans, loops) if target.name == "cpu" else (plans, {})
    inline = frozenset(op for op in segment.roots if isinstance(graph.what(op), core.Reduce) and op not in plans)
    names = Names([*reserved, *(axis.var.name for axis in loops.axes)])
    puller = Puller(graph, names, limit, loops, inline, exact=target.exact)
    tiles = shared_tiles(graph, segment.roots, reference, schedule, loops, target, names)
    puller.tiles = {one.tensor: one for one in tiles}
    if target.name == "cuda":  # a CPU keeps values in arrays
        puller.persist = schedule.placements.persist
    return _Builder(target, plans, stops, schedule.placements.persist, puller, segment.checks, segment.orbits).run()


def _anchors(segment: Segment) -> Iterator[tuple[NodeId, Layout]]:
    """Places that full-size stores write, then those that they read at the very index they write."""
    graph, space = segment.graph, segment.reference.shape
    stores = [op for op in segment.roots if not isinstance(graph.what(op), core.Reduce)]
    whole = [op for op in stores if graph.layout(graph.operands(op)[1]).shape == space]
    for op in whole:
        yield _place(graph, graph.operands(op)[1])
    seen: set[NodeId] = set()
    stack = [graph.operands(op)[0] for op in reversed(whole)]
    while stack:
        tensor = stack.pop()
        if tensor in seen or graph.tensor(tensor).shape != space:
            continue
        seen.add(tensor)
        node = graph.producer(tensor)
        operands = graph.operands(node)
        match graph.what(node):
            case core.Load():
                yield _place(graph, operands[0])
            case core.Overlay():
                stack.append(operands[0])
            case core.Call() | core.Cast() | core.Bits():
                stack += reversed(operands)
            case _:
                pass


def _place(graph: Graph, tensor: NodeId) -> tuple[NodeId, Layout]:
    return cast(NodeId, graph.block_of(tensor)), graph.layout(tensor)


@dataclass
class _Builder:
    target: Target
    plans: Mapping[NodeId, Plan]
    stops: dict[Var, Guard]
    persist: tuple[NodeId, ...] | None
    puller: Puller
    checks: tuple[NodeId, ...] = ()
    orbits: Mapping[NodeId, Orbit] = field(default_factory=dict[NodeId, Orbit])
    roots: list[Root] = field(default_factory=list[Root])
    folds: dict[tuple[NodeId, tuple[Form, ...]], Folded] = field(
        default_factory=dict[tuple[NodeId, tuple[Form, ...]], Folded]
    )

    @property
    def loops(self) -> Loops:
        return self.puller.loops

    @cached_property
    def across(self) -> Across | None:
        return across_blocks(self.plans, self.loops)

    def run(self) -> Nest:
        for shared in self.puller.tiles.values():
            self._fill(shared)
        for op in _in_order(self.plans):
            self._root(self.plans[op])
        items = list(self.puller.items.values())
        cases = self._cases(items)
        kept: list[Kept] = []
        if self.target.name == "cpu":
            items, kept = keep(items, self.puller.keys, cases, self.loops.order, self.puller.names, self.persist)
            tests = {test for root in self.roots for case in root.cases for test, _ in case}
            items = used(items, {root.statement.value for root in self.roots} | tests, cases)
        data = frozenset(self.puller.positions)
        folds, names = tuple(self.folds.values()), self.puller.names
        before = checks(self.puller.graph, self.checks, names, self.loops.axes)
        return Nest(
            self.loops, tuple(items), tuple(self.roots), folds, cases, names, data, self.stops, tuple(kept), before,
            tiles=tuple(shared.tile for shared in self.puller.tiles.values()),
        )  # fmt: skip

    def _cases(self, items: Sequence[Item]) -> dict[str, Cases]:
        """When each item matters, by tests that are known where it stands."""
        ranges = Ranges({item.name: item.statement.guards for item in items if isinstance(item.statement, Test)})
        roots = [(root.statement.value, root.cases) for root in self.roots]
        roots += [(item.name, ALWAYS) for item in items if isinstance(item.statement, Test)]  # asked whatever holds
        found = contexts([(item.name, item.uses) for item in items], roots, ranges.clean)
        place = {item.name: (item.path, item.step) for item in items if isinstance(item.statement, Test)}
        cases: dict[str, Cases] = {}
        for item in items:

            def is_known(test: str, item: Item = item) -> bool:
                path, step = place[test]
                return path == item.path[: len(path)] and (len(path) < item.depth or step <= item.step)

            is_test = isinstance(item.statement, Test)
            cases[item.name] = ALWAYS if is_test else ranges.absorb(visible(found.get(item.name, ALWAYS), is_known))
        return cases

    # ---- roots

    def _path(self, plan: Plan) -> Path:
        """The loops around a root, each with the step that it runs in."""
        return tuple(zip(plan.steps, map(self.loops.order.index, plan.loops), strict=False))

    def _fill(self, shared: Shared) -> None:
        """What threads put into a tile, in front of all steps: where a vector has no element of the value, anything."""
        fill, shape = shared.fill, self.puller.graph.tensor(shared.tensor).shape
        missing = [axis.var for axis in self.loops.axes if axis not in fill.axes and not is_block(axis)]
        for env in unrolled(fill, free_of((*shared.stored, shared.slot))):
            index = tuple(substitute(form, env) for form in shared.stored)
            bounds = [Guard(substitute(guard.form, env), guard.extent) for guard in fill.bounds]
            bounds += [Guard(form, n) for form, n in zip(index, shape, strict=True)]
            guards = open_guards(near(tuple(without_lane(bounds, fill.lanes)), fill.lanes))
            if guards is None:
                continue
            guards = (*guards, *(Guard(Form.of(var), 1) for var in missing))
            self.puller.enter((), FILL, guards)
            name = self.puller.pull(shared.tensor, index)
            slot = substitute(shared.slot, env)
            item, lanes = self.puller.items[name], fill.lanes is not None and fill.lanes in slot.free
            if item.lanes and not lanes:
                raise NoVectors("a vector goes to one place of a tile")
            if lanes and not item.lanes:
                name = self.puller.repeated(name, shared.tile.dtype, self.puller.graph.producer(shared.tensor))
            store = TileStore(shared.tile.name, slot, name, shared.tile.dtype, lanes)
            self.roots.append(Root(store, guards, self._when(guards), (), FILL))

    def _root(self, plan: Plan) -> None:
        expand = [var for var in self.loops.expand if var in plan.free]
        for numbers in product(*(range(var.extent) for var in expand)):
            env = {var: Form.of(number) for var, number in zip(expand, numbers, strict=True)}
            self.puller.copy = env
            self._copy(_at(plan, env))
        if plan.is_fold:
            self._finish(plan)

    def _copy(self, plan: Plan) -> None:
        """One root, of those that unrolling makes of it."""
        guards = open_guards(without_lane(plan.guards, self.loops.lanes))
        if guards is None:
            return
        self.puller.enter(self._path(plan), plan.steps[-1], guards)
        if plan.is_fold:
            self._accumulate(plan, guards)
        else:
            self._store(plan, guards)
            for index in self.orbits[plan.op].others(plan.index) if plan.op in self.orbits else ():
                self._store(replace(plan, index=index), guards)

    def _store(self, plan: Plan, guards: tuple[Guard, ...]) -> None:
        graph = self.puller.graph
        block, region = _place(graph, graph.operands(plan.op)[1])
        name = self.puller.pull(plan.tensor, plan.index)
        if not self.target.rounds:
            name = self.puller.rounded(name, region.dtype, plan.op)
        address = region.address(plan.index)
        guards = (*guards, *self._one_thread(address, guards))
        if self.loops.lanes not in address.free and in_lanes(guards, self.loops.lanes):
            raise NoVectors("lanes of a vector go to one address")
        path = self._path(plan)
        lanes = self.loops.lanes in address.free
        value = self.puller.items[name]
        if value.lanes and not lanes:
            raise NoVectors("a vector goes to one address")
        if lanes and not value.lanes:
            name = self.puller.repeated(name, region.dtype, plan.op)
        if len(value.path) > len(path):
            raise CannotLower(f"{plan.op} stores a value that is made in loops inside of it")
        memory = self.puller.names.memory(block)
        store = Store(memory, address, name, region.dtype, (plan.op,), lanes, self._mask(guards))
        self.roots.append(Root(store, guards, self._when(guards), path, plan.steps[-1], block, region))

    def _one_thread(self, address: Form, guards: Sequence[Guard]) -> Iterator[Guard]:
        """Of threads and blocks that would store the same, the first does."""
        free = address.free.union(*(guard.form.free for guard in guards))
        for axis in self.loops.axes:
            if axis.var not in free and not (self.across and self.across.is_last_alone(axis)):
                yield Guard(Form.of(axis.var), 1)

    def _when(self, guards: tuple[Guard, ...]) -> Cases:
        """When some lane of the root runs."""
        own = in_lanes(guards, self.loops.lanes)
        rest = tuple(guard for guard in guards if guard not in own)
        near_them = open_guards((*rest, *near(own, self.loops.lanes)))
        tested = rest if near_them is None else near_them
        return simplify([frozenset([(self.puller.test(tested), True)])]) if tested else ALWAYS

    def _mask(self, guards: tuple[Guard, ...]) -> str | None:
        """The test of each lane, where lanes differ."""
        own = in_lanes(guards, self.loops.lanes)
        return self.puller.test(own) if own else None

    def _accumulate(self, plan: Plan, guards: tuple[Guard, ...]) -> None:
        graph = self.puller.graph
        fold, source = fold_of(graph, plan.op), graph.tensor(plan.tensor).dtype
        name = self.puller.pull(plan.tensor, plan.index)
        item = self.puller.items[name]
        if self.loops.lanes in plan.free and not (item.lanes and not fold.is_arg):
            raise NoVectors(f"{plan.op} folds lanes that are all the same, or their positions")
        key = (plan.op, plan.kept)
        if key not in self.folds:
            self.folds[key] = self._fresh(plan, item.lanes)
        folded = self.folds[key]
        position = position_of(graph, plan) if fold.is_arg else None
        statement = Accumulate(
            folded.init.name, fold, name, source, folded.init.dtype, position, item.lanes, (plan.op,), folded.finish.at,
            self._mask(guards),
        )  # fmt: skip
        self.roots.append(Root(statement, guards, self._when(guards), self._path(plan), plan.steps[-1]))

    def _fresh(self, plan: Plan, lanes: bool) -> Folded:
        slot = sum(bool(folded.threads) for folded in self.folds.values())
        path = self._path(plan)[: plan.level]
        graph, names = self.puller.graph, self.puller.names
        return Folded.of(graph, plan, names, self.target, self.loops, path, lanes, slot, self.across)

    def _finish(self, plan: Plan) -> None:
        """What the reduction has found is there for later steps; one without an element has found its identity."""
        made = [folded for (op, _), folded in self.folds.items() if op == plan.op]
        if not made:
            key = (plan.op, plan.kept)
            made = [self.folds.setdefault(key, self._fresh(plan, False))]
        for folded in made:
            self.puller.finish((folded.tensor, folded.kept), Result(folded.finish, folded.path, folded.step + 1))


def _in_order(plans: Mapping[NodeId, Plan]) -> list[NodeId]:
    """Reductions before what takes them; else the order of the program."""
    order: list[NodeId] = []

    def visit(op: NodeId) -> None:
        for need in plans[op].needs:
            if need not in order:
                visit(need)
        if op not in order:
            order.append(op)

    for op in plans:
        visit(op)
    return order


def _at(plan: Plan, env: Mapping[Var, Form]) -> Plan:
    """A root with unrolled loops at numbers."""
    if not env:
        return plan
    guards = tuple(Guard(substitute(guard.form, env), guard.extent) for guard in plan.guards)
    index = tuple(substitute(form, env) for form in plan.index)
    return replace(plan, index=index, guards=guards, kept=tuple(substitute(form, env) for form in plan.kept))
