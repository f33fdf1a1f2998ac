"""Where the tensors of a graph come from: which input each is, or is a view of, and what cuts it off from that."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, NamedTuple

from fusekit.ids import NodeId
from fusekit.ir import INPUT, Graph, Layout

Cut = Literal["", "detach", "data"]
_CUTS: dict[str, Cut] = {
    "aten.detach.default": "detach",
    "aten.data.default": "data",
    "aten._unsafe_view.default": "data",
}
_WEAKEST_FIRST: tuple[Cut, ...] = ("", "detach", "data")


class Line(NamedTuple):
    """``home``: the number of the input that ops lead back to, None where they lead to none. ``cut``: how the views on
    the way take it off that input, the strongest of them."""

    home: int | None = None
    cut: Cut = ""


class Lines:
    """The lines of a graph's tensors, each walked once: what is written a thousand times is a chain of a thousand."""

    def __init__(self, graph: Graph, program: Graph | None = None):
        """``program``: the graph as recorded, where the ops that tell what is a view of what are still there."""
        self._graph = graph
        self._program = Lines(program) if program is not None else None
        self._known: dict[NodeId, Line] = {}

    def of(self, tensor: NodeId) -> Line:
        """The line of a place."""
        if self._program is not None and tensor in self._program._graph:
            return self._program.of(tensor)
        chain: list[tuple[NodeId, Cut]] = []
        at: NodeId | None = tensor
        line = Line()
        while at is not None:
            known = self._known.get(at)
            if known is None:
                before, cut = self._before(at)
                chain.append((at, cut))
                if isinstance(before, int):
                    line, at = Line(before), None
                else:
                    at = before
            else:
                line, at = known, None
        for at, cut in reversed(chain):
            line = line._replace(cut=max(line.cut, cut, key=_WEAKEST_FIRST.index))
            self._known[at] = line
        return line

    def home(self, tensor: NodeId) -> int | None:
        """The input that a place is or is a view of, where ops say so; else one of exactly its layout."""
        told = self if self._program is None or tensor not in self._program._graph else self._program
        found = told.of(tensor).home
        if found is not None:
            return found
        return told._by_layout.get((told._graph.block_of(tensor), told._graph.layout(tensor)))

    def _before(self, tensor: NodeId) -> tuple[NodeId | int | None, Cut]:
        """What a tensor is the object or a view of, or its number among the inputs, and how its own op cuts it off."""
        graph = self._graph
        if not graph.has_producer(tensor):
            return None, ""
        op = graph.producer(tensor)
        number, operands, target = graph.results(op).index(tensor), graph.operands(op), graph.op(op).target
        if target == INPUT:
            return number, ""
        same = dict(graph.op(op).same).get(number)
        block = graph.block_of(tensor)
        viewed = next((t for t in operands if graph.block_of(t) == block), None) if same is None else operands[same]
        return viewed, _CUTS.get(target, "")

    @cached_property
    def _by_layout(self) -> dict[tuple[NodeId | None, Layout], int]:
        inputs = list(enumerate(self._graph.inputs()))
        return {(self._graph.block_of(t), self._graph.layout(t)): k for k, t in reversed(inputs)}
