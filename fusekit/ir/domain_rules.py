"""What is legal for iteration domains: the invariants of the stage that schedules make."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from fusekit.ids import ITERDOMAIN, SEGMENT, TENSOR, NodeId, kind_of
from fusekit.ir.domains import AlignedSplit, Kind, Merge, Split, aligned_extents, split_extents
from fusekit.ir.graph import Graph

Problems = Iterator[tuple[NodeId, str]]


def arity_fits(graph: Graph) -> Problems:
    """A merge takes two and makes one; splits make two, and an aligned one also takes the row."""
    for node in graph.transforms():
        takes, makes = graph.operands(node), graph.results(node)
        wanted = {Split: (1, 2), AlignedSplit: (2, 2), Merge: (2, 1)}[type(graph.transform(node))]
        if (len(takes), len(makes)) != wanted:
            yield node, f"takes {len(takes)} and makes {len(makes)} iteration domains"
        for other in (*takes, *makes):
            if kind_of(other) != ITERDOMAIN:
                yield node, f"{other} is no iteration domain"


def extents_multiply(graph: Graph) -> Problems:
    """Extents are what the transforms make of them."""
    for node in graph.transforms():
        payload = graph.transform(node)
        takes = [graph.iter_domain(i).extent for i in graph.operands(node)]
        makes = [graph.iter_domain(i).extent for i in graph.results(node)]
        match payload:
            case Merge():
                right = [takes[0] * takes[1]]
            case Split():
                right = list(split_extents(takes[0], payload))
            case AlignedSplit():
                right = list(aligned_extents(takes[0], payload))
        if makes != right:
            yield node, f"makes extents {makes} where {right} are due"


def reductions_stay_apart(graph: Graph) -> Problems:
    """A merge never joins a reduction with an iteration, and a split keeps the kind."""
    for node in graph.transforms():
        whole = graph.results(node) if isinstance(graph.transform(node), Merge) else graph.operands(node)[:1]
        parts = graph.operands(node) if isinstance(graph.transform(node), Merge) else graph.results(node)
        kinds = {graph.iter_domain(i).kind for i in (*whole, *parts)} - {Kind.BROADCAST}
        if len(kinds) > 1:
            yield node, "mixes reduction and iteration"


def transforms_are_a_dag(graph: Graph) -> Problems:
    """No iteration domain is made twice, or from itself."""
    made: dict[NodeId, NodeId] = {}
    order: TopologicalSorter[NodeId] = TopologicalSorter()
    for node in graph.transforms():
        order.add(node, *graph.operands(node))
        for i in graph.results(node):
            if i in made:
                yield i, f"is made by {made[i]} and by {node}"
            made[i] = node
            order.add(i, node)
    try:
        order.prepare()
    except CycleError as error:
        yield error.args[1][0], "is made from itself"


def domains_cover_logical(graph: Graph) -> Problems:
    """Loop and allocation, each for itself, hold every logical axis exactly once; a parallel type stands there once."""
    for owner, segment in graph.domain_owners():
        domain = graph.domain(owner, segment)
        if kind_of(owner) not in (SEGMENT, TENSOR):
            yield owner, "has domains and is neither tensor nor segment"
        for word, axes in (("loop", domain.loop), ("allocation", domain.allocation)):
            if axes and (problem := cover(graph, axes, domain.logical)):
                yield owner, f"{word} {problem}"
        unique = [p for i in domain.loop if (p := graph.iter_domain(i).parallel).is_unique]
        for parallel in dict.fromkeys(p for p in unique if unique.count(p) > 1):
            yield owner, f"has two loops on {parallel.name}"


def cover(graph: Graph, axes: tuple[NodeId, ...], logical: tuple[NodeId, ...]) -> str | None:
    """What is wrong with ``axes`` as a transform of ``logical``; transforms are undone until those are left."""
    left = list(axes)
    if len(set(left)) < len(left):
        return "names an axis twice"
    wanted = set(logical)
    while undone := [i for i in left if i not in wanted and graph.has_producer(i)]:
        ready = (n for n in map(graph.producer, undone) if set(graph.results(n)) <= set(left))
        node = next(ready, None)
        if node is None:
            return f"has {undone[0]} without the rest of what {graph.producer(undone[0])} makes"
        left = [i for i in left if i not in graph.results(node)]
        left += graph.operands(node)[: 2 if isinstance(graph.transform(node), Merge) else 1]
        if len(set(left)) < len(left):
            return f"holds {graph.operands(node)[0]} twice"
    extra = {i for i in left if i not in wanted and graph.iter_domain(i).kind is not Kind.BROADCAST}
    if extra:
        return f"has {min(extra)}, which comes from no logical axis"
    missing = [i for i in logical if i not in left]
    return f"does not cover {missing[0]}" if missing else None
