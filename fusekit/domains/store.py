"""Domains in a graph: written by a draft, and read back as the values that transforms work on."""

from __future__ import annotations

from collections.abc import Iterable

from fusekit.domains.allocation import Allocation
from fusekit.domains.exact import Expr, IdGraph
from fusekit.domains.loop import Axes, LoopDomain
from fusekit.ids import TRANSFORM, NodeId
from fusekit.ir import DomainKind, Draft, Graph
from fusekit.why import Reason


def write_loops(draft: Draft, segment: NodeId, loop: LoopDomain, because: Reason | None = None) -> None:
    """Adds a segment's logical and loop domain; the ids of ``loop`` must be free in the draft."""
    _write(draft, loop, segment[1:])
    draft.set_domain(segment, segment, DomainKind.LOGICAL, loop.logical)
    draft.set_domain(segment, segment, DomainKind.LOOP, loop.axes, because=because)


def write_allocation(draft: Draft, tensor: NodeId, segment: NodeId, allocation: Allocation) -> None:
    """Adds a tensor's logical and allocation domain in a segment."""
    axes = allocation.axes
    _write(draft, axes, f"{segment[1:]}.{tensor[1:]}")
    draft.set_domain(tensor, segment, DomainKind.LOGICAL, axes.logical)
    contiguity, strides = allocation.contiguity, allocation.strides
    draft.set_domain(tensor, segment, DomainKind.ALLOCATION, axes.axes, contiguity=contiguity, strides=strides)


def _write(draft: Draft, axes: Axes, prefix: str) -> None:
    for i, payload in axes.graph.ids.items():
        if i not in draft and draft.add_iter_domain(payload, id=i) != i:
            raise ValueError(f"{i} was used before")
    for k, expr in enumerate(axes.graph.exprs):
        draft.add_transform(expr.transform, expr.takes, expr.makes, id=f"{TRANSFORM}{prefix}.{k}")


def read_loops(graph: Graph, segment: NodeId) -> LoopDomain | None:
    """The loop domain that the graph holds for a segment."""
    domain = graph.domain(segment)
    if not domain.loop:
        return None
    return LoopDomain(read_ids(graph, domain.loop), domain.logical, domain.loop)


def read_allocation(graph: Graph, tensor: NodeId, segment: NodeId) -> Allocation | None:
    """The allocation that the graph holds for a tensor in a segment: row-major where it gives no strides."""
    domain = graph.domain(tensor, segment)
    if not domain.allocation:
        return None
    axes = Axes(read_ids(graph, domain.allocation), domain.logical, domain.allocation)
    strides = [s for s in domain.strides if s is not None]
    whole = strides if len(strides) == len(domain.strides) else None
    return Allocation.over(axes, strides=whole, contiguity=domain.contiguity)


def read_ids(graph: Graph, axes: Iterable[NodeId]) -> IdGraph:
    """The iteration domains that lead to ``axes``, with the transforms between them in the graph's order."""
    todo, needed = list(axes), set[NodeId]()
    ids: set[NodeId] = set(todo)
    while todo:
        i = todo.pop()
        if not graph.has_producer(i) or graph.producer(i) in needed:
            continue
        node = graph.producer(i)
        needed.add(node)
        todo += graph.operands(node)
        ids.update(graph.operands(node), graph.results(node))
    exprs = (Expr(graph.transform(n), graph.operands(n), graph.results(n)) for n in graph.transforms() if n in needed)
    return IdGraph({i: graph.iter_domain(i) for i in graph.iter_domains() if i in ids}, tuple(exprs))
