"""How reads through one layout meet writes through another: as index forms, with the conditions that are left."""

from __future__ import annotations

from functools import lru_cache

from fusekit.index import Form
from fusekit.ir import Layout
from fusekit.memory.inverse import NEVER, UNKNOWN, Kind, Relation, locate, nested
from fusekit.memory.overlap import meets

__all__ = ["Kind", "Relation", "locate", "nested", "relate"]


@lru_cache(maxsize=1 << 16)
def relate(layout: Layout, region: Layout) -> Relation:
    """Where an element of ``layout``, at loop_vars(layout.shape), lies in ``region``.

    DISJOINT: no common byte. INSIDE: always at ``index``. PARTIAL: at ``index`` exactly where all guards hold.
    NONE: elements share bytes in a way without index form (other widths, a misaligned offset, a region that meets
    itself), or the search ran out of budget.
    """
    if meets(layout, region) is False:
        return NEVER
    if layout.dtype.width != region.dtype.width or not _is_aligned(layout, region):
        return UNKNOWN
    return locate(layout.address(), region)


def _is_aligned(layout: Layout, region: Layout) -> bool:
    """Is the distance of any two elements a multiple of their width?"""
    delta: Form = layout.offset - region.offset
    width = region.dtype.width
    return delta.is_divisible(width) and not any(s % width for x in (layout, region) for _, s in x.axes())
