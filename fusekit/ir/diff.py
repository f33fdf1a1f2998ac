"""What changed between two graphs: set arithmetic, since what survives a pass keeps its id."""

from __future__ import annotations

from dataclasses import dataclass

from fusekit.ids import NodeId
from fusekit.ir.graph import Graph
from fusekit.ir.payloads import Edge

EdgeId = tuple[NodeId, NodeId, object]


@dataclass(frozen=True)
class GraphDiff:
    """Nodes and edges by id. ``changed``: another payload, another home of a tensor, or other operands of an op."""

    added: tuple[NodeId, ...]
    removed: tuple[NodeId, ...]
    changed: tuple[NodeId, ...]
    added_edges: tuple[EdgeId, ...]
    removed_edges: tuple[EdgeId, ...]

    def __bool__(self) -> bool:
        return any((self.added, self.removed, self.changed, self.added_edges, self.removed_edges))

    def __repr__(self) -> str:
        if not self:
            return "no difference"
        rows = (("+", self.added), ("-", self.removed), ("~", self.changed))
        lines = [f"{mark} {' '.join(nodes)}" for mark, nodes in rows if nodes]
        count = len(self.added_edges) + len(self.removed_edges)
        return "\n".join([*lines, f"{count} edges differ"] if count else lines)


def diff(before: Graph, after: Graph) -> GraphDiff:
    """From ``before`` to ``after``; removed nodes in the order of the first graph, the others in that of the second."""
    old, new = before.edges(), after.edges()
    touched = {edge[:2] for edge in _differing(old, new)}
    about = {a if _is_home(old, new, (a, b)) else b for a, b in touched}
    return GraphDiff(
        tuple(n for n in after if n not in before),
        tuple(n for n in before if n not in after),
        tuple(n for n in after if n in before and (before[n] != after[n] or n in about)),
        tuple(e for e in new if e not in old),
        tuple(e for e in old if e not in new),
    )


def _differing(old: dict[EdgeId, Edge], new: dict[EdgeId, Edge]) -> list[EdgeId]:
    """Use and lives-in edges that differ: those that make a surviving node another one."""
    return [
        e
        for e in {**old, **new}
        if old.get(e) != new.get(e) and (e[2] == "lives" or (isinstance(e[2], tuple) and e[2][0] == "use"))
    ]


def _is_home(old: dict[EdgeId, Edge], new: dict[EdgeId, Edge], ends: tuple[NodeId, NodeId]) -> bool:
    return (*ends, "lives") in old or (*ends, "lives") in new
