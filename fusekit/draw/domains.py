"""The view "domains" as data: a ladder of axes for the reference of a segment, and for a tensor with an allocation.

Root and logical are one column; loop and allocation are two forks that both start at logical. ``ladders`` draws them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from fusekit.domains import (
    Allocation,
    Expr,
    LoopDomain,
    Reference,
    accesses,
    read_allocation,
    read_loops,
    reference_of,
)
from fusekit.domains.store import read_ids
from fusekit.draw.notes import Notes
from fusekit.draw.words import op_title, plural, segment_text, shape_text, type_text
from fusekit.errors import UnsupportedError
from fusekit.ids import NodeId
from fusekit.index import Form, loop_vars, print_form
from fusekit.ir import AlignedSplit, Graph, IterDomain, Kind, Merge, Parallel

CHIPS = {Parallel.VECTORIZE: "≡ vector"}
MOST = 6  # segments in one picture


@dataclass(frozen=True, slots=True)
class Bar:
    """An axis. ``key`` is unique in a side; ``node`` is the iteration domain; ``lanes``: it runs as a vector."""

    key: str
    node: str
    name: str
    extent: int
    reduced: bool = False
    chip: str = ""
    lanes: bool = False
    mark: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Joint:
    """A transform between axes, by their keys; ``reads`` are axes that it looks at and leaves."""

    node: str
    text: str
    takes: tuple[str, ...]
    makes: tuple[str, ...]
    reads: tuple[str, ...] = ()
    mark: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """One fork: ``start`` (the logical axes), what ``joints`` make of them, and ``end``, in order.

    ``gone``: keys of start axes that end in nothing, with what to say. ``loose``: (start, end) that hang together only
    through an index. ``words``: lines under the fork.
    """

    start: tuple[Bar, ...]
    joints: tuple[Joint, ...] = ()
    middle: tuple[Bar, ...] = ()
    end: tuple[Bar, ...] = ()
    gone: tuple[tuple[str, str], ...] = ()
    loose: tuple[tuple[str, str], ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ladder:
    """``node``: the segment or tensor; ``chain`` the schedule as printed. ``head`` leads from root to logical."""

    node: str
    segment: str
    title: str
    chain: str
    head: Side
    loop: Side
    allocation: Side
    tip: str = ""


def ladders_of(graph: Graph, notes: Notes, segment: str | None) -> tuple[list[Ladder], str]:
    """(ladders, what is not shown). Raises UnsupportedError where there is no such segment."""
    names = graph.segments()
    if segment is not None and segment not in names:
        raise UnsupportedError(
            f"there is no segment {segment!r}", None, f"segments are {', '.join(names) or 'not made'}"
        )
    wanted = [s for s in names if segment in (None, s) and _has_ladder(graph, s)]
    shown = [ladder for s in wanted[:MOST] for ladder in _of_segment(graph, notes, s)]
    if len(wanted) > MOST:
        return shown, f"the first {MOST} of {plural(len(wanted), 'segment')}; choose one with segment={wanted[MOST]!r}"
    if shown:
        return shown, ""
    return [], _why_none(graph, notes, [s for s in names if segment in (None, s)], segment is not None)


def _why_none(graph: Graph, notes: Notes, segments: list[NodeId], asked: bool) -> str:
    """What the schedule pass said of segments without loops; before it there is nothing to say."""
    said = [(s, reasons[-1]) for s in segments if (reasons := notes.reasons(s))]
    for s in segments if asked else ():
        if (scheduler := graph.segment(s).scheduler) in ("alias", "extern"):
            return f"{s} has no loops: {scheduler} launches no generated kernel"
    if scheduled := [f"{s} has no loops: {reason}" for s, reason in said if reason.startswith("schedule: ")]:
        return "; ".join(scheduled[:MOST])
    return "no domains: they are there after the pass schedule, for segments that become kernels"


def _has_ladder(graph: Graph, segment: NodeId) -> bool:
    return any(owner_segment == segment for _, owner_segment in graph.domain_owners())


def _of_segment(graph: Graph, notes: Notes, segment: NodeId) -> Iterator[Ladder]:
    reference, loop = reference_of(graph, segment), read_loops(graph, segment)
    if reference is not None and loop is not None:
        yield _reference_ladder(graph, notes, segment, reference, loop)
    for owner, where in graph.domain_owners():
        if where == segment and owner != segment and (found := read_allocation(graph, owner, segment)):
            yield _tensor_ladder(graph, notes, segment, owner, found, reference, loop)


# ---- the reference of a segment -----------------------------------------------------------------------------------


def _reference_ladder(graph: Graph, notes: Notes, segment: NodeId, reference: Reference, loop: LoopDomain) -> Ladder:
    bars = _Bars(graph, notes, segment, dict(loop.graph.ids))
    tensor = graph.tensor(graph.operands(reference.root)[0])
    root = reference.root
    what = f"the {op_title(graph, root) if reference.reduced else f'store to {_stored(graph, root)}'}"
    payload = graph.segment(segment)
    title = f"{segment_text(segment)}   {payload.taken_by}   {tensor.dtype}{shape_text(tensor.shape)}"
    explicit = graph.domain(segment)
    head = _head(graph, bars, explicit.root, loop.logical)
    side = replace(_side(bars, loop.logical, loop.graph.exprs, loop.axes), words=tuple(_loop_words(loop)))
    allocation = _reference_allocation(graph, bars, reference, loop)
    return Ladder(
        segment, segment, f"{title}: {what} that the loops run over", payload.schedule, head, side, allocation,
        notes.tip(f"{segment} runs over {reference.root}", about=(segment, reference.root)),
    )  # fmt: skip


def _stored(graph: Graph, store: NodeId) -> str:
    place = graph.operands(store)[1]
    return graph.tensor(place).name or place[1:]


def _reference_allocation(graph: Graph, bars: _Bars, reference: Reference, loop: LoopDomain) -> Side:
    """A store goes where the layout of its place says; the result of a fold is a value of the axes that it keeps."""
    start = tuple(bars.bar(i, "start") for i in loop.logical)
    if reference.reduced:
        kept = [loop.logical[k] for k in reference.kept]
        gone = tuple(
            (f"start{i}", f"{bars.name(i)} is folded:\nnothing to store") for i in loop.logical if i not in kept
        )
        end = tuple(bars.bar(i, "end") for i in kept)
        return Side(start, (), (), end, gone, words=("a value: it lives in registers",))
    layout = graph.layout(graph.operands(reference.root)[1])
    width = layout.dtype.width
    pairs = sorted(zip(loop.logical, layout.strides, strict=True), key=lambda pair: -abs(pair[1]))
    end = tuple(replace(bars.bar(i, "end"), chip=f"stride {s // width}") for i, s in pairs)
    own = loop_vars(layout.shape)
    address = layout.offset + sum((form * stride for form, stride in zip(own, layout.strides, strict=True)), Form())
    return Side(start, (), (), end, words=(f"byte = {_text(address)}",))


# ---- a tensor with an allocation of its own -----------------------------------------------------------------------


def _tensor_ladder(
    graph: Graph,
    notes: Notes,
    segment: NodeId,
    owner: NodeId,
    found: Allocation,
    reference: Reference | None,
    loop: LoopDomain | None,
) -> Ladder:
    tensor, axes = graph.tensor(owner), found.axes
    bars = _Bars(graph, notes, segment, dict(axes.graph.ids), owner)
    shape = f"[{', '.join(f'{bars.name(i)} {n}' for i, n in zip(axes.axes, axes.extents, strict=True))}]"
    title = f"{segment_text(segment)}   {tensor.name or owner[1:]}   {type_text(tensor)} with allocation {shape}"
    side = _side(bars, axes.logical, axes.graph.exprs, axes.axes, chips=False)
    strides = dict(zip(axes.axes, zip(found.strides, found.contiguity, strict=True), strict=True))
    end = tuple(
        replace(bar, chip=_stride(axes.graph.ids[NodeId(bar.node)], *strides[NodeId(bar.node)])) for bar in side.end
    )
    own = loop_vars(axes.shape)
    forms = [f"{bars.name(i)} = {_text(form)}" for i, form in zip(axes.axes, found.index(own), strict=True)]
    allocation = replace(side, end=end, words=(", ".join(forms), f"element = {_text(found.address(own))}"))
    head = _head(graph, bars, graph.domain(owner, segment).root, axes.logical)
    loops = _tensor_loops(graph, notes, segment, owner, bars, axes.logical, reference, loop)
    return Ladder(owner, segment, title, "", head, loops, allocation, notes.tip(owner, about=(owner,)))


def _stride(axis: IterDomain, stride: int, dense: bool) -> str:
    if axis.parallel is Parallel.DIDx:
        return axis.parallel.value
    return f"stride {stride}{'' if dense else ', gaps'}"


def _tensor_loops(
    graph: Graph,
    notes: Notes,
    segment: NodeId,
    owner: NodeId,
    bars: _Bars,
    logical: tuple[NodeId, ...],
    reference: Reference | None,
    loop: LoopDomain | None,
) -> Side:
    """The tensor's own loops where it has some; else those of the segment that its index needs."""
    own = graph.domain(owner, segment).loop
    start = tuple(bars.bar(i, "start") for i in logical)
    if own or reference is None or loop is None:
        if own:
            ids = read_ids(graph, own)
            return _side(_Bars(graph, notes, segment, dict(ids.ids), owner), logical, ids.exprs, own)
        return Side(
            start, end=tuple(bars.bar(i, "end", chip=True) for i in logical), words=("the loops are untouched",)
        )
    needed = accesses(graph, segment, reference, loop.index()).get(owner, [])
    theirs = _Bars(graph, notes, segment, dict(loop.graph.ids))
    if not needed:
        return Side(start, words=("no loop reaches it",))
    runs = loop.loops_of(form for index in needed for form in index)
    loose = tuple(
        (f"start{i}", f"end{run}") for i, form in zip(logical, needed[0], strict=True) for run in loop.loops_of([form])
    )
    text = ", ".join(f"{bars.name(i)} = {_text(form)}" for i, form in zip(logical, needed[0], strict=True))
    return Side(start, end=tuple(theirs.bar(i, "end", chip=True) for i in runs), loose=loose, words=(text,))


# ---- pieces -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bars:
    """Makes bars of iteration domains."""

    graph: Graph
    notes: Notes
    segment: NodeId
    ids: Mapping[NodeId, IterDomain]
    owner: str = ""

    def name(self, i: NodeId) -> str:
        """The id without what all ids of the segment (and tensor) start with."""
        rest = i[1:].removeprefix(f"{self.segment[1:]}.")
        return rest.removeprefix(f"{self.owner[1:]}.") if self.owner else rest

    def mark(self, node: NodeId) -> str:
        """Where the graph before had no domains at all, that all are new says nothing."""
        before = self.notes.before
        return self.notes.mark(node) if before is not None and before.iter_domains() else ""

    def bar(self, i: NodeId, where: str, chip: bool = False) -> Bar:
        payload = self.ids[i]
        parallel = payload.parallel
        facts = f"{i}: {plural(payload.extent, 'step')}, {payload.kind.value}"
        facts += f", {parallel.value}" if chip else ""
        return Bar(
            where + i, i, self.name(i), payload.extent, payload.kind is Kind.REDUCTION,
            CHIPS.get(parallel, parallel.value) if chip else "", chip and parallel is Parallel.VECTORIZE,
            self.mark(i), self.notes.tip(facts, about=(i,)),
        )  # fmt: skip


def _head(graph: Graph, bars: _Bars, root: tuple[NodeId, ...], logical: tuple[NodeId, ...]) -> Side:
    """From root to logical; where no view op defines the tensor, the two are the same axes."""
    if not root or root == logical:
        pair = [tuple(bars.bar(i, where) for i in logical) for where in ("start", "end")]
        return Side(pair[0], end=pair[1])
    ids = read_ids(graph, (*root, *logical))
    return _side(
        _Bars(graph, bars.notes, bars.segment, dict(ids.ids), bars.owner), root, ids.exprs, logical, chips=False
    )


def _side(
    bars: _Bars, start: Sequence[NodeId], exprs: Iterable[Expr], end: Sequence[NodeId], chips: bool = True
) -> Side:
    """What leads from the start axes to the end axes; transforms of others are left out."""
    known, joints, middle = set(start), list[Joint](), list[NodeId]()
    for expr in exprs:
        if not known >= set(expr.takes):
            continue
        known |= set(expr.makes)
        middle += expr.makes
        takes = expr.takes[: 2 if isinstance(expr.transform, Merge) else 1]
        reads = expr.takes[1:] if isinstance(expr.transform, AlignedSplit) else ()
        text, tip = _joint_text(bars, expr)
        node = bars.graph.producer(expr.makes[0])
        joints.append(Joint(node, text, takes, expr.makes, reads, bars.mark(node), tip))
    ends = tuple(bars.bar(i, "end", chip=chips) for i in end)
    return Side(
        tuple(bars.bar(i, "start") for i in start), tuple(joints), tuple(bars.bar(i, "made") for i in middle), ends
    )


def _joint_text(bars: _Bars, expr: Expr) -> tuple[str, str]:
    """(what stands on the joint, its tooltip)."""
    transform = expr.transform
    if isinstance(transform, Merge):
        return "merge", f"{' and '.join(map(bars.name, expr.takes))} as one axis, row-major"
    whole = bars.ids[expr.whole].extent
    padded = prod(bars.ids[i].extent for i in expr.parts) != whole
    bound = f"\nrounded up: {bars.name(expr.whole)} < {whole} is checked" if padded else ""
    if isinstance(transform, AlignedSplit):
        rows = f"pieces of {transform.factor} start at multiples of it, in rows {transform.pitch} elements apart"
        return f"split aligned {transform.factor}, checked", rows + bound
    side = "inner" if transform.inner else "outer"
    return (
        f"split, {side} {transform.factor}{', checked' if padded else ''}",
        f"{side} axis of {transform.factor}{bound}",
    )


def _loop_words(loop: LoopDomain) -> Iterator[str]:
    """The logical index at an iteration, and the bounds that stay to be checked."""
    names = {i: i.rpartition(".")[2].lstrip("#") for i in loop.logical}
    derived = loop.derive()
    for i, form in zip(loop.logical, derived.of(loop.logical), strict=True):
        yield f"{names[i]} = {_text(form)}"
    for guard in derived.bounds:
        yield f"checked: 0 <= {_text(guard.form)} < {guard.extent}"


def _text(form: Form) -> str:
    text = print_form(form).replace("*", "·").replace("//", " // ").replace("%", " % ")
    return text[1:-1] if _is_one_bracket(text) else text


def _is_one_bracket(text: str) -> bool:
    """Does the bracket that opens first close last?"""
    depth = 0
    for k, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if not depth:
            return c == ")" and k == len(text) - 1
    return False
