"""What is known of a group of units: its ops, its loops, the bytes that it touches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from fusekit.domains import Reference
from fusekit.ids import NodeId
from fusekit.ir import Graph, core
from fusekit.passes.segments.traffic import Regions, both, regions, saved
from fusekit.passes.segments.units import Unit
from fusekit.schedule import reference_among


@dataclass(frozen=True)
class Group:
    """``roots``: stores, or one call or check, in program order; ``ops``: those and all that they need."""

    graph: Graph
    roots: tuple[NodeId, ...]
    ops: frozenset[NodeId]
    reads: Regions
    writes: Regions
    is_kernel: bool

    @staticmethod
    def of(graph: Graph, unit: Unit) -> Group:
        is_kernel = unit.kind == "store"
        reads, writes = ((regions(graph, unit.needs, t) if is_kernel else {}) for t in (core.Load, core.Store))
        return Group(graph, (unit.root,), unit.needs, reads, writes, is_kernel)

    def with_(self, other: Group) -> Group:
        """Both in one."""
        roots = tuple(sorted({*self.roots, *other.roots}, key=self.graph.position))
        reads, writes = both(self.reads, other.reads), both(self.writes, other.writes)
        return Group(self.graph, roots, self.ops | other.ops, reads, writes, self.is_kernel or other.is_kernel)

    def saves(self, other: Group) -> int:
        """Bytes that one kernel of both need not move."""
        return saved(self.graph, self.reads, other.reads) + saved(self.graph, self.writes, other.writes)

    def shares_written(self, other: Group) -> bool:
        """Does one write a block that the other touches?"""
        return any(not a.writes.keys().isdisjoint((*b.reads, *b.writes)) for a, b in ((self, other), (other, self)))

    @cached_property
    def devices(self) -> frozenset[str]:
        """Where it stores. A kernel runs on one device; from a CPU it takes single elements, as numbers."""
        return frozenset(self.graph.block(block).device for block in self.writes)

    @cached_property
    def folds(self) -> tuple[NodeId, ...]:
        """Its reductions, in program order."""
        return tuple(
            sorted((op for op in self.ops if isinstance(self.graph.what(op), core.Reduce)), key=self.graph.position)
        )

    @cached_property
    def reference(self) -> Reference | None:
        """The reference of the loops that it would have."""
        stores = (op for op in self.roots if isinstance(self.graph.what(op), core.Store))
        return reference_among(self.graph, (*self.folds, *stores)) if self.is_kernel else None

    @property
    def space(self) -> tuple[int, ...]:
        return self.reference.shape if self.reference else ()

    @property
    def reduced(self) -> frozenset[int]:
        return self.reference.reduced if self.reference else frozenset()

    @property
    def is_single(self) -> bool:
        """Does it compute one element, and fold nothing?"""
        return self.is_kernel and not self.folds and prod(self.space) == 1
