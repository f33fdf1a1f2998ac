"""From the flat list to a loop nest: every statement in as few loops as its index allows, stores after loads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from fusekit.index import Form, Var, substitute
from fusekit.ir import Graph, Guard, Number
from fusekit.lower.arrange import arrange, is_costly
from fusekit.lower.build import Nest, Root
from fusekit.lower.nest import Item
from fusekit.lower.program import (
    ALWAYS,
    Assign,
    Cases,
    For,
    If,
    Literal,
    Load,
    Param,
    Position,
    Program,
    Snapshot,
    Statement,
    Test,
)


def assemble(
    graph: Graph, nest: Nest, snapshots: Sequence[Snapshot], kept: dict[str, str], reverse: bool, parallel: bool
) -> Program:
    """The program. ``kept``: load -> the snapshot it reads instead of memory."""
    maker = _Assembler(nest, kept, reverse, parallel)
    body = (*snapshots, *maker.level(0))
    return Program(_params(nest, graph), body)


class _Assembler:
    def __init__(self, nest: Nest, kept: dict[str, str], reverse: bool, parallel: bool):
        self.nest, self.kept, self.reverse, self.parallel = nest, kept, reverse, parallel
        self.users: dict[str, set[str]] = {}
        for item in nest.items:
            for operand, _ in item.uses:
                self.users.setdefault(operand, set()).add(item.name)
        self.stored = {root.store.value for root in nest.roots}

    def level(self, depth: int) -> tuple[Statement, ...]:
        """What stands inside ``depth`` loops: tests, values, the next loop, stores."""
        items = [item for item in self.nest.items if self.nest.depth(item) == depth]
        out: list[Statement] = []
        for cases, group in arrange(items, self.nest.cases):
            out += self._guarded(cases, group)
        loops = self.nest.loops.order
        if depth < len(loops):
            inner = self.level(depth + 1)
            out.append(For(loops[depth], inner, self.reverse, self.parallel and depth == 0))
        out += self._stores([root for root in self.nest.roots if root.depth == depth])
        return tuple(out)

    def _guarded(self, cases: Cases, group: list[Item]) -> list[Statement]:
        if cases == ALWAYS or (cases and not any(map(is_costly, group))):
            return [self._statement(item) for item in group]
        inside = {item.name for item in group}
        live = [item for item in group if item.name in self.stored or not self.users.get(item.name, set()) <= inside]
        declared: list[Statement] = [
            Assign(item.name, Literal(0, item.statement.dtype), item.statement.dtype)
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
        clamp = None if self._is_inside(item) else item.extent
        memory = self.kept.get(item.name, statement.memory)
        return Load(statement.name, memory, statement.address, statement.dtype, clamp, statement.ops)

    def _is_inside(self, item: Item) -> bool:
        """Does the load stay in its tensor wherever it is computed?"""
        cases = self.nest.cases[item.name]
        return all(_in_extent(item, self.nest.guards_of(case)) for case in cases)

    def _stores(self, roots: Sequence[Root]) -> list[Statement]:
        out: list[Statement] = []
        for cases, group in groupby(roots, key=lambda root: root.cases):
            stores = tuple(root.store for root in group)
            out += stores if cases == ALWAYS else [If(cases, stores)]
        return out


def _in_extent(item: Item, atoms: Iterable[tuple[tuple[Guard, ...], bool]]) -> bool:
    statement = item.statement
    assert isinstance(statement, Load)
    address = statement.address
    for guards, holds in atoms:
        for guard in guards if holds else ():
            address = _assume(address, guard)
    low, high = address.bounds
    return item.extent[0] <= low and high + statement.dtype.width <= item.extent[1]


def _assume(form: Form, guard: Guard) -> Form:
    """The form where the guard holds: a variable of the guard is replaced by one that ranges over what it allows."""
    for atom, c in guard.form.terms:
        if isinstance(atom, Var) and c in (1, -1) and guard.form.coefficient(atom) == c and form.coefficient(atom):
            inner = Form.of(Var(f"{atom.name}'", guard.extent))
            rest = guard.form - Form.of(atom) * c
            return substitute(form, {atom: (inner - rest) * c})
    return form


def _params(nest: Nest, graph: Graph) -> tuple[Param, ...]:
    """Addresses in the order of the graph's blocks, then numbers."""
    numbers, blocks = dict(nest.names.numbers), graph.blocks()
    loops, recorded = set(nest.loops.order), {number.index: number for number in graph.numbers()}
    for form in _all_forms(nest):
        for var in form.free - loops:
            index = int(var.name[1:])  # a parameter whose call became an index: only forms still name it
            numbers.setdefault(var.name, recorded.get(index, Number(index, 0)))
    addresses = tuple(
        Param(name, node=block)
        for block, name in sorted(nest.names.blocks.items(), key=lambda item: blocks.index(item[0]))
    )
    return addresses + tuple(Param(name, number=numbers[name]) for name in sorted(numbers, key=lambda n: int(n[1:])))


def _all_forms(nest: Nest) -> Iterable[Form]:
    for item in nest.items:
        statement = item.statement
        if isinstance(statement, Load):
            yield statement.address
        elif isinstance(statement, Test):
            yield from (guard.form for guard in statement.guards)
        elif isinstance(statement.value, Position):
            yield statement.value.form
    for root in nest.roots:
        yield root.store.address
