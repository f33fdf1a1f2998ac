"""Segments that exist only to be asked about: would this set of ops be one?"""

from __future__ import annotations

from collections.abc import Iterable

from fusekit.ids import NodeId
from fusekit.ir.graph import Graph
from fusekit.ir.payloads import Segment


class OnTrial(Graph):
    """A graph, and segments on trial by frozen op sets. It shares with the graph all but what is found out about it,
    and is equal to nothing else."""

    def __init__(self, graph: Graph):
        self.__dict__.update(graph.__dict__)
        self._members = dict(graph._members)
        self._data = dict(graph._data)
        self._answers = {}
        self._known: dict[frozenset[NodeId], NodeId] = {}

    def segment_on_trial(self, ops: Iterable[NodeId]) -> NodeId:
        """A segment of these ops, in program order; the same one for the same set."""
        chosen = frozenset(ops)
        if chosen not in self._known:
            node = NodeId(f"$trial{len(self._known)}")
            self._known[chosen] = node
            self._members[node] = tuple(sorted(chosen, key=self.position))
            self._data[node] = Segment("pointwise")
        return self._known[chosen]

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)
