"""All stores of a segment over one iteration space: the flat list of statements, and when each of them matters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from fusekit.ids import NodeId
from fusekit.index import Form, Var
from fusekit.ir import Graph, Guard, Layout
from fusekit.lower.contexts import Ranges, contexts, simplify, visible
from fusekit.lower.loops import Loops, collapse, has_division, loops_over
from fusekit.lower.names import Names
from fusekit.lower.nest import Item, Puller
from fusekit.lower.placement import Placed, place
from fusekit.lower.program import ALWAYS, Assign, Cases, Load, Position, Store, Test


@dataclass(frozen=True, slots=True)
class Root:
    """A store to ``region`` of ``block``, done inside ``depth`` loops where ``guards`` hold.

    ``last``: loops deeper than that; the store follows their last iteration.
    """

    store: Store
    block: NodeId
    region: Layout
    guards: tuple[Guard, ...]
    cases: Cases
    depth: int
    last: tuple[Var, ...] = ()


@dataclass(frozen=True, slots=True)
class Nest:
    """The flat list, in an order in which it can run; ``cases`` says when each item matters where it stands."""

    loops: Loops
    items: tuple[Item, ...]
    roots: tuple[Root, ...]
    cases: dict[str, Cases]
    names: Names

    def depth(self, item: Item) -> int:
        return self.loops.depth(item.free)

    def guards_of(self, case: Iterable[tuple[str, bool]]) -> tuple[tuple[tuple[Guard, ...], bool], ...]:
        """(guards of a test, do they hold?) for each atom of a case."""
        tests = {item.name: item.statement for item in self.items if isinstance(item.statement, Test)}
        return tuple((tests[test].guards, holds) for test, holds in sorted(case))


def build(graph: Graph, stores: Sequence[NodeId], reserved: Iterable[str], limit: int) -> Nest:
    """The nest of these fk.store ops, with as few and as long loops as their accesses allow. Raises CannotLower."""
    reserved = tuple(reserved)
    places = [graph.operands(op)[1] for op in stores]
    main = max(
        range(len(stores)), key=lambda k: (graph.layout(places[k]).numel, len(graph.layout(places[k]).shape), -k)
    )
    layout = graph.layout(places[main])
    ordered = [stores[main], *(op for k, op in enumerate(stores) if k != main)]
    nest = _Builder(graph, loops_over(layout.shape, layout), Names(reserved), limit).run(ordered)
    joined = collapse(nest.loops, _forms(nest))
    if joined is None:
        return nest
    shorter = _Builder(graph, joined, Names(reserved), limit).run(ordered)
    return (
        nest if any(has_division(f) for f in _forms(shorter)) > any(has_division(f) for f in _forms(nest)) else shorter
    )


def _forms(nest: Nest) -> Iterator[Form]:
    for item in nest.items:
        match item.statement:
            case Load(address=address):
                yield address
            case Assign(value=Position(form=form)):
                yield form
            case Test(guards=guards):
                yield from (guard.form for guard in guards)
            case _:
                pass
    for root in nest.roots:
        yield root.store.address
        yield from (guard.form for guard in root.guards)
        yield from (Form.of(var) for var in root.last)


class _Builder:
    def __init__(self, graph: Graph, loops: Loops, names: Names, limit: int):
        self.graph, self.loops, self.names = graph, loops, names
        self.puller = Puller(graph, names, limit)

    def run(self, stores: Sequence[NodeId]) -> Nest:
        anchors = list(self._anchors(stores))
        roots = [self._root(op, anchors) for op in stores]
        items = tuple(self.puller.items.values())
        ranges = Ranges({name: guards for guards, name in self.puller.tests.items()})
        uses = [(item.name, item.uses) for item in items]
        found = contexts(uses, [(root.store.value, root.cases) for root in roots], ranges.clean)
        depth = {item.name: self.loops.depth(item.free) for item in items}
        tests = {item.name for item in items if isinstance(item.statement, Test)}
        cases: dict[str, Cases] = {}
        for item in items:
            known = {test for test in tests if depth[test] <= depth[item.name]}
            cases[item.name] = (
                ALWAYS if item.name in tests else ranges.absorb(visible(found[item.name], known.__contains__))
            )
        return Nest(self.loops, items, tuple(roots), cases, self.names)

    def _anchors(self, stores: Sequence[NodeId]) -> Iterator[tuple[NodeId, Layout]]:
        """Places that full-size stores write, then those that they read at the very index they write."""
        whole = [op for op in stores if self.graph.layout(self.graph.operands(op)[1]).shape == self.loops.space]
        for op in whole:
            yield self._place(self.graph.operands(op)[1])
        seen: set[NodeId] = set()
        stack = [self.graph.operands(op)[0] for op in reversed(whole)]
        while stack:
            tensor = stack.pop()
            if tensor in seen or self.graph.tensor(tensor).shape != self.loops.space:
                continue
            seen.add(tensor)
            node = self.graph.producer(tensor)
            target, operands = self.graph.op(node).target, self.graph.operands(node)
            if target == "fk.load":
                yield self._place(operands[0])
            elif target != "fk.window":
                stack += reversed(operands[:1] if target == "fk.overlay" else operands)

    def _place(self, tensor: NodeId) -> tuple[NodeId, Layout]:
        return cast(NodeId, self.graph.block_of(tensor)), self.graph.layout(tensor)

    def _root(self, op: NodeId, anchors: Sequence[tuple[NodeId, Layout]]) -> Root:
        value, target = self.graph.operands(op)
        block, region = self._place(target)
        placed = place(region, block, self.loops.space, self.loops.index, anchors)
        name = self.puller.pull(value, placed.index)
        address = region.address(placed.index)
        depth, guards = self._sink(placed, address, self.puller.items[name])
        cases = simplify([frozenset([(self.puller.test(guards), True)])]) if guards else ALWAYS
        store = Store(self.names.memory(block), address, name, region.dtype, (op,))
        last = tuple(var for var in self.loops.order[depth:])
        return Root(store, block, region, guards, cases, depth, last)

    def _sink(self, placed: Placed, address: Form, value: Item) -> tuple[int, tuple[Guard, ...]]:
        """(loops around the store, guards): one that hangs on no inner loop follows these instead of being in them."""
        guards, depth = placed.guards, len(self.loops.order)
        while depth:
            var = self.loops.order[depth - 1]
            once = Guard(Form.of(var), 1)
            rest = tuple(guard for guard in guards if guard != once)
            free = address.free.union(value.free, *(guard.form.free for guard in rest))
            if once not in guards or var in free:
                break
            guards, depth = rest, depth - 1
        return depth, guards
