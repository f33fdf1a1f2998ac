"""From finished groups to segments in the graph: members, boundaries, and what is said of each pair."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, pairwise

from fusekit.ids import NodeId
from fusekit.ir import Boundary, Draft, Graph, Segment, core
from fusekit.passes.base import is_view
from fusekit.passes.segments import reasons
from fusekit.passes.segments.apart import Apart
from fusekit.passes.segments.merge import Merger
from fusekit.passes.segments.units import Bar
from fusekit.why import Reason, Trial

PAIRS = 48  # segments up to which every pair has a row; above, pairs that were tried and neighbours
Homes = Mapping[NodeId, tuple[NodeId, ...]]  # op -> segments, in launch order
CHEAP = core.Load | core.Fill | core.Iota | core.Window | core.Cast


def write(given: Graph, draft: Draft, merger: Merger) -> tuple[Trial, ...]:
    """Adds segments in launch order, boundaries and reasons; the rows of the log, pairs of segments last.

    ``given``: the graph that the pass got, which has none of the stores that were put in since.
    """
    graph = merger.graph
    names = {group: _segment(graph, draft, merger, group) for group in merger.order.ordered()}
    for chain in _view_chains(graph):
        draft.add_segment(Segment("alias"), chain, because=Reason.of("alias-only"))
    homes: dict[NodeId, tuple[NodeId, ...]] = {}
    for group, segment in names.items():
        for op in merger.info[group].ops:
            homes[op] = (*homes.get(op, ()), segment)
    for op in graph.ops():
        what = graph.what(op)
        if isinstance(what, core.Store) and op not in given:
            draft.note((op,), Reason.of("stored-once", because=str(what.because)))
        elif isinstance(what, core.Store) and graph.operands(op)[1] != given.operands(op)[1]:
            draft.note((op,), Reason.of("turned", shape=str(list(graph.layout(graph.operands(op)[1]).shape))))
    crossed = _add_boundaries(graph, draft, homes)
    rows = _pairs(draft, merger, names, crossed)
    _note_repeated(graph, draft, homes)
    return (*merger.log, *rows)


def _segment(graph: Graph, draft: Draft, merger: Merger, group: int) -> NodeId:
    info = merger.info[group]
    if not info.is_kernel:
        because = reasons.extern_call(graph, info.roots[0])
        return draft.add_segment(Segment("extern"), info.roots, because=because)
    members = sorted(info.ops, key=graph.position)
    why = merger.why.get(group) or Reason.of("single-store")
    because = Reason.of("one-kernel", space=str(list(info.space)), because=str(why))
    return draft.add_segment(Segment("pointwise", info.space), members, because=because)


def _pairs(draft: Draft, merger: Merger, names: dict[int, NodeId], crossed: set[tuple[NodeId, NodeId]]) -> list[Trial]:
    """A row for each pair of segments; of what was tried and refused, and of neighbours with no boundary (``crossed``)
    between them, it is said in the record besides."""
    apart, order = Apart(merger, names), list(names)
    place = {group: k for k, group in enumerate(order)}
    kernels = [g for g in order if merger.info[g].is_kernel]
    near = set(pairwise(kernels))
    pairs = near | {p for p in merger.refused if p[0] in place and p[1] in place}
    if len(order) <= PAIRS:
        pairs |= set(combinations(order, 2))
    rows: list[Trial] = []
    for a, b in sorted(
        (tuple(sorted(pair, key=place.__getitem__)) for pair in pairs), key=lambda p: (place[p[0]], place[p[1]])
    ):
        reason = apart.why(a, b)
        one, other = merger.info[a], merger.info[b]
        asked = merger.judge.asked(one.ops | other.ops) if reason.name == "no-common-loops" else ()
        rows.append(Trial((names[a],), (names[b],), one.saves(other), asked, "refused", reason))
        is_told = (a, b) in near or reason.name in ("no-common-loops", "kept-apart")
        if is_told and (names[a], names[b]) not in crossed:
            draft.decline((names[a], names[b]), reason)
    return rows


def _view_chains(graph: Graph) -> list[list[NodeId]]:
    """Views that outputs are rebuilt from, those over one base together."""
    chains: dict[NodeId | None, list[NodeId]] = {}
    for op in graph.ops():
        if not isinstance(graph.what(op), core.Input | core.Return) and is_view(graph, op):
            chains.setdefault(graph.block_of(graph.results(op)[0]), []).append(op)
    return list(chains.values())


def _add_boundaries(graph: Graph, draft: Draft, homes: Homes) -> set[tuple[NodeId, NodeId]]:
    """An edge for every tensor that one segment writes and a later one reads, with why the two are not one."""
    crossed: set[tuple[NodeId, NodeId]] = set()
    for first, then, ordering in graph.orderings():
        if "RAW" not in ordering.kinds:
            continue
        written = {graph.block_of(t) for t in _written(graph, first)}
        crossing = next((t for t in graph.operands(then) if graph.block_of(t) in written), None)
        for a in homes.get(first, ()):
            for b in homes.get(then, ()):
                if a != b and crossing is not None:
                    reason = reasons.must_follow(graph, Bar(first, then))
                    draft.add_boundary(a, b, crossing, Boundary(graph.layout(crossing).nbytes), because=reason)
                    crossed.add((a, b))
    return crossed


def _written(graph: Graph, op: NodeId) -> list[NodeId]:
    return [graph.operands(op)[w] for w in graph.op(op).writes] + list(graph.results(op))


def _note_repeated(graph: Graph, draft: Draft, homes: Homes) -> None:
    """Values that several kernels compute, each for itself."""
    for op in graph.ops():
        found = homes.get(op, ())
        if len(found) > 1 and not isinstance(graph.what(op), CHEAP):
            draft.note(found, Reason.of("computed-again", op=reasons.short(graph, op)), (op,))
