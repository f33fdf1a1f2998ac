"""Values put in memory for what reads them: where a person wants a boundary, and where no kernel computes it all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from fusekit.errors import FusekitError
from fusekit.ids import NodeId
from fusekit.ir import Graph, core
from fusekit.passes.base import is_value_op
from fusekit.passes.crossing import store_once
from fusekit.passes.segments.judge import Judge, Ops
from fusekit.passes.segments.reach import Groups
from fusekit.passes.segments.turned import turned
from fusekit.passes.segments.units import Unit, order_of, units_of
from fusekit.why import Reason

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
        if op not in graph and isinstance(made.what(op), core.Store):
            draft.replace(op, replace(made.op(op), what=core.Store(because=because)))
    return draft.finish().graph


# ---- what no kernel holds -----------------------------------------------------------------------------------------


def with_loops(graph: Graph, refused: Mapping[Ops, Reason]) -> Graph:
    """A store whose reductions and elements have no nest of loops in common runs over the space of what it permutes,
    or reads the result of a reduction; so do stores that wait for one another, which only one launch can do.

    ``refused``: sets of ops that have such a nest, of which no schedule lowers."""
    judge, units = Judge(graph, refused), units_of(graph)
    for some in _launches(graph, units):
        needs = _needs(some)
        if judge.refusal(needs) is not None:
            elsewhere = _needs(u for u in units if u not in some)
            over_another = turned(graph, some[0].root) if len(some) == 1 else ()
            others = chain(over_another, _without_a_fold(graph, needs, elsewhere))
            found = next((g for g in others if _all_nest(g, graph, some)), None)
            if found is not None:
                return with_loops(found, refused)
    return graph


def _launches(graph: Graph, units: list[Unit]) -> Iterator[tuple[Unit, ...]]:
    """Stores that go in a circle, then each by itself: what is one launch whatever is decided."""
    if any(isinstance(graph.what(op), core.Reduce) for op in graph.ops()):
        circles = (tuple(units[k] for k in one) for one in Groups(len(units), order_of(graph, units)).circles)
        yield from (some for some in circles if all(unit.kind == "store" for unit in some))
    yield from ((unit,) for unit in units if unit.kind == "store")


def _needs(units: Iterable[Unit]) -> frozenset[NodeId]:
    return frozenset[NodeId]().union(*(unit.needs for unit in units))


def _without_a_fold(graph: Graph, needs: frozenset[NodeId], elsewhere: frozenset[NodeId]) -> Iterator[Graph]:
    """With the result of one reduction in memory, the last one first; with all of them."""
    folds = sorted((op for op in needs if isinstance(graph.what(op), core.Reduce)), key=graph.position, reverse=True)
    because = "no nest of loops holds it and what reads it"
    for chosen in (*([op] for op in folds), folds if len(folds) > 1 else ()):
        values = [graph.results(op)[0] for op in chosen]
        if values:
            apart, reads = own_users(graph, frozenset(values), needs, elsewhere)
            yield without_dead(stored(apart, reads, because))


def own_users(
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


def _all_nest(made: Graph, before: Graph, some: Collection[Unit]) -> bool:
    """Have the units together, and each store that is new, loops of their own?"""
    judge, roots = Judge(made), {unit.root for unit in some}
    stores = [u for u in units_of(made) if u.kind == "store"]
    new = [u.needs for u in stores if u.root not in before]
    together = _needs(u for u in stores if u.root in roots)
    return all(judge.refusal(needs) is None for needs in (together, *new))


def without_dead(graph: Graph) -> Graph:
    """Less the values that nothing takes any more."""
    draft, gone = graph.draft("segment"), set[NodeId]()
    for op in reversed(graph.ops()):
        if is_value_op(graph, op) and all(gone.issuperset(graph.users(t)) for t in graph.results(op)):
            gone.add(op)
            draft.remove(op)
            for t in graph.results(op):
                draft.remove(t)
    return draft.finish().graph if gone else graph
