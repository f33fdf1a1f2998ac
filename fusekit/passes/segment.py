"""segment: which ops run together, in which order of launches.

Stores that follow one another without a read of what they wrote form a run; a library call ends a run. Within a run,
stores that share a value or memory become one pointwise segment (the race record of its kernel keeps it right), and so
do unrelated ones over one iteration space. Library calls are segments of their own; views that outputs are rebuilt
from are alias segments, which launch nothing. Segments keep the program's order, so no cycle can arise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import ClassVar

from fusekit.ids import NodeId
from fusekit.ir import (
    INPUT,
    RETURN,
    SEGMENTED,
    UNSEGMENTED,
    Boundary,
    Draft,
    Graph,
    Invariant,
    PassResult,
    Segment,
)
from fusekit.passes.base import is_view
from fusekit.passes.lookups import CHECK
from fusekit.schedule import cannot_nest, reference_among
from fusekit.why import Reason


@dataclass(eq=False)
class _Group:
    """Stores of one kernel, with the ops that their values need; the ``space`` that it runs over, and ``reduced``, the
    dimensions of it that are folded. ``folds``: does it hold a reduction?"""

    stores: list[NodeId]
    needs: dict[NodeId, None]
    space: tuple[int, ...]
    reduced: frozenset[int] = frozenset()
    folds: bool = False
    because: Reason | None = None


REDUCE = "fk.reduce"
Tie = Callable[[Graph, _Group], Iterator[object]]
"""Marks of a group: two groups with an equal mark belong together."""


@dataclass(frozen=True)
class SegmentOps:
    """``values``: the most ops of one kernel that are joined only because their iteration space or values agree."""

    name: ClassVar[str] = "segment"
    expects: ClassVar[tuple[Invariant, ...]] = UNSEGMENTED
    ensures: ClassVar[tuple[Invariant, ...]] = SEGMENTED
    values: int = 400
    unrelated: int = 64
    together: tuple[tuple[NodeId, ...], ...] = ()
    apart: tuple[tuple[NodeId, ...], ...] = ()
    cuts: tuple[NodeId, ...] = ()
    order: tuple[tuple[NodeId, ...], ...] = ()

    def __call__(self, graph: Graph) -> PassResult:
        draft = graph.draft(self.name)
        checks: list[NodeId] = []  # looks at indices, which the next kernel takes along
        for unit in _units(graph):
            if isinstance(unit, list):
                self._run(graph, draft, unit, checks)
                checks = []
            elif graph.op(unit).target == CHECK:
                checks.append(unit)
            else:
                _calls(graph, draft, [*checks, unit])
                checks = []
        _calls(graph, draft, checks)
        for chain in _view_chains(graph):
            draft.add_segment(Segment("alias"), chain, because=Reason.of("alias-only"))
        segmented = draft.finish().graph
        _add_boundaries(segmented, draft)
        _note_repeated(segmented, draft)
        return draft.finish(self.ensures)

    def _run(self, graph: Graph, draft: Draft, run: list[NodeId], checks: list[NodeId]) -> None:
        """The segments of one run, and why neighbours among them are two. The first looks at indices before it stores.

        (Indices that it writes itself are looked at in a call of their own: a GPU's blocks do not wait for one another.)
        """
        groups, refusals = self._groups(graph, run)
        written = {graph.block_of(graph.operands(store)[1]) for store in groups[0].stores}
        own = [op for op in checks if graph.block_of(graph.operands(op)[0]) not in written]
        _calls(graph, draft, [op for op in checks if op not in own])
        made: list[NodeId] = []
        for group in groups:
            leading = own if group is groups[0] else ()
            members = [op for op in graph.ops() if op in group.needs or op in leading]
            made.append(draft.add_segment(Segment("pointwise", group.space), members, because=group.because))
        for pair, refusal in zip(pairwise(made), refusals, strict=True):
            draft.decline(pair, refusal)

    def _groups(self, graph: Graph, run: list[NodeId]) -> tuple[list[_Group], list[Reason]]:
        groups = [_group(graph, store) for store in run]
        written = {graph.block_of(graph.operands(store)[1]) for store in run}

        def hazard(graph: Graph, group: _Group) -> Iterator[object]:
            return (block for block in _touched(graph, group) if block in written)

        joiner = _Joiner(graph)
        groups = joiner.join(groups, hazard, Reason.of("shares-memory"), None)
        groups = joiner.join(groups, _shared_values, Reason.of("shares-values"), self.values)
        groups = joiner.join(groups, _same_space, Reason.of("same-space"), self.unrelated)
        groups = in_order(graph, joiner.single_elements(groups))
        for group in groups:
            why = group.because or Reason.of("shares-values")
            group.because = Reason.of("one-kernel", space=str(list(group.space)), because=str(why))
        return groups, [self._refusal(joiner, a, b) for a, b in pairwise(groups)]

    def _refusal(self, joiner: _Joiner, a: _Group, b: _Group) -> Reason:
        if (refused := joiner.refusal(a, b)) is not None:
            return refused
        if a.space != b.space:
            return Reason.of("space-differs", first=str(list(a.space)), second=str(list(b.space)))
        if a.reduced != b.reduced:
            return Reason.of("reductions-differ", first=str(sorted(a.reduced)), second=str(sorted(b.reduced)))
        return Reason.of("too-large", values=len(a.needs.keys() | b.needs.keys()), limit=self.unrelated)


def _calls(graph: Graph, draft: Draft, ops: list[NodeId]) -> None:
    for op in ops:
        draft.add_segment(Segment("extern"), [op], because=Reason.of("extern-call", op=_short(graph, op)))


@dataclass
class _Joiner:
    """Makes one group of several, where one nest of loops holds them."""

    graph: Graph
    asked: dict[frozenset[NodeId], Reason | None] = field(default_factory=dict[frozenset[NodeId], "Reason | None"])

    def refusal(self, a: _Group, b: _Group) -> Reason | None:
        """Why no nest of loops holds both; what holds no reduction always has one."""
        if not (a.folds or b.folds):
            return None
        ops = frozenset(a.needs) | frozenset(b.needs)
        if ops not in self.asked:
            self.asked[ops] = cannot_nest(self.graph, sorted(ops, key=self.graph.position))
        return self.asked[ops]

    def join(self, groups: list[_Group], tie: Tie, why: Reason, limit: int | None) -> list[_Group]:
        """Groups that the tie connects become one, in order, while the limit on their ops allows."""
        kept: list[_Group] = []
        owners: dict[object, list[_Group]] = {}
        for group in groups:
            marks = list(dict.fromkeys(tie(self.graph, group)))
            homes = list({id(o): o for m in marks for o in owners.get(m, ())}.values())
            for home in homes:
                if limit is not None and len(home.needs.keys() | group.needs.keys()) > limit:
                    continue
                if self.refusal(home, group) is not None:
                    continue
                group = _both(self.graph, home, group, why)
                kept.remove(home)
                marks += [m for m, found in owners.items() if home in found and m not in marks]
                for found in owners.values():
                    if home in found:
                        found.remove(home)
            kept.append(group)
            for mark in marks:
                owners.setdefault(mark, []).append(group)
        return kept

    def single_elements(self, groups: list[_Group]) -> list[_Group]:
        """A group that computes one element, and folds nothing, goes along with its neighbour."""
        kept: list[_Group] = []
        for group in groups:
            if kept and (_is_single(kept[-1]) or _is_single(group)) and self.refusal(kept[-1], group) is None:
                kept[-1] = _both(self.graph, kept[-1], group, Reason.of("one-element"))
            else:
                kept.append(group)
        return kept


def _both(graph: Graph, a: _Group, b: _Group, why: Reason) -> _Group:
    return _make(graph, a.stores + b.stores, {**a.needs, **b.needs}, why)


def _is_single(group: _Group) -> bool:
    return prod(group.space) == 1 and not group.folds


def in_order(graph: Graph, groups: list[_Group]) -> list[_Group]:
    """Groups that read what others write in front of those; where each reads what the other writes, one group.

    (No kernel holds that one: it runs op by op.)
    """
    left, done = list(groups), list[_Group]()
    while left:
        ready = next((g for g in left if not any(_overwrites(graph, g, o) for o in left if o is not g)), None)
        if ready is None:
            first, second = left[0], next(o for o in left[1:] if _overwrites(graph, left[0], o))
            left[0] = _both(graph, first, second, Reason.of("shares-values"))
            left.remove(second)
            continue
        left.remove(ready)
        done.append(ready)
    return done


def _overwrites(graph: Graph, group: _Group, other: _Group) -> bool:
    """Does the group write memory that the other one reads?"""
    written = {graph.block_of(graph.operands(store)[1]) for store in group.stores}
    read = {graph.block_of(graph.operands(op)[0]) for op in other.needs if graph.op(op).target == "fk.load"}
    return not written.isdisjoint(read)


def _units(graph: Graph) -> Iterator[NodeId | list[NodeId]]:
    """Library calls, and runs of stores that one launch may hold, in program order.

    The stores of one flush hold values of the memory before all of them, so they are never parted: a flush of which
    one store reads, or writes again, what the run wrote starts a run of its own.
    """
    after: dict[NodeId, set[NodeId]] = {}
    for first, then, ordering in graph.orderings():
        if graph.op(first).target == "fk.store" and ordering.kinds != ("WAR",):
            after.setdefault(then, set()).add(first)
    flushes: dict[object, list[NodeId]] = {}
    for op in graph.ops():
        if graph.op(op).target == "fk.store":
            flushes.setdefault(_flush_of(graph, op), []).append(op)
    run: list[NodeId] = []
    late: set[NodeId] = set()  # value ops that hang on what the run wrote
    for op in graph.ops():
        if graph.op(op).target in (INPUT, RETURN) or is_view(graph, op) or op in run:
            continue
        if graph.op(op).target == "fk.store":
            stores = flushes[_flush_of(graph, op)]
            if any(_hangs_on(graph, store, run, late, after) for store in stores):
                yield run
                run, late = [], set()
            run += stores
        elif _is_value_op(graph, op):
            if _hangs_on(graph, op, run, late, after):
                late.add(op)
        else:
            if run:
                yield run
            run, late = [], set()
            yield op
    if run:
        yield run


def _flush_of(graph: Graph, store: NodeId) -> object:
    return graph.op(store).kwarg("flush", store)


def _hangs_on(graph: Graph, op: NodeId, run: list[NodeId], late: set[NodeId], after: dict[NodeId, set[NodeId]]) -> bool:
    """Must the op follow a store of the run, or does it use a value that must?"""
    if not after.get(op, set()).isdisjoint(run):
        return True
    return any(graph.has_producer(t) and graph.producer(t) in late for t in graph.operands(op))


def _is_value_op(graph: Graph, op: NodeId) -> bool:
    return bool(graph.results(op)) and all(graph.is_value(t) for t in graph.results(op))


def _make(graph: Graph, stores: list[NodeId], needs: dict[NodeId, None], why: Reason | None) -> _Group:
    """A group; its space is that of the loops that it would have."""
    roots = [*(op for op in needs if graph.op(op).target == REDUCE), *stores]
    reference = reference_among(graph, roots)
    assert reference is not None, "a group stores something"
    folds = len(roots) > len(stores)
    return _Group(stores, needs, reference.shape, reference.reduced, folds, why)


def _group(graph: Graph, store: NodeId) -> _Group:
    needs: dict[NodeId, None] = {store: None}
    todo = [graph.operands(store)[0]]
    while todo:
        op = graph.producer(todo.pop())
        if op not in needs:
            needs[op] = None
            todo += [t for t in graph.operands(op) if graph.is_value(t)]
    return _make(graph, [store], needs, None)


def _touched(graph: Graph, group: _Group) -> Iterator[NodeId | None]:
    """Blocks that the group reads or writes."""
    for op in group.needs:
        if graph.op(op).target in ("fk.store", "fk.load"):
            yield graph.block_of(graph.operands(op)[-1])


def _shared_values(graph: Graph, group: _Group) -> Iterator[object]:
    return (op for op in group.needs if graph.op(op).target not in ("fk.store", "fk.fill"))


def _same_space(graph: Graph, group: _Group) -> Iterator[object]:
    yield group.space, group.reduced


def _view_chains(graph: Graph) -> list[list[NodeId]]:
    """Views that outputs are rebuilt from, those over one base together."""
    chains: dict[NodeId | None, list[NodeId]] = {}
    for op in graph.ops():
        if graph.op(op).target not in (INPUT, RETURN) and is_view(graph, op):
            chains.setdefault(graph.block_of(graph.results(op)[0]), []).append(op)
    return list(chains.values())


def _add_boundaries(graph: Graph, draft: Draft) -> None:
    """An edge for every tensor that one segment writes and a later one reads, with why the two are not one."""
    for first, then, ordering in graph.orderings():
        if "RAW" not in ordering.kinds:
            continue
        written = {graph.block_of(t) for t in _written(graph, first)}
        crossing = next((t for t in graph.operands(then) if graph.block_of(t) in written), None)
        for a in graph.segments_of(first):
            for b in graph.segments_of(then):
                if a != b and crossing is not None:
                    reason = _why_apart(graph, first, a, b)
                    draft.add_boundary(a, b, crossing, Boundary(graph.layout(crossing).nbytes), because=reason)


def _note_repeated(graph: Graph, draft: Draft) -> None:
    """Values that several kernels compute, each for itself."""
    for op in graph.ops():
        homes = graph.segments_of(op)
        if len(homes) > 1 and graph.op(op).target not in ("fk.load", "fk.fill", "fk.window", "fk.cast"):
            draft.note(homes, Reason.of("computed-again", op=_short(graph, op)), (op,))


def _written(graph: Graph, op: NodeId) -> list[NodeId]:
    return [graph.operands(op)[w] for w in graph.op(op).writes] + list(graph.results(op))


def _short(graph: Graph, op: NodeId) -> str:
    """``native_group_norm`` of ``aten.native_group_norm.default``."""
    return graph.op(op).target.split(".")[1]


def _why_apart(graph: Graph, op: NodeId, a: NodeId, b: NodeId) -> Reason:
    calls = [graph.members(s)[0] for s in (a, b) if graph.segment(s).scheduler == "extern"]
    if calls:
        return Reason.of("extern-call", op=_short(graph, calls[0]))
    why = str(graph.op(op).kwarg("because", "it is read again"))
    return Reason.of("must-follow", block=str(graph.block_of(_written(graph, op)[0])), because=why)
