"""Values that several kernels compute: which of them are cheaper to store once and read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod

import networkx as nx

from fusekit.ids import NodeId
from fusekit.ir import Graph, core
from fusekit.passes.segments.merge import Merger
from fusekit.passes.segments.stored import own_users, stored, without_dead
from fusekit.passes.segments.traffic import distinct, moved

LAUNCH = 1 << 15  # bytes that a launch is worth
FREE = core.Load | core.Fill | core.Iota  # never worth storing


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
        graph, own = own_users(graph, reader.values, reader.ops, reader.owners)
        for value, users in own.items():
            reads[value] = list(dict.fromkeys((*reads.get(value, ()), *users)))
    return without_dead(stored(graph, reads, "it is stored once for later kernels"))


def _rim(graph: Graph, ops: frozenset[NodeId], shared: frozenset[NodeId]) -> dict[NodeId, list[NodeId]]:
    """Values that earlier kernels compute too, used by ops that they have not: the last that could be read."""
    found: dict[NodeId, list[NodeId]] = {}
    for op in sorted(shared, key=graph.position):
        if isinstance(graph.what(op), FREE):
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
        network.add_edge(
            "source", value, capacity=2 * graph.tensor(value).dtype.width * prod(graph.tensor(value).shape)
        )
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
    return frozenset(op for op in seen if op in ops and isinstance(graph.what(op), core.Load))


def cost(merger: Merger) -> int:
    """Bytes that all kernels move, and what their launches are worth."""
    kernels = [info for info in merger.info.values() if info.is_kernel]
    return sum(moved(merger.graph, info.ops) for info in kernels) + LAUNCH * len(kernels)
