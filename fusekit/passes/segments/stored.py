"""Values that are stored once and read by later kernels: where that moves fewer bytes, where no kernel holds what needs
them, and where a person puts a boundary."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import networkx as nx

from fusekit.errors import FusekitError
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.passes.base import is_value_op
from fusekit.passes.crossing import store_once
from fusekit.passes.segments.judge import REDUCE, Judge
from fusekit.passes.segments.merge import Merger
from fusekit.passes.segments.traffic import distinct, moved
from fusekit.passes.segments.units import LOAD, STORE, Unit, units_of

LAUNCH = 1 << 15  # bytes that a launch is worth
FREE = frozenset(("fk.load", "fk.fill", "fk.iota"))  # never worth storing
Reads = Mapping[NodeId, Collection[NodeId]]  # value -> the ops that read it from memory


def with_cuts(graph: Graph, cuts: Collection[NodeId]) -> Graph:
    """A boundary after each of these values: whatever uses one reads it from memory."""
    for value in cuts:
        if value not in graph or not graph.is_value(value):
            raise FusekitError(f"split: there is no value {value} any more", value, "decide anew, from x.text()")
        graph = stored(graph, {value: graph.users(value)}, "what_if(split=...) puts a boundary after it")
    return graph


def stored(graph: Graph, reads: Reads, because: str) -> Graph:
    """``store_once``, and why, on the stores."""
    made = store_once(graph, reads)
    draft = made.draft("segment")
    for op in made.ops():
        if op not in graph and made.op(op).target == STORE:
            payload = made.op(op)
            rest = tuple((k, v) for k, v in payload.kwargs if k != "because")
            draft.replace(op, replace(payload, kwargs=(*rest, ("because", because))))
    return draft.finish().graph


# ---- what no kernel holds -----------------------------------------------------------------------------------------


def with_loops(graph: Graph) -> Graph:
    """A store whose reductions and elements have no nest of loops in common reads the result of a reduction."""
    judge, units = Judge(graph), units_of(graph)
    for unit in units:
        if unit.kind == "store" and judge.refusal(unit.needs) is not None:
            elsewhere = frozenset[NodeId]().union(*(u.needs for u in units if u is not unit))
            found = next((g for g in _without_a_fold(graph, unit, elsewhere) if _all_nest(g, graph, unit)), None)
            if found is not None:
                return with_loops(found)
    return graph


def _without_a_fold(graph: Graph, unit: Unit, elsewhere: frozenset[NodeId]) -> Iterator[Graph]:
    """With the result of one reduction in memory, the last one first; with all of them."""
    folds = sorted((op for op in unit.needs if graph.op(op).target == REDUCE), key=graph.position, reverse=True)
    because = "no nest of loops holds it and what reads it"
    for chosen in (*([op] for op in folds), folds if len(folds) > 1 else ()):
        values = [graph.results(op)[0] for op in chosen]
        if values:
            apart, reads = _own_users(graph, frozenset(values), unit.needs, elsewhere)
            yield _without_dead(stored(apart, reads, because))


def _own_users(
    graph: Graph, values: frozenset[NodeId], ops: frozenset[NodeId], elsewhere: frozenset[NodeId]
) -> tuple[Graph, dict[NodeId, list[NodeId]]]:
    """Copies of what other kernels compute of the values too, so that only ``ops`` read them; and who reads them."""
    draft = graph.draft("segment")
    own: dict[NodeId, NodeId] = {}  # result -> result of the copy
    below, readers = set[NodeId](values), dict[NodeId, list[NodeId]]()
    for op in sorted(ops, key=graph.position):
        operands = graph.operands(op)
        if below.isdisjoint(operands) or any(t in values for t in graph.results(op)):
            continue
        below.update(graph.results(op))
        mine = op
        if op in elsewhere:
            made = [draft.add_tensor(graph.tensor(t), id=t) for t in graph.results(op)]
            own.update(zip(graph.results(op), made, strict=True))
            mine = draft.add_op(graph.op(op), [own.get(t, t) for t in operands], made, id=op, before=op)
        else:
            for k, t in enumerate(operands):
                if t in own:
                    draft.rewire(op, k, own[t])
        for t in operands:
            if t in values:
                readers.setdefault(t, []).append(mine)
    return draft.finish().graph, readers


def _all_nest(made: Graph, before: Graph, unit: Unit) -> bool:
    """Have the parts of the unit loops of their own?"""
    judge = Judge(made)
    parts = (u for u in units_of(made) if u.kind == "store" and (u.root == unit.root or u.root not in before))
    return all(judge.refusal(part.needs) is None for part in parts)


# ---- what moves fewer bytes ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reader:
    """A kernel of ``ops`` that reads ``values`` from memory; ``owners``: ops of the kernels that compute them."""

    ops: frozenset[NodeId]
    values: frozenset[NodeId]
    owners: frozenset[NodeId]


def readers(merger: Merger, again: bool) -> list[Reader]:
    """Kernels that read what an earlier one computes better than compute it again.

    ``again``: may what no pass forwards be computed again where that moves fewer bytes? Else it is read.
    """
    graph, found = merger.graph, list[Reader]()
    owner: dict[NodeId, frozenset[NodeId]] = {}  # op -> ops of the first kernel that computes it
    for group in merger.order.ordered():
        info = merger.info[group]
        if not info.is_kernel:
            continue
        shared = frozenset(op for op in info.ops & owner.keys() if not graph.op(op).forward)
        if shared:
            rim = _rim(graph, info.ops, shared)
            values = _cheaper(graph, info.ops, rim) if again else list(rim)
            owners = frozenset[NodeId]().union(*(owner[graph.producer(value)] for value in values))
            if values:
                found.append(Reader(info.ops, frozenset(values), owners))
        for op in info.ops:
            owner.setdefault(op, info.ops)
    return found


def shared(graph: Graph, found: Collection[Reader]) -> Graph:
    """The graph in which these kernels read those values."""
    reads: dict[NodeId, list[NodeId]] = {}
    for reader in found:
        graph, own = _own_users(graph, reader.values, reader.ops, reader.owners)
        for value, users in own.items():
            reads[value] = list(dict.fromkeys((*reads.get(value, ()), *users)))
    return _without_dead(stored(graph, reads, "it is stored once for later kernels"))


def _without_dead(graph: Graph) -> Graph:
    """Less the values that nothing takes any more."""
    draft, gone = graph.draft("segment"), set[NodeId]()
    for op in reversed(graph.ops()):
        if is_value_op(graph, op) and all(gone.issuperset(graph.users(t)) for t in graph.results(op)):
            gone.add(op)
            draft.remove(op)
            for t in graph.results(op):
                draft.remove(t)
    return draft.finish().graph if gone else graph


def _rim(graph: Graph, ops: frozenset[NodeId], shared: frozenset[NodeId]) -> dict[NodeId, list[NodeId]]:
    """Values that earlier kernels compute too, used by ops that they have not: the last that could be read."""
    found: dict[NodeId, list[NodeId]] = {}
    for op in sorted(shared, key=graph.position):
        if graph.op(op).target in FREE:
            continue
        for value in graph.results(op):
            users = [user for user in graph.users(value) if user in ops and user not in shared]
            if users:
                found[value] = users
    return found


def _cheaper(graph: Graph, ops: frozenset[NodeId], rim: Mapping[NodeId, list[NodeId]]) -> list[NodeId]:
    """Of the rim, what is cheaper to store and read than to load again what it is computed from: a minimum cut."""
    network: nx.DiGraph[str] = nx.DiGraph()
    needed = _loads(graph, [user for users in rim.values() for user in users], ops, frozenset(rim))
    for value in rim:
        network.add_edge("source", value, capacity=2 * graph.tensor(value).dtype.width * _numel(graph, value))
        for load in _loads(graph, [graph.producer(value)], ops, frozenset()) - needed:
            network.add_edge(value, load)
            network.add_edge(load, "sink", capacity=distinct(graph.layout(graph.operands(load)[0])))
    if "sink" not in network or not rim:
        return []
    _, (kept, _) = nx.minimum_cut(network, "source", "sink")  # pyright: ignore[reportUnknownMemberType]
    return [value for value in rim if value not in kept and network.out_degree(value)]


def _loads(graph: Graph, starts: list[NodeId], ops: frozenset[NodeId], stop: frozenset[NodeId]) -> frozenset[NodeId]:
    """Loads among ``ops`` that these need, not through the values ``stop``."""
    seen: set[NodeId] = set()
    todo = list(starts)
    while todo:
        op = todo.pop()
        if op not in seen:
            seen.add(op)
            todo += [graph.producer(t) for t in graph.operands(op) if graph.is_value(t) and t not in stop]
    return frozenset(op for op in seen if op in ops and graph.op(op).target == LOAD)


def _numel(graph: Graph, value: NodeId) -> int:
    count = 1
    for n in graph.tensor(value).shape:
        count *= n
    return count


def cost(merger: Merger) -> int:
    """Bytes that all kernels move, and what their launches are worth."""
    kernels = [info for info in merger.info.values() if info.is_kernel]
    return sum(moved(merger.graph, info.ops) for info in kernels) + LAUNCH * len(kernels)
