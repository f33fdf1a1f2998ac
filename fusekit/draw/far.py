"""Far zoom: a segment, or a run of ops of one module or line, is one node; its ops are chips in program order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from fusekit.draw.notes import Notes, tensor_facts
from fusekit.draw.parts import Chip, Edge, Picture, Pill, Tab, Tile
from fusekit.draw.program import program_note
from fusekit.draw.segments import Kernels, boundary_tips, segment_tip, segments_note, tab_of
from fusekit.draw.words import letter_of, op_kind, op_title, plural, type_text
from fusekit.ids import NodeId
from fusekit.ir import Graph, core

LARGE, LARGE_SEGMENTS = 120, 60  # ops that are still drawn one by one, in a program and in segments
TILES = 160  # nodes at far zoom
CHIPS = 60  # of one tile
PILLS = 24  # inputs and outputs
QUIET = core.Load | core.Store | core.Input | core.Return


def is_large(graph: Graph, view: str) -> bool:
    """Is it better read at far zoom?"""
    return len(graph.ops()) > (LARGE_SEGMENTS if view == "segments" and graph.segments() else LARGE)


@dataclass(frozen=True)
class Run:
    """Some ops that one tile stands for; ``node`` is their segment, or the first op."""

    node: NodeId
    ops: tuple[NodeId, ...]
    tab: Tab
    launches: bool = True
    tip: str = ""


def far_picture(graph: Graph, notes: Notes, kernels: Kernels, title: str, note: str) -> Picture:
    runs = list(_by_segment(graph, notes, kernels) if graph.segments() else by_place(graph))
    home = {op: k for k, run in reversed(list(enumerate(runs))) for op in run.ops}  # of several, the first
    tiles = [_tile(graph, notes, run, k) for k, run in enumerate(runs)]
    inputs, outputs = _pills(graph, notes)
    edges = dict.fromkeys(_edges(graph, runs, home, inputs, outputs))
    spine = _longest_path([run.node for run in runs], edges)
    tips = boundary_tips(graph, notes)
    edges = [replace(e, weight=40) if (e.tail, e.head) in spine else e for e in edges]
    edges = [replace(e, tip=e.tip or tips.get((e.tail, e.head), "")) for e in edges]
    said = note or notes.summary(graph) or (segments_note(graph) if graph.segments() else program_note(graph, 0))
    hidden = len(graph.inputs()) - len(inputs)
    said += f"; {plural(hidden, 'input')} not drawn" if hidden else ""
    parts = (*inputs.values(), *tiles, *outputs.values())
    what = " ".join(
        f"{t.tab.id} {t.tab.scheduler}, {plural(len(r.ops), 'op')}." for t, r in zip(tiles, runs, strict=True)
    )
    return Picture(title, said, parts, tuple(edges), f"{title}. {said}. {what}")


def _longest_path(order: list[NodeId], edges: Iterable[Edge]) -> set[tuple[str, str]]:
    """The longest chain of tiles, as (tail, head): drawn as one straight line, it keeps a deep model narrow."""
    place = {node: k for k, node in enumerate(order)}
    heads: dict[str, list[str]] = {}
    for edge in edges:
        if edge.tail in place and edge.head in place:
            heads.setdefault(edge.tail, []).append(edge.head)
    length: dict[str, int] = {}
    follower: dict[str, str] = {}
    for node in reversed(order):
        after = [head for head in heads.get(node, ()) if head in length]
        length[node] = 1 + max((length[head] for head in after), default=0)
        if after:
            follower[node] = max(after, key=lambda head: (length[head], -place[NodeId(head)]))
    node = max(order, key=lambda n: length[n], default="")
    path: set[tuple[str, str]] = set()
    while node in follower:
        path.add((node, follower[node]))
        node = follower[node]
    return path


# ---- runs ---------------------------------------------------------------------------------------------------------


def _by_segment(graph: Graph, notes: Notes, kernels: Kernels) -> Iterator[Run]:
    for segment in graph.segments():
        launches = graph.segment(segment).scheduler != "alias"
        yield Run(
            segment,
            graph.members(segment),
            tab_of(graph, segment, kernels),
            launches,
            segment_tip(graph, notes, segment),
        )


def by_place(graph: Graph) -> Iterator[Run]:
    """Runs of ops that stand together in the program: of one module path, cut short until there are few enough."""
    ops = [op for op in graph.ops() if not isinstance(graph.what(op), core.Input | core.Return)]
    depth = max((_path(graph, op).count(".") + 1 for op in ops), default=1)
    while depth > 1 and len(list(_runs(graph, ops, depth))) > TILES:
        depth -= 1
    runs = list(_runs(graph, ops, depth))
    size = max(CHIPS, -(-len(ops) // TILES))
    if len(runs) > TILES:  # code without modules, or very many: by number alone
        runs = [("", ops[k : k + size]) for k in range(0, len(ops), size)]
    for path, members in runs:
        for k in range(0, len(members), CHIPS):
            part = tuple(members[k : k + CHIPS])
            yield Run(part[0], part, Tab(_where(graph, part), path, plural(len(part), "op"), ""))


def _runs(graph: Graph, ops: list[NodeId], depth: int) -> Iterator[tuple[str, list[NodeId]]]:
    current: list[NodeId] = []
    label = None
    for op in ops:
        name = ".".join(_path(graph, op).split(".")[:depth])
        if current and name != label:
            yield label or "", current
            current = []
        label = name
        current.append(op)
    if current:
        yield label or "", current


def _path(graph: Graph, op: NodeId) -> str:
    origin = graph.op(op).origin
    return origin.modules if origin else ""


def _where(graph: Graph, ops: tuple[NodeId, ...]) -> str:
    lines = [o.line for op in ops if (o := graph.op(op).origin)]
    if not lines:
        first, last = ops[0], ops[-1]
        return f"{first} to {last}" if first != last else str(first)
    return f"line {min(lines)}" if len(set(lines)) == 1 else f"lines {min(lines)} to {max(lines)}"


# ---- parts --------------------------------------------------------------------------------------------------------


def _tile(graph: Graph, notes: Notes, run: Run, parity: int) -> Tile:
    shown = [op for op in run.ops if not isinstance(graph.what(op), QUIET)] or list(run.ops)
    chips = [Chip(op, op_kind(graph, op), op_title(graph, op), _mark(notes, op)) for op in shown[:CHIPS]]
    if len(shown) > CHIPS:
        chips[-1] = Chip(shown[CHIPS - 1], "view", f"{len(shown) - CHIPS + 1} more")
    mark = notes.mark(run.node) if notes.mark(run.node) == "added" else ""
    return Tile(run.node, run.node, run.tab, tuple(chips), run.launches, parity, mark, run.tip)


def _mark(notes: Notes, op: NodeId) -> str:
    return notes.mark(op) if notes.mark(op) in ("added", "changed") else ""


def _pills(graph: Graph, notes: Notes) -> tuple[dict[NodeId, Pill], dict[NodeId, Pill]]:
    """Inputs and outputs, but no captures that are only read: those are the weights of a model, one or more a tile."""
    written = {graph.block_of(graph.operands(op)[k]) for op in graph.ops() for k in graph.op(op).writes}
    wanted = [t for t in graph.inputs() if graph.block_of(t) in written or _kind(graph, t) == "argument"]
    chosen = set(sorted(wanted, key=lambda t: graph.block_of(t) not in written)[:PILLS])
    inputs = {t: _pill(graph, notes, t, t, "") for t in graph.inputs() if t in chosen}
    outputs = list(dict.fromkeys(graph.outputs()))[:PILLS]
    return inputs, {t: _pill(graph, notes, t, f"{t}~out", "returned" if t in inputs else "") for t in outputs}


def _kind(graph: Graph, tensor: NodeId) -> str:
    block = graph.block_of(tensor)
    return graph.block(block).kind if block else ""


def _pill(graph: Graph, notes: Notes, tensor: NodeId, key: str, remark: str) -> Pill:
    payload = graph.tensor(tensor)
    return Pill(
        key, tensor, payload.name or tensor[1:], type_text(payload), letter_of(graph, graph.block_of(tensor)), False,
        True, remark, "", notes.tip(*tensor_facts(graph, tensor), about=(tensor,)),
    )  # fmt: skip


def _edges(
    graph: Graph, runs: list[Run], home: dict[NodeId, int], inputs: dict[NodeId, Pill], outputs: dict[NodeId, Pill]
) -> Iterator[Edge]:
    """Data from tile to tile, once a pair; an order between tiles that no data follows."""
    writer: dict[object, str] = {}  # of a place: by tensor, and by block
    data: set[tuple[str, str]] = set()
    for run in runs:
        members = set(run.ops)
        for op in run.ops:
            for tensor in graph.operands(op):
                if graph.is_value(tensor) and graph.producer(tensor) in members:
                    continue  # computed here, whoever else computes it too
                tail = _maker(graph, tensor, runs, home, inputs, writer)
                if tail and tail != run.node and (tail, run.node) not in data:
                    data.add((tail, run.node))
                    yield Edge(tail, run.node)
            for tensor in _written(graph, op):
                writer[tensor] = writer[graph.block_of(tensor)] = run.node
    for tensor, pill in outputs.items():
        if tail := _maker(graph, tensor, runs, home, inputs, writer):
            yield Edge(tail, pill.key)
    for first, then, _ in graph.orderings():
        if first in home and then in home:
            tail, head = runs[home[first]].node, runs[home[then]].node
            if tail != head and (tail, head) not in data:
                data.add((tail, head))
                yield Edge(tail, head, "order")


def _written(graph: Graph, op: NodeId) -> list[NodeId]:
    return [graph.operands(op)[k] for k in graph.op(op).writes] + [
        t for t in graph.results(op) if not graph.is_value(t)
    ]


def _maker(
    graph: Graph,
    tensor: NodeId,
    runs: list[Run],
    home: dict[NodeId, int],
    inputs: dict[NodeId, Pill],
    writer: dict[object, str],
) -> str | None:
    if graph.has_producer(tensor) and graph.producer(tensor) in home and graph.is_value(tensor):
        return runs[home[graph.producer(tensor)]].node
    if tensor in writer:
        return writer[tensor]
    if tensor in inputs:
        return inputs[tensor].key
    return writer.get(graph.block_of(tensor)) if not graph.is_value(tensor) else None
