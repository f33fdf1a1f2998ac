"""How two layouts share memory, as one answer that a person reads and a program compares."""

from __future__ import annotations

from dataclasses import dataclass

from fusekit.ir import Layout
from fusekit.memory.describe import describe
from fusekit.memory.overlap import Overlap, overlap, shared_bytes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sharing:
    """``overlap``: the bytes of the first against those of the second. ``relation``: what one is of the other.

    ``shared``: how many bytes both have; None where counting is not cheap. Equal to its ``Overlap``, and to that name:
    ``sharing == Overlap.CONTAINS``, ``sharing == "CONTAINS"``.
    """

    overlap: Overlap
    relation: str
    shared: int | None

    @property
    def name(self) -> str:
        """DISJOINT, SAME, CONTAINS, WITHIN, PARTIAL or UNKNOWN."""
        return self.overlap.name

    @property
    def value(self) -> str:
        return self.overlap.value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return other.upper() == self.name
        return self.overlap is (other.overlap if isinstance(other, Sharing) else other)

    def __hash__(self) -> int:
        return hash(self.overlap)

    def __bool__(self) -> bool:
        """May they share a byte?"""
        return self.overlap is not Overlap.DISJOINT

    def __repr__(self) -> str:
        return f"{self.name}: {self.relation}" if self.relation else self.name


def sharing(first: Layout, second: Layout) -> Sharing:
    """How two layouts in one block share memory."""
    found = overlap(first, second)
    match found:
        case Overlap.DISJOINT:
            return Sharing(found, "no common byte", 0)
        case Overlap.SAME:
            same = describe(second, first)
            relation = same if same == "same elements" else f"the second is {_named(same)} of the first"
        case Overlap.CONTAINS:
            relation = f"the second is {_named(describe(second, first))} of the first"
        case Overlap.WITHIN:
            relation = f"the first is {_named(describe(first, second))} of the second"
        case Overlap.PARTIAL:
            relation = f"the second against the first: {describe(second, first)}"
        case Overlap.UNKNOWN:
            relation = "the search for a common byte spent its budget; treat it as overlapping"
    return Sharing(found, relation, shared_bytes(first, second))


def _named(said: str) -> str:
    return f"the {said}" if said.startswith(("transpose", "flip", "diagonal")) else said
