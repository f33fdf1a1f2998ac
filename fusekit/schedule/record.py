"""A schedule as data: transforms of the reference's loop domain, and a small record of placements.

It prints as a chain and ``parse_schedule`` reads the chain back::

    merge(0).split(0, 1024).parallelize(BIDx, SERIAL)

Barriers, predicates, phases and inlining are derived by the lowering, never written.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusekit.domains import LoopDomain, Parallelize, Reference, ReorderAxes, TransformBy, print_chain
from fusekit.errors import IllegalTransform
from fusekit.ids import NodeId

LOADS = ("top", "phase", "use")
KEEP = "keep()"


@dataclass(frozen=True, slots=True)
class Tile:
    """A value kept in shared memory, filled by loops of its own.

    The filling loops start from the schedule's domain after its first ``after`` transforms. The tile is allocated over
    the axes of that domain that are named in ``axes``, with ``strides`` in elements.
    """

    tensor: NodeId
    after: int
    transforms: tuple[TransformBy, ...]
    axes: tuple[int, ...]
    strides: tuple[int, ...]

    def __str__(self) -> str:
        loop = print_chain(self.transforms) or KEEP
        where = f"axes={_row(self.axes)}, strides={_row(self.strides)}"
        return f"share({self.tensor}, after={self.after}, loop={loop}, {where})"


@dataclass(frozen=True, slots=True)
class Placements:
    """Where values are kept, and when they are read.

    ``persist``: values that stay in registers from one phase to the next; None leaves the choice to the lowering, an
    empty tuple reads or computes everything again. ``loads``: at the "top" of the kernel, at the head of their "phase",
    or at their "use". ``blocks_per_sm``: blocks that one multiprocessor shall hold; 0 leaves it to the compiler.
    """

    persist: tuple[NodeId, ...] | None = None
    loads: str = "phase"
    shared: tuple[Tile, ...] = ()
    blocks_per_sm: int = 0

    def __post_init__(self) -> None:
        if self.loads not in LOADS:
            raise IllegalTransform(f"loads({self.loads})", "placements", f"loads are at one of {', '.join(LOADS)}")
        if self.blocks_per_sm < 0:
            raise IllegalTransform(f"blocks_per_sm({self.blocks_per_sm})", "placements", "give 0 or more")

    def links(self) -> list[str]:
        """Its part of the chain: what differs from the default."""
        found: list[str] = []
        if self.persist is not None:
            found.append(f"persist({', '.join(self.persist)})")
        if self.loads != "phase":
            found.append(f"loads({self.loads})")
        found += map(str, self.shared)
        if self.blocks_per_sm:
            found.append(f"blocks_per_sm({self.blocks_per_sm})")
        return found


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a segment's loops run. ``print(schedule)`` shows the chain."""

    transforms: tuple[TransformBy, ...] = ()
    placements: Placements = Placements()

    def __str__(self) -> str:
        return ".".join([*map(str, self.transforms), *self.placements.links()]) or KEEP

    def loops(self, reference: Reference, prefix: str = "") -> LoopDomain:
        """The loop domain that it makes. Raises IllegalTransform."""
        return reference.loops(prefix).apply(self.transforms)

    def tile_loops(self, tile: Tile, reference: Reference, prefix: str = "") -> LoopDomain:
        """The loops that fill a tile. Raises IllegalTransform."""
        if not 0 <= tile.after <= len(self.transforms):
            raise IllegalTransform(f"{tile}", str(self), f"it starts after 0 to {len(self.transforms)} transforms")
        start = reference.loops(prefix).apply(self.transforms[: tile.after])
        if len(tile.axes) != len(tile.strides) or any(not 0 <= k < len(start) for k in tile.axes):
            raise IllegalTransform(f"{tile}", str(start), "name axes of this domain, with one stride each")
        return start.apply(tile.transforms)

    def check(self, reference: Reference) -> LoopDomain:
        """The loop domain, after everything that needs no program was checked. Raises IllegalTransform."""
        for tile in self.placements.shared:
            self.tile_loops(tile, reference)
        for transform in self.transforms[:-1]:
            if isinstance(transform, Parallelize):
                raise IllegalTransform(f"{transform} before other transforms", str(self), "make it the last transform")
        return self.loops(reference)


def reorder(order: tuple[int, ...]) -> tuple[TransformBy, ...]:
    """The transform, or none where the order stays."""
    return () if order == tuple(range(len(order))) else (ReorderAxes(order),)


def _row(numbers: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, numbers))}]"
