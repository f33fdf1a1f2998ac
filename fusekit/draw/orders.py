"""Which ordering edges a picture shows: those that do not follow from others. The rest is counted."""

from __future__ import annotations

from fusekit.draw.flow import Flow
from fusekit.draw.notes import Notes
from fusekit.draw.parts import Edge, Hazard
from fusekit.ids import NodeId
from fusekit.ir import Graph, Ordering

Order = tuple[NodeId, NodeId, Ordering]


def shown_orders(graph: Graph, flow: Flow) -> tuple[list[Order], int]:
    """(the orderings to draw, how many follow from them and from the data that flows)."""
    after: dict[str, set[str]] = {}
    for edge in flow.edges:
        if edge.look in ("data", "new", "memory"):
            after.setdefault(edge.tail, set()).add(edge.head)
    place = {op: k for k, op in enumerate(graph.ops())}
    orders = [o for o in graph.orderings() if _ends(flow, o) is not None]
    for order in orders:
        tail, head = _ends(flow, order) or ("", "")
        after.setdefault(tail, set()).add(head)
    direct = {(e.tail, e.head) for e in flow.edges}
    has_values = any(
        graph.is_value(t) for t in graph.tensors()
    )  # then an arrow to a reader of memory says RAW by itself
    plain = [o for o in orders if has_values and o[2].kinds == ("RAW",) and _ends(flow, o) in direct]
    kept = [o for o in orders if o not in plain and not _is_implied(after, *(_ends(flow, o) or ("", "")))]
    kept.sort(key=lambda o: (place[o[0]], place[o[1]]))
    return kept, len(graph.orderings()) - len(kept)


def hazards(graph: Graph, flow: Flow, notes: Notes, orders: list[Order]) -> tuple[list[Hazard], list[Edge]]:
    """A node on the arrow for each ordering, so that its words never float."""
    nodes, edges = [], []
    for first, then, ordering in orders:
        tail, head = _ends(flow, (first, then, ordering)) or ("", "")
        key = f"{first}=>{then}"
        kinds = " ".join(ordering.kinds)
        tip = notes.tip(f"{then} must come after {first}: {kinds}{f' on {ordering.where}' if ordering.where else ''}")
        said = "\n".join(notes.reasons(first, then))
        mark = "added" if notes.before is not None and (first, then, ordering) not in notes.before.orderings() else ""
        nodes.append(Hazard(key, key, kinds, ordering.where, True, mark, f"{tip}\n{said}".strip()))
        edges += [Edge(tail, key, "order", headless=True), Edge(key, head, "order")]
    return nodes, edges


def _ends(flow: Flow, order: Order) -> tuple[str, str] | None:
    """The drawn ends; None where one is not drawn, or both are one part."""
    tails, heads = flow.drawn.get(order[0]), flow.drawn.get(order[1])
    if not tails or not heads or tails[-1] == heads[0]:
        return None
    return tails[-1], heads[0]


def _is_implied(after: dict[str, set[str]], tail: str, head: str) -> bool:
    """Is there a path of at least two arrows?"""
    seen, todo = set(), [n for n in after.get(tail, ()) if n != head]
    while todo:
        node = todo.pop()
        if node == head:
            return True
        if node not in seen:
            seen.add(node)
            todo += after.get(node, ())
    return False
