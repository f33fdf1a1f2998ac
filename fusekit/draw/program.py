"""The view "program": the flow of data, and the order that memory forces."""

from __future__ import annotations

from dataclasses import replace

from fusekit.draw.aliases import PILLS, Group
from fusekit.draw.flow import Flow
from fusekit.draw.notes import Notes
from fusekit.draw.orders import hazards, shown_orders
from fusekit.draw.parts import Edge, Frame, Picture, Pill
from fusekit.draw.words import plural
from fusekit.ir import Graph, core


def program_picture(graph: Graph, notes: Notes, title: str, note: str) -> Picture:
    """Every op a card; no segments."""
    flow = Flow(graph, notes).walk()
    orders, implied = shown_orders(graph, flow)
    nodes, edges = hazards(graph, flow, notes, orders)
    said = note or notes.summary(graph) or program_note(graph, implied)
    capsules, spines, taken = input_capsules(graph, flow, notes)
    loose = [part for key, part in flow.parts.items() if key not in taken]
    desc = f"{title}. {said}."
    return Picture(
        title, said, (*capsules, *loose, *nodes), (*spines, *flow.edges, *edges), desc, last_row(graph, flow)
    )


def input_capsules(graph: Graph, flow: Flow, notes: Notes) -> tuple[list[Frame], list[Edge], set[str]]:
    """Capsules round inputs that share a block, their spines, and the keys in them."""
    frames, spines, taken = [], [], set[str]()
    drawn = [t for t in graph.inputs() if t in flow.parts]
    for block in graph.blocks():
        group = Group.of(graph, block, drawn)
        if (
            group is None
            or any(len(tensors) > 1 for tensors in group.by_layout.values())
            or len(group.by_layout) > PILLS
        ):
            continue
        frames.append(replace(group.frame(graph, notes), parts=tuple(flow.parts[t] for t in group.first)))
        spines += group.spines()
        taken |= set(group.first)
    return frames, spines, taken


def last_row(graph: Graph, flow: Flow) -> tuple[tuple[str, ...], ...]:
    """Pills behind which nothing follows, side by side."""
    follows = {edge.tail for edge in flow.edges}
    inputs = set(graph.inputs())
    keys = tuple(
        k for k, p in flow.parts.items() if isinstance(p, Pill) and p.crosses and k not in follows and k not in inputs
    )
    return (keys,) if len(keys) > 1 else ()


def program_note(graph: Graph, implied: int) -> str:
    """``3 ops, 2 blocks, 2 in-place ops, 4 orderings (1 follows from the others)``."""
    ops = [op for op in graph.ops() if not isinstance(graph.what(op), core.Input | core.Return)]
    written = sum(bool(graph.op(op).writes) and not isinstance(graph.what(op), core.Store) for op in ops)
    stores = sum(isinstance(graph.what(op), core.Store) for op in ops)
    orders = len(graph.orderings())
    words = [plural(len(ops), "op"), plural(len(graph.blocks()), "memory block")]
    words += [plural(written, "in-place op")] if written else []
    words += [plural(stores, "store")] if stores else []
    if orders:
        tail = f" ({implied} {'follows' if implied == 1 else 'follow'} from what is drawn)" if implied else ""
        words.append(plural(orders, "ordering") + tail)
    return ", ".join(words)
