"""The view "program": the flow of data, and the order that memory forces."""

from __future__ import annotations

from fusekit.draw.flow import Flow
from fusekit.draw.notes import Notes
from fusekit.draw.orders import hazards, shown_orders
from fusekit.draw.parts import Picture
from fusekit.draw.words import plural
from fusekit.ir import INPUT, RETURN, Graph


def program_picture(graph: Graph, notes: Notes, title: str, note: str) -> Picture:
    """Every op a card; no segments."""
    flow = Flow(graph, notes).walk()
    orders, implied = shown_orders(graph, flow)
    nodes, edges = hazards(graph, flow, notes, orders)
    said = note or notes.summary(graph) or program_note(graph, implied)
    parts = (*flow.parts.values(), *nodes)
    return Picture(title, said, parts, (*flow.edges, *edges), f"{title}. {said}.")


def program_note(graph: Graph, implied: int) -> str:
    """``3 ops, 2 blocks, 2 in-place ops, 4 orderings (1 follows from the others)``."""
    ops = [op for op in graph.ops() if graph.op(op).target not in (INPUT, RETURN)]
    written = sum(bool(graph.op(op).writes) and graph.op(op).target != "fk.store" for op in ops)
    stores = sum(graph.op(op).target == "fk.store" for op in ops)
    orders = len(graph.orderings())
    words = [plural(len(ops), "op"), plural(len(graph.blocks()), "memory block")]
    words += [plural(written, "in-place op")] if written else []
    words += [plural(stores, "store")] if stores else []
    if orders:
        tail = f" ({implied} {'follows' if implied == 1 else 'follow'} from what is drawn)" if implied else ""
        words.append(plural(orders, "ordering") + tail)
    return ", ".join(words)
