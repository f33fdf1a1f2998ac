"""Phases: what must wait for a finished reduction, and what reads the elements again after one."""

from __future__ import annotations

from math import prod

from fusekit.domains import reductions, reference_of, roots, space_of
from fusekit.ids import NodeId
from fusekit.ir import Graph, core


def phases(graph: Graph, segment: NodeId) -> dict[NodeId, int]:
    """How many finished reductions, one after another, each op of a segment waits for."""
    found: dict[NodeId, int] = {}
    for op in graph.members(segment):
        makers = (graph.producer(t) for t in graph.operands(op) if graph.has_producer(t))
        waits = (found[m] + (isinstance(graph.what(m), core.Reduce)) for m in makers if m in found)
        found[op] = max(waits, default=0)
    return found


def reads_again(graph: Graph, segment: NodeId) -> tuple[NodeId, NodeId] | None:
    """(reduction, root): a root over as many elements as the reference that waits for a reduction; None without one."""
    reference = reference_of(graph, segment)
    if reference is None or not reductions(graph, segment):
        return None
    kept = prod(reference.shape[k] for k in reference.kept)
    waits = phases(graph, segment)
    for root in roots(graph, segment):
        if waits[root] and (prod(space_of(graph, root)) > kept or isinstance(graph.what(root), core.Reduce)):
            return reductions(graph, segment)[0], root
    return None
