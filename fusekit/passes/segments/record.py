"""Questions to the record of a finished segmenting: why are these two segments not one?"""

from __future__ import annotations

from collections.abc import Iterable

from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.passes.segments import reasons
from fusekit.why import Explanation, Reason, Trial


def why_apart(graph: Graph, rows: Iterable[Trial], first: NodeId, second: NodeId) -> tuple[Explanation, ...]:
    """The row of the pair; where the record holds none, what the segments and boundaries themselves say."""
    wanted = {(first,), (second,)}
    found = [row.reason for row in rows if {row.first, row.second} == wanted]
    reason = found[-1] if found else _from_graph(graph, first, second)
    return (Explanation((first, second), "declined", reason, (), "segment"),)


def _from_graph(graph: Graph, first: NodeId, second: NodeId) -> Reason:
    kinds = [graph.segment(s).scheduler for s in (first, second)]
    if "alias" in kinds:
        return Reason.of("alias-only")
    calls = [graph.members(s)[0] for s in (first, second) if graph.segment(s).scheduler == "extern"]
    if calls:
        return reasons.extern_call(graph, calls[0])
    early, late = sorted((first, second), key=graph.segments().index)
    if (through := _between(graph, early, late)) is not None:
        return reasons.cycle(through, early, late, graph.segment(through).scheduler != "extern")
    if graph.segment(first).space != graph.segment(second).space:
        spaces = (str(list(graph.segment(s).space)) for s in (first, second))
        return Reason.of("space-differs", first=next(spaces), second=next(spaces))
    return Reason.of("not-tried", saved=0)


def _between(graph: Graph, early: NodeId, late: NodeId) -> NodeId | None:
    """A segment that must run after the one and before the other, over boundaries and orderings."""
    after: dict[NodeId, dict[NodeId, None]] = {}
    for a, b, _, _ in graph.boundaries():
        after.setdefault(a, {})[b] = None
    for op, then, _ in graph.orderings():
        for a in graph.segments_of(op):
            after.setdefault(a, {}).update((b, None) for b in graph.segments_of(then) if b != a)
    for first in after.get(early, ()):
        seen, todo = {first}, [first]
        while todo:
            for then in after.get(todo.pop(), ()):
                if then == late:
                    return first if first != late else None
                if then not in seen:
                    seen.add(then)
                    todo.append(then)
    return None
