"""transpose: something is read across the innermost loop; a square tile makes both sides walk along memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from fusekit.domains import MergeAxes, Parallelize, ReorderAxes, SplitBy, reductions
from fusekit.ids import NodeId
from fusekit.ir import Graph, core
from fusekit.schedule.base import BY, SMALL, B, Chain, S, T, Target, U, V, fitting, looked, start
from fusekit.schedule.look import Look, look
from fusekit.schedule.record import Placements, Schedule, Tile
from fusekit.why import Reason

FEW = 1 << 20  # elements


@dataclass(frozen=True)
class Transpose:
    """``tile`` is the side of the shared tile, ``cpu_tile`` that of a CPU's block, in elements."""

    name: ClassVar[str] = "transpose"
    tile: int = 64
    cpu_tile: int = 32
    threads: int = 256

    def accepts(self, graph: Graph, segment: NodeId) -> Reason | None:
        seen = look(graph, segment)
        if seen is None:
            return Reason.of("computes-nothing")
        if found := reductions(graph, segment):
            return Reason.of("has-reductions", op=found[0], count=len(found))
        return None if seen.across() else Reason.of("read-along")

    def schedule(self, graph: Graph, segment: NodeId, target: Target) -> Schedule:
        seen = looked(look(graph, segment))
        if target == "cpu":
            return self._on_cpu(seen)
        tiled = self._tiled(graph, segment, seen)
        side = min(self.tile, *(seen.reference.shape[k] for k in self._sides(seen)))
        n = fitting(side, max(seen.lanes([seen.order[-1]]), 1))
        if not tiled or n * self.threads > side * side or self.blocks_y(seen) > 65535:
            return self._blocks(seen, 32).merge(2).done(B, BY, T)
        chain = self._blocks(seen, side)
        inside = (MergeAxes(2), SplitBy(2, n), SplitBy(2, self.threads))
        types = Parallelize((B, BY, U, T, V))
        fill = (ReorderAxes((0, 1, 3, 2)), *inside, types)
        tiles = tuple(Tile(t, len(chain.links), fill, (3, 2), (side + 1, 1)) for t in tiled)
        return chain.then(*inside).done(B, BY, U, T, V, placements=Placements(loads="top", shared=tiles))

    def blocks_y(self, seen: Look) -> int:
        """Blocks along the innermost dimension."""
        return -(-seen.reference.shape[seen.order[-1]] // self.tile)

    def _sides(self, seen: Look) -> tuple[int, int]:
        """The dimension that is read along memory, and the innermost one."""
        across = seen.across()
        assert across is not None, "only a segment with a read across its innermost loop is accepted"
        return across[1], seen.order[-1]

    def _blocks(self, seen: Look, side: int) -> Chain:
        """blocks of rows, blocks of columns, rows of a tile, columns of a tile."""
        rows, columns = self._sides(seen)
        batch = tuple(k for k in seen.order if k not in (rows, columns))
        chain = start(seen, [g for g in (batch, (rows,), (columns,)) if g])
        at = 1 if batch else 0
        chain.split(at, side).split(at + 2, side)
        chain.reorder((*range(at), at, at + 2, at + 1, at + 3))
        return chain.merge(0) if batch else chain

    def _on_cpu(self, seen: Look) -> Schedule:
        chain = self._blocks(seen, self.cpu_tile)
        first = B if prod(seen.reference.shape) >= SMALL else S
        return chain.done(first, S, S, S)

    def _tiled(self, graph: Graph, segment: NodeId, seen: Look) -> list[NodeId]:
        """Loaded values that are read across. None where a few elements swap places in memory: iterations that are
        paired need no snapshot, and a tile is filled before it is known which iteration of a pair works. Of many
        elements a tile and a snapshot take less time: 4096 by 4096 on an H200 0.087 ms, pairs 0.15 ms."""
        rows, columns = self._sides(seen)
        places = {a.place for a in seen.accesses if seen.step(a, columns) and abs(seen.step(a, rows) or 0) == a.width}
        loads = [op for op in graph.members(segment) if isinstance(graph.what(op), core.Load)]
        stored = {_elements(graph, a.place) for a in seen.accesses if a.is_store}
        few = prod(seen.reference.shape) <= FEW
        if few and any(_elements(graph, place) in stored for place in places):
            return []
        return [graph.results(op)[0] for op in loads if graph.operands(op)[0] in places]


def _elements(graph: Graph, place: NodeId) -> tuple[object, ...]:
    """What memory a tensor covers, in whatever order of its dimensions."""
    layout = graph.layout(place)
    return graph.block_of(place), layout.offset, tuple(sorted(layout.axes()))
