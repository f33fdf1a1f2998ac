"""nested: rows are folded, and then what came out of them: the mean over rows of a loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

from fusekit.domains import Reference, reduced_dims, reductions, space_of
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.schedule.base import Target, looked, split_order, start
from fusekit.schedule.look import Look, folds_alike, larger_root, look
from fusekit.schedule.persistent import Persistent
from fusekit.schedule.record import Schedule
from fusekit.schedule.reduction import cpu_parts, is_inner
from fusekit.why import Reason


@dataclass(frozen=True)
class Nested:
    """The rows run as in ``rows``; what folds over them is put together by the last block."""

    name: ClassVar[str] = "nested"
    rows: Persistent = field(default_factory=lambda: Persistent(blocks=4096))

    def accepts(self, graph: Graph, segment: NodeId) -> Reason | None:
        if not (found := reductions(graph, segment)):
            return Reason.of("no-reduction")
        if larger := larger_root(graph, segment):
            return Reason.of("store-is-larger", op=larger, reduction=found[0])
        seen, differ = looked(look(graph, segment)), folds_alike(graph, segment)
        if differ and not (is_inner(seen) and all(_is_row_or_of_rows(graph, op, seen.reference) for op in found)):
            return Reason.of("folds-differ", first=differ[0], second=differ[1])
        return None

    def schedule(self, graph: Graph, segment: NodeId, target: Target) -> Schedule:
        seen = looked(look(graph, segment))
        return cpu_nested(seen) if target == "cpu" else self.rows.inner(graph, segment, seen)


def cpu_nested(seen: Look) -> Schedule:
    """Parts of the rows on blocks."""
    kept, folded = split_order(seen)
    return cpu_parts(start(seen, [*seen.groups(kept), *seen.groups(folded)]), 0)


def _is_row_or_of_rows(graph: Graph, op: NodeId, reference: Reference) -> bool:
    """Does a reduction fold rows as the reference does, or no more than one element of each row?"""
    if space_of(graph, op) == reference.shape:
        return reduced_dims(graph, op) == reference.reduced
    return prod(space_of(graph, op)) <= prod(reference.shape[k] for k in reference.kept)
