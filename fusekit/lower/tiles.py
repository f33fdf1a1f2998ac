"""Shared tiles: a value that a block keeps in shared memory, filled by loops of its own before anything else runs.

Both loops start from the same axes, those of the schedule's domain where the tile's loops leave it. An element of the
tile is a place on the axes that the tile is allocated over; which element of the value that is follows from these and
from the block alone, so what one loop stores another one reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from fusekit.domains import Reference, needed_from, place, space_of
from fusekit.ids import NodeId
from fusekit.index import Form, Var, loop_vars, substitute
from fusekit.ir import Graph, Parallel
from fusekit.lower.loops import Loops, is_block, loops_of
from fusekit.lower.names import Names
from fusekit.lower.program import Tile
from fusekit.lower.refuse import CannotLower, NoVectors
from fusekit.lower.target import Target
from fusekit.schedule import Schedule
from fusekit.schedule import Tile as Placement

MOST_BYTES = 48 * 1024
Index = tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """``tile`` holds ``tensor``: at ``at`` what the kernel's loops want at ``index``. It is filled in the loops
    ``fill``, where ``stored`` is the index and ``slot`` the element."""

    tensor: NodeId
    tile: Tile
    index: Index
    at: Form
    fill: Loops
    stored: Index
    slot: Form


def shared_tiles(
    graph: Graph,
    roots: Sequence[NodeId],
    reference: Reference,
    schedule: Schedule,
    loops: Loops,
    target: Target,
    names: Names,
) -> tuple[Shared, ...]:
    """The tiles of a schedule; ``loops`` are the kernel's. Raises CannotLower, and NoVectors."""
    if target.name != "cuda" or not schedule.placements.shared:
        return ()
    index = loop_vars(reference.shape)
    starts = [(graph.operands(op)[0], place(space_of(graph, op), reference, index).index) for op in roots]
    made = _Maker(graph, reference, schedule, loops, target, needed_from(graph, starts))
    found = tuple(made.shared(one, names) for one in schedule.placements.shared)
    if sum(one.tile.size * one.tile.dtype.width for one in found) > MOST_BYTES:
        raise CannotLower(f"its shared tiles have more than {MOST_BYTES} bytes")
    return found


@dataclass(frozen=True)
class _Maker:
    graph: Graph
    reference: Reference
    schedule: Schedule
    loops: Loops
    target: Target
    needed: dict[NodeId, list[Index]]

    def shared(self, one: Placement, names: Names) -> Shared:
        start = self.reference.loops().apply(self.schedule.transforms[: one.after])
        domain = self.schedule.tile_loops(one, self.reference)
        fill = loops_of(self.reference, domain, self.target, self.loops.lanes is not None)
        if fill.order:
            raise CannotLower(f"the tile of {one.tensor} is filled in a serial loop")
        fill = fill.reordered(())
        self._check_loops(one, fill)
        axes = [start.axes[k] for k in one.axes]
        extents = [start.graph.ids[i].extent for i in axes]
        self._check_strides(one, extents)
        mine, its = ([loops.ids[i] for i in start.axes] for loops in (self.loops, fill))
        blocks = {axis.var for axis in self.loops.axes if is_block(axis)}
        for i, a, b in zip(start.axes, mine, its, strict=True):
            if i not in axes and (a != b or not a.free <= blocks):
                raise CannotLower(f"the tile of {one.tensor}: {i} is none of its axes, and not the block's alone")
            if i in axes and a != b and (a.free | b.free) & blocks:
                raise CannotLower(f"the tile of {one.tensor}: other blocks fill {i} than read it")
        wanted = self._wanted(one)
        size = 1 + sum(stride * (n - 1) for stride, n in zip(one.strides, extents, strict=True))
        tile = Tile(names.fresh(f"tile_{one.tensor[1:]}"), self.graph.tensor(one.tensor).dtype, size)
        at, slot = (
            sum((loops.ids[i] * stride for i, stride in zip(axes, one.strides, strict=True)), Form())
            for loops in (self.loops, fill)
        )
        index = self._at(wanted, self.loops)
        # What the index does not tell, the place in the tile need not: the first of all places that hold the element,
        # of those that this block has filled.
        told = blocks.union(*(form.free for form, n in zip(index, self._shape(one), strict=True) if n != 1))
        at = substitute(at, {var: Form() for var in at.free - told})
        return Shared(one.tensor, tile, index, at, fill, self._at(wanted, fill), slot)

    def _shape(self, one: Placement) -> tuple[int, ...]:
        return self.graph.tensor(one.tensor).shape

    def _check_loops(self, one: Placement, fill: Loops) -> None:
        if not set(fill.axes) <= set(self.loops.axes):
            raise CannotLower(f"the tile of {one.tensor} is filled by other blocks or threads than the kernel has")
        if fill.lanes is not None and fill.lanes != self.loops.lanes:
            raise NoVectors("a tile is filled by other vectors than the kernel has")

    def _check_strides(self, one: Placement, extents: Sequence[int]) -> None:
        """No two elements share a place."""
        reach = 0
        for stride, n in sorted(zip(one.strides, extents, strict=True)):
            if n > 1 and stride <= reach:
                what = f"strides {list(one.strides)} put two elements in one place"
                raise CannotLower(f"the tile of {one.tensor}: {what}")
            reach += stride * (n - 1)

    def _wanted(self, one: Placement) -> Index:
        """The index of the value in the reference's space: of several the first that is read across the lanes."""
        own = frozenset(var for form in loop_vars(self.reference.shape) for var in form.free)
        found = [index for index in self.needed.get(one.tensor, ()) if all(form.free <= own for form in index)]
        if not found:
            raise CannotLower(f"no loop wants {one.tensor}, for which there is a tile")
        return next((index for index in found if not self._is_along(one.tensor, index)), found[0])

    def _is_along(self, tensor: NodeId, index: Index) -> bool:
        """Do lanes, or threads, walk along the value's last dimension already?"""
        threads = [axis.var for axis in self.loops.axes if axis.parallel is Parallel.TIDx]
        inner = [self.loops.lanes] if self.loops.lanes else threads
        last = self._at(index, self.loops)[-1:]
        return any(form.coefficient(var) == 1 for form in last for var in inner)

    def _at(self, index: Index, loops: Loops) -> Index:
        own = loop_vars(self.reference.shape)
        env = {cast(Var, form.terms[0][0]): at for form, at in zip(own, loops.index, strict=True) if form.terms}
        return tuple(substitute(form, env) for form in index)


def unrolled(loops: Loops, free: Iterable[Var]) -> Iterator[dict[Var, Form]]:
    """The numbers that unrolled loops stand for, one copy after another."""
    free = set(free)
    copies: list[dict[Var, Form]] = [{}]
    for var in (var for var in loops.expand if var in free):
        copies = [{**env, var: Form.of(k)} for env in copies for k in range(var.extent)]
    return iter(copies)
