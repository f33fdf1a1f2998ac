"""Another launch as a remedy: what it would cost to run the stores to bytes that others read after those others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusekit.ids import NodeId
from fusekit.ir import Graph, core


def why_not_another(graph: Graph, roots: Sequence[NodeId], saved: frozenset[NodeId | None], size: int) -> str:
    """Why the stores to ``saved`` blocks are no launch of their own; ``size``: bytes that snapshots move instead.

    Segments are made before kernels are, so where it would be cheaper this says how to ask for it.
    """
    stores = [op for op in roots if isinstance(graph.what(op), core.Store)]
    if len(stores) == 1:
        return "one store is one launch"
    last = [op for op in stores if _written(graph, op) in saved]
    first = [op for op in stores if op not in last]
    if not first:
        return "every store writes what others read"
    before, after = (_loads(graph, part) for part in (first, last))
    if {_written(graph, op) for op in first} & {graph.block_of(graph.operands(op)[0]) for op in after}:
        return "the stores read what one another write"
    again = sum(graph.layout(graph.operands(op)[0]).nbytes for op in before & after)
    if again >= size:
        return f"it would read {again:,} bytes again, where the snapshot moves {size:,}"
    return f"it would move {size - again:,} bytes fewer: split the segment (x.what_if(split=...))"


def _written(graph: Graph, store: NodeId) -> NodeId | None:
    return graph.block_of(graph.operands(store)[1])


def _loads(graph: Graph, stores: Iterable[NodeId]) -> set[NodeId]:
    """The loads below the values of some stores."""
    seen: set[NodeId] = set()
    todo = [graph.operands(op)[0] for op in stores]
    while todo:
        op = graph.producer(todo.pop())
        if op not in seen:
            seen.add(op)
            todo += [t for t in graph.operands(op) if graph.is_value(t)]
    return {op for op in seen if isinstance(graph.what(op), core.Load)}
