"""What a page shows, as plain data: steps, reasons, sources, kernels, and which line belongs to which node.

A page only looks things up in it. Pictures are not part of it: they are many, and each is asked for when it is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass

from fusekit.draw import VIEWS
from fusekit.draw.words import bytes_text, plural, shape_text
from fusekit.errors import FusekitError
from fusekit.escape import shown
from fusekit.ids import BLOCK, ITERDOMAIN, OP, SEGMENT, TENSOR, NodeId, kind_of
from fusekit.ir import Graph, diff, print_graph
from fusekit.lower.record import race_record
from fusekit.notebook.cards import Seen, cards_of, title_of
from fusekit.notebook.explored import Explored, Segment, Step
from fusekit.notebook.pairs import Apart, Pair, apart, pairs
from fusekit.notebook.said import Said, race_rows, rows
from fusekit.notebook.source import Excerpt, Line, excerpts, ir_lines, kernel_lines, origins

WORDS = ((SEGMENT, "segment"), (OP, "op"), (BLOCK, "block"), (ITERDOMAIN, "axis"), (TENSOR, "tensor"))


@dataclass(frozen=True, slots=True)
class Change:
    """A node, or an ordering of two ops, that differs from the step before: ``mark`` is added, removed or changed."""

    mark: str
    nodes: tuple[NodeId, ...]
    title: str


@dataclass(frozen=True, slots=True)
class Counts:
    """How many nodes differ from the step before; orderings are not nodes."""

    added: int
    removed: int
    changed: int


@dataclass(frozen=True, slots=True)
class StepShown:
    """One step. ``delta``: the counts in words. ``views``: those its graph has; ``best``: the one to begin with."""

    name: str
    seconds: float
    counts: Counts
    delta: str
    views: tuple[str, ...]
    best: str
    ops: tuple[NodeId, ...]
    said: tuple[Said, ...]
    changes: tuple[Change, ...]
    text: tuple[Line, ...]
    merges: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class SegmentShown:
    """One segment in launch order, with its kernel's source where there is one; else ``note`` says what runs.

    ``races``: the record of its kernel, which load meets which store and what protects it.
    """

    id: NodeId
    title: str
    name: str
    note: str
    nodes: tuple[NodeId, ...]
    lines: tuple[Line, ...]
    races: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """Everything that is shown of one exploration. ``summary``: (name, value, share of the bar or -1); ``apart``: why
    any two segments are two; ``decisions``: what ``what_if`` forced, in words."""

    program: str
    signature: str
    sources: tuple[Excerpt, ...]
    steps: tuple[StepShown, ...]
    segments: tuple[SegmentShown, ...]
    summary: tuple[tuple[str, str, float], ...]
    nodes: dict[NodeId, tuple[Seen, ...]]
    problem: str = ""
    apart: tuple[Apart, ...] = ()
    decisions: tuple[str, ...] = ()


def document(x: Explored) -> Document:
    """The document of an exploration. Compiles and runs nothing; what cannot be told stands in ``problem``."""
    graphs = tuple(step.graph for step in x.steps)
    from_lines = origins(graphs)
    sources = excerpts(x.fn, from_lines)
    segments: tuple[SegmentShown, ...] = ()
    summary: tuple[tuple[str, str, float], ...] = ()
    two: tuple[Apart, ...] = ()
    problem = ""
    try:
        segments = tuple(_segment(graphs[-1], segment) for segment in x.segments)
        summary = _summary(x)
        two = tuple(apart(x, graphs[-1]))
    except FusekitError as error:
        problem = f"{type(error).__name__}: {error}"
    names = {segment.id: _short(segment.name) for segment in segments}
    steps = tuple(_step(x.steps, k, tuple(from_lines), names) for k in range(len(x.steps)))
    decisions = tuple(getattr(x, "decisions", ()))
    signature = _signature(x.name, graphs[0]) + "".join(f", what if {one}" for one in decisions)
    nodes = cards_of(graphs)
    return Document(x.name, signature, sources, steps, segments, summary, nodes, problem, two, decisions)


def plain(value: object) -> object:
    """Dataclasses as dicts, tuples as lists, strings as a page can have them: what JSON holds."""
    if isinstance(value, str):
        return shown(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {shown(k): plain(v) for k, v in value.items()}
    return value


def _signature(name: str, graph: Graph) -> str:
    homes = ((t, graph.block_of(t)) for t in graph.inputs())
    arguments = [t for t, block in homes if block is not None and graph.block(block).kind == "argument"]
    takes = ", ".join(graph.tensor(t).name or t[1:] for t in arguments)
    return f"{name}({takes if len(takes) <= 60 else takes[:59] + '…'})"


# ---- steps --------------------------------------------------------------------------------------------------------


def _step(steps: tuple[Step, ...], k: int, files: tuple[str, ...], names: Mapping[NodeId, str]) -> StepShown:
    step, before = steps[k], steps[k - 1].graph if k else None
    graph = step.graph
    changes = tuple(_changes(before, graph)) if before is not None else ()
    count = Counter(change.mark for change in changes if len(change.nodes) == 1)
    views = tuple(view for view in VIEWS if _has_view(graph, view))
    return StepShown(
        step.name,
        step.seconds,
        Counts(count["added"], count["removed"], count["changed"]),
        _delta(before, graph, changes),
        views,
        "segments" if "segments" in views else "program",
        graph.ops(),
        tuple(rows(step.explanations, graph, before)),
        changes,
        ir_lines(print_graph(graph, step.explanations), graph, files),
        tuple(pairs(getattr(step, "merges", ()), steps[-1].graph, names)),
    )


def _has_view(graph: Graph, view: str) -> bool:
    needs = {"segments": graph.segments, "aliases": graph.blocks, "memory": graph.blocks, "domains": graph.iter_domains}
    return bool(needs[view]()) if view in needs else True


def _changes(before: Graph, after: Graph) -> Iterator[Change]:
    found = diff(before, after)
    for mark, nodes, graph in (
        ("added", found.added, after),
        ("removed", found.removed, before),
        ("changed", found.changed, after),
    ):
        yield from (Change(mark, (node,), title_of(graph, node)) for node in nodes)
    old, new = ({(a, b): order for a, b, order in graph.orderings()} for graph in (before, after))
    for mark, these, other in (("added", new, old), ("removed", old, new)):
        yield from (Change(mark, pair, " ".join(order.kinds)) for pair, order in these.items() if pair not in other)


def _delta(before: Graph | None, graph: Graph, changes: tuple[Change, ...]) -> str:
    """``+1 segment``, ``+5 ops −2 blocks``; tensors and changed nodes only where nothing else tells."""
    if before is None:
        return f"{plural(len(graph.ops()), 'op')}, {plural(len(graph.tensors()), 'tensor')}"
    count = Counter((kind_of(c.nodes[0]) if len(c.nodes) == 1 else "", c.mark) for c in changes)
    words = [
        f"{sign}{_plural(count[kind, mark], word)}"
        for kind, word in (*WORDS[:-1], ("", "ordering"))
        for mark, sign in (("added", "+"), ("removed", "−"))
        if count[kind, mark]
    ]
    if not words and changes:
        words.append(f"{len(changes)} nodes differ" if len(changes) > 1 else "1 node differs")
    return " ".join(words[:3]) or "no change"


def _plural(count: int, word: str) -> str:
    return f"{count} axes" if word == "axis" and count > 1 else plural(count, word)


# ---- segments and summary -----------------------------------------------------------------------------------------


def _segment(graph: Graph, segment: Segment) -> SegmentShown:
    kernel, title = segment.kernel, title_of(graph, segment.id)
    if kernel is None:
        return SegmentShown(segment.id, title, _runs(graph, segment), _note(segment), segment.ops, (), ())
    lines = kernel_lines(kernel.source, dict(kernel.lines))
    space = f"{segment.scheduler} over {shape_text(segment.space)}"
    races = tuple(race_rows(race_record(graph, segment.id, kernel.races), graph))
    return SegmentShown(segment.id, title, kernel.name, space, segment.ops, lines, races)


def _short(name: str) -> str:
    """``exp_sum`` of the kernel ``fk_exp_sum``, ``mm`` of ``aten.mm.default``."""
    return name.split(".")[1] if name.count(".") == 2 else name.removeprefix("fk_")


def _runs(graph: Graph, segment: Segment) -> str:
    if segment.scheduler == "alias" or not segment.ops:
        return "nothing launched"
    return graph.op(segment.ops[0]).target if segment.scheduler == "extern" else "op by op"


def _note(segment: Segment) -> str:
    if segment.refused:
        return f"no kernel: {segment.refused}"
    words = {"alias": "only views of what is there: nothing is launched", "extern": "a library call: no source is made"}
    return words.get(segment.scheduler, "no kernel")


def _summary(x: Explored) -> tuple[tuple[str, str, float], ...]:
    found = x.summary()
    least, moved = found.bytes_least, found.bytes_moved
    share = round(min(1.0, least / moved), 4) if moved else 1.0
    return (
        ("kernels", f"{found.kernels:,}", -1),
        ("copies", f"{found.copies:,}", -1),
        ("library calls", f"{found.extern_calls:,}", -1),
        ("bytes moved / least", f"{bytes_text(moved)} / {bytes_text(least)}", share),
        ("new memory at most", bytes_text(found.peak_bytes), -1),
    )
