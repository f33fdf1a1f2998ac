"""Units: what is never parted, and which of them must run before which.

A unit is a store with the ops that its value needs, a library call, or a look at indices. An ordering edge between ops
of two units orders these; where it is more than a write after a read, no launch may hold both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from fusekit.ids import NodeId
from fusekit.ir import Graph, core
from fusekit.ops.extern import raises_on_data
from fusekit.passes.base import is_value_op, is_view
from fusekit.why import Reason

Kind = Literal["store", "call", "check"]


@dataclass(frozen=True, slots=True)
class Unit:
    """``root``: the store, the call or the check; ``needs``: its ops, a set since values share them."""

    kind: Kind
    root: NodeId
    needs: frozenset[NodeId]


@dataclass(frozen=True, slots=True)
class Bar:
    """Why no launch holds two units: an op of one must see what an op of the other did, or a person says so."""

    first: NodeId
    then: NodeId
    because: Reason | None = None


Order = tuple[int, int, Bar | None]


def units_of(graph: Graph) -> list[Unit]:
    """All units, in program order."""
    found: list[Unit] = []
    cones: dict[NodeId, frozenset[NodeId]] = {}
    for op in graph.ops():
        match graph.what(op):
            case core.Store():
                found.append(Unit("store", op, _cone(graph, graph.operands(op)[0], cones) | {op}))
            case core.CheckIndex():
                found.append(Unit("check", op, frozenset((op,))))
            case core.Input() | core.Return():
                pass
            case _ if not is_view(graph, op) and not is_value_op(graph, op):
                found.append(Unit("call", op, frozenset((op,))))
            case _:
                pass
    return found


def _cone(graph: Graph, value: NodeId, known: dict[NodeId, frozenset[NodeId]]) -> frozenset[NodeId]:
    """The ops that a value needs."""
    if value not in known:
        seen: set[NodeId] = set()
        todo = [value]
        while todo:
            op = graph.producer(todo.pop())
            if op not in seen:
                seen.add(op)
                todo += [t for t in graph.operands(op) if graph.is_value(t)]
        known[value] = frozenset(seen)
    return known[value]


def order_of(graph: Graph, units: list[Unit], exact: bool = True) -> Iterator[Order]:
    """(before, after, why they are two, or None) for every pair of units that the program orders.

    Unless ``exact``, a write after a read is a launch after it too, but for stores of one flush.
    """
    holders: dict[NodeId, list[int]] = {}
    for k, unit in enumerate(units):
        for op in unit.needs:
            holders.setdefault(op, []).append(k)
    for first, then, ordering in graph.orderings():
        bar = None if ordering.kinds == ("WAR",) else Bar(first, then)
        for a in holders.get(first, ()):
            for b in holders.get(then, ()):
                apart = bar or (None if exact or _is_one_flush(graph, units[a], units[b]) else Bar(first, then))
                yield a, b, apart if a != b else None
    yield from _calls_in_order(graph, units)
    yield from _errors_in_order(graph, units)


def _is_one_flush(graph: Graph, a: Unit, b: Unit) -> bool:
    one, other = (graph.what(unit.root) for unit in (a, b))
    flush = one.flush if isinstance(one, core.Store) else None
    return a == b or (flush is not None and isinstance(other, core.Store) and flush == other.flush)


def _calls_in_order(graph: Graph, units: list[Unit]) -> Iterator[Order]:
    """Library calls keep their order (random ones draw in it), and no kernel holds one."""
    calls = [k for k, unit in enumerate(units) if unit.kind == "call"]
    for a, b in pairwise(calls):
        yield a, b, Bar(units[a].root, units[b].root)


def _errors_in_order(graph: Graph, units: list[Unit]) -> Iterator[Order]:
    """What may raise because of data comes after the writes that eager has made by then, and before later ones."""
    seen: list[int] = []  # stores that a caller can see since the last of what may raise, and that one itself
    last: int | None = None
    check: int | None = None
    for k, unit in enumerate(units):
        if unit.kind == "check" or (unit.kind == "call" and raises_on_data(graph.op(unit.root).target)):
            for a in seen:
                both = units[a].kind == unit.kind == "check"
                yield a, k, None if both else Bar(units[a].root, unit.root)
            seen, last = [k], k
            check = k if unit.kind == "check" else check
        elif unit.kind == "store" and last is not None and _is_seen(graph, unit):
            yield last, k, None if units[last].kind == "check" else Bar(units[last].root, unit.root)
        elif unit.kind == "store" and check is not None and _looks_up(graph, unit):
            yield check, k, None
        if unit.kind == "store" and _is_seen(graph, unit):
            seen.append(k)


def _looks_up(graph: Graph, unit: Unit) -> bool:
    return any(isinstance(graph.what(op), core.Lookup) for op in unit.needs)


def _is_seen(graph: Graph, unit: Unit) -> bool:
    """Does the store write what outlives an error?"""
    block = graph.block_of(graph.operands(unit.root)[1])
    return block is not None and graph.block(block).kind != "fresh"
