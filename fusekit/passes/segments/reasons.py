"""Reasons why two groups are two, each with the smallest change that would make them one."""

from __future__ import annotations

from fusekit.ids import NodeId
from fusekit.ir import Graph, core
from fusekit.passes.segments.groups import Group
from fusekit.passes.segments.units import Bar
from fusekit.why import Reason

# What a store says of the flush that made it -> what would have let it stay a value.
_CHANGES = {
    "the program asks": "without that fk.cut they could be one",
    "a library call": "a kernel in place of that library call would let the value stay in registers",
    "eager's result": "an op of its own for the result, not in place, would let it stay a value",
    "no closed relation": "a contiguous copy of one of the two views would give them a relation",
    "one element would need": "a larger budget (fusekit.passes.cost.PULLS) would let it be computed on the way",
    "a reduction would be": "a larger budget (fusekit.passes.cost.REPEATS) would let it be computed on the way",
    "it is stored once": "to compute it again would move more bytes",
    "no nest": "elements in the shape that the reduction folds would let them share loops",
    "what_if": "without that decision they could be one",
}


def short(graph: Graph, op: NodeId) -> str:
    """``native_group_norm`` of ``aten.native_group_norm.default``."""
    return graph.op(op).target.split(".")[1]


def extern_call(graph: Graph, op: NodeId) -> Reason:
    return Reason.of("extern-call", op=short(graph, op))


def must_follow(graph: Graph, bar: Bar) -> Reason:
    """Why an op must see what another one did in memory."""
    first, then = bar.first, bar.then
    if bar.because is not None:
        return bar.because
    written = {graph.block_of(graph.operands(first)[k]) for k in graph.op(first).writes}
    written |= {graph.block_of(t) for t in graph.results(first)}
    met = [b for t in graph.operands(then) if (b := graph.block_of(t)) is not None and b in written]
    calls = [op for op in (first, then) if not isinstance(graph.what(op), core.Load | core.Store)]
    if calls:
        return extern_call(graph, calls[0])
    if not met:
        return Reason.of("in-order", first=first, then=then)
    what = graph.what(first)
    because = (what.because if isinstance(what, core.Store) else None) or "it is read again"
    change = next((text for start, text in _CHANGES.items() if because.startswith(start)), "")
    return Reason.of("must-follow", block=met[0], because=f"{because}; {change}" if change else because)


def cycle(through: str, first: str, then: str, is_kernel: bool) -> Reason:
    """``through`` must run between the two."""
    change = (
        "with it in the same kernel they could be one"
        if is_kernel
        else "a kernel in place of that library call would let them"
    )
    return Reason.of("cycle", through=through, first=first, then=then, change=change)


def no_loops(one: Group, other: Group, because: Reason) -> Reason:
    """No nest of loops holds both: what each of them folds, and what would have to be alike."""
    text = str(because["because"])
    change = next((change for part, change in _LOOPS.items() if part in text), _LOOPS["outside of the loops"])
    return Reason.of("no-common-loops", because=text, first=_loops(one), second=_loops(other), change=change)


_LOOPS = {
    "more than the loops": "stores no larger than what the reductions fold would let them share loops",
    "is wanted at": "reading the result of the reduction at the index where it is made would let them share loops",
    "outside of the loops": "reducing the same dimensions of one shape would let them share loops",
}


def _loops(group: Group) -> str:
    if not group.folds:
        return f"runs over {list(group.space)} and folds nothing"
    dims = ", ".join(map(str, sorted(group.reduced)))
    return f"folds dims [{dims}] of {list(group.space)} ({len(group.folds)} reductions)"


def no_gain(one: Group, other: Group, limit: int) -> Reason:
    """One kernel of both would save nothing but a launch, and their loops differ."""
    if one.space != other.space:
        return Reason.of("space-differs", first=str(list(one.space)), second=str(list(other.space)))
    if one.reduced != other.reduced:
        return Reason.of("reductions-differ", first=str(sorted(one.reduced)), second=str(sorted(other.reduced)))
    count = len(one.ops | other.ops)
    if count > limit:
        return too_large(count, limit, "unrelated")
    return Reason.of("not-tried", saved=one.saves(other))


def too_large(count: int, limit: int, option: str) -> Reason:
    return Reason.of("too-large", values=count, limit=limit, option=option)
