"""What is told of one node: its title, its facts, and the nodes it leads to."""

from __future__ import annotations

from dataclasses import dataclass

from fusekit.draw.words import (
    argument_text,
    bytes_text,
    letter_of,
    op_title,
    plural,
    segment_text,
    shape_text,
    type_text,
)
from fusekit.ids import BLOCK, OP, SEGMENT, TENSOR, NodeId, kind_of
from fusekit.ir import Graph, core
from fusekit.ir.text import print_layout
from fusekit.notebook.source import short_path

MOST = 24  # nodes that a card leads to, per word
KINDS = {TENSOR: "tensor", OP: "op", BLOCK: "memory block", SEGMENT: "segment"}


@dataclass(frozen=True, slots=True)
class Card:
    """``facts``: name and text. ``leads``: a word and nodes. ``near``: what is lit where a picture lacks the node."""

    title: str
    kind: str
    facts: tuple[tuple[str, str], ...]
    leads: tuple[tuple[str, tuple[NodeId, ...]], ...]
    near: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """The card that a node has from step ``since`` on; None: it is gone."""

    since: int
    card: Card | None


def cards_of(graphs: tuple[Graph, ...]) -> dict[NodeId, tuple[Seen, ...]]:
    """Every node of every step, with a new card only where it changed."""
    found: dict[NodeId, list[Seen]] = {}
    for step, graph in enumerate(graphs):
        blocks = _held_by_blocks(graph)
        for node in graph:
            card, seen = _card(graph, node, blocks), found.setdefault(node, [])
            if not seen or seen[-1].card != card:
                seen.append(Seen(step, card))
        for node, seen in found.items():
            if node not in graph and seen[-1].card is not None:
                seen.append(Seen(step, None))
    return {node: tuple(seen) for node, seen in found.items()}


@dataclass(slots=True)
class _Held:
    """What one block holds, and the ops that write into it; asked of a graph once, for every card of a place tells."""

    tensors: list[NodeId]
    writers: list[NodeId]


_Blocks = dict[NodeId, _Held]


def _held_by_blocks(graph: Graph) -> _Blocks:
    found = {block: _Held([], []) for block in graph.blocks()}
    for tensor in graph.tensors():
        if (block := graph.block_of(tensor)) is not None:
            found[block].tensors.append(tensor)
    for op in graph.ops():
        operands = graph.operands(op)
        written = dict.fromkeys(graph.block_of(operands[w]) for w in graph.op(op).writes)
        for block in written:
            if block is not None:
                found[block].writers.append(op)
    return found


def _card(graph: Graph, node: NodeId, blocks: _Blocks) -> Card:
    match kind_of(node):
        case "^":
            made = _op(graph, node)
        case "%":
            made = _tensor(graph, node, blocks)
        case "@":
            made = _block(graph, node, blocks[node])
        case "$":
            made = _segment(graph, node)
        case _:
            return Card(node, "iteration domain", (("", str(graph[node])),), (), ())
    title, facts, leads, near = made
    return Card(
        title,
        KINDS[kind_of(node)],
        tuple((name, text) for name, text in facts if text),
        tuple((word, tuple(dict.fromkeys(nodes))[:MOST]) for word, nodes in leads if nodes),
        near[:MOST],
    )


def title_of(graph: Graph, node: NodeId) -> str:
    """``exp_``, ``a``, ``S0``, ``block A``: the name that the picture shows."""
    match kind_of(node):
        case "^":
            return op_title(graph, node)
        case "%":
            return graph.tensor(node).name or node[1:]
        case "@":
            return f"block {letter_of(graph, node)}"
        case "$":
            return segment_text(node)
    return node


Facts = list[tuple[str, str]]
Leads = list[tuple[str, list[NodeId]]]
Made = tuple[str, Facts, Leads, tuple[NodeId, ...]]


def _op(graph: Graph, node: NodeId) -> Made:
    op, results, operands = graph.op(node), graph.results(node), graph.operands(node)
    constants = [argument_text(a) for a in op.args if argument_text(a).strip("[]· ,")]
    constants += [f"{k}={argument_text(v)}" for k, v in op.kwargs]
    writes = ", ".join(operands[w] for w in op.writes if w < len(operands))
    facts = [
        ("op", op.target),
        ("takes", ", ".join(f"{t} {type_text(graph.tensor(t))}" for t in dict.fromkeys(operands))),
        ("gives", ", ".join(f"{t} {type_text(graph.tensor(t))}" for t in results)),
        ("with", ", ".join(constants)),
        ("writes", writes),
        ("line", f"{short_path(op.origin.file)}:{op.origin.line}" if op.origin else ""),
        ("module", op.origin.modules if op.origin else ""),
    ]
    before = [graph.producer(t) for t in operands if graph.has_producer(t)]
    after = [user for t in results for user in graph.users(t)]
    leads = [("from", before), ("to", after), ("in", list(graph.segments_of(node)))]
    return title_of(graph, node), facts, leads, (*results, *graph.segments_of(node))


def _tensor(graph: Graph, node: NodeId, blocks: _Blocks) -> Made:
    facts, block = [("type", type_text(graph.tensor(node)))], graph.block_of(node)
    makers = [graph.producer(node)] if graph.has_producer(node) else []
    leads: Leads = [("made by", makers), ("read by", list(graph.users(node)))]
    # An input is made by no line of the user's: those that read it stand for it.
    is_input = any(isinstance(graph.what(op), core.Input) for op in makers)
    if block is None:
        facts.append(("memory", "a value: no bytes of its own"))
    else:
        layout = graph.layout(node)
        lives = graph.lives(node)
        facts += [
            ("layout", print_layout(layout)),
            ("memory", f"block {letter_of(graph, block)} ({block}), {bytes_text(layout.nbytes)}"),
            ("role", lives.role if lives else ""),
        ]
        others = [t for t in blocks[block].tensors[: MOST + 1] if t != node]
        leads += [("block", [block]), ("shares it with", others)]
    return title_of(graph, node), facts, leads, tuple(graph.users(node) if is_input else makers)


def _block(graph: Graph, node: NodeId, held: _Held) -> Made:
    block = graph.block(node)
    facts = [("size", f"{block.nbytes:,} bytes"), ("kind", block.kind), ("device", block.device)]
    leads = [("holds", held.tensors), ("written by", held.writers)]
    return title_of(graph, node), facts, leads, tuple(held.tensors)


def _segment(graph: Graph, node: NodeId) -> Made:
    segment, members = graph.segment(node), graph.members(node)
    facts = [
        ("scheduler", segment.taken_by),
        ("space", shape_text(segment.space) if segment.space else ""),
        ("ops", plural(len(members), "op")),
        ("schedule", segment.schedule),
    ]
    return title_of(graph, node), facts, [("holds", list(members))], ()
