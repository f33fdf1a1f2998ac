"""Where a store smaller than the kernel's iteration space runs: its index at an iteration, and when.

A bad place is never wrong: it costs a snapshot or a recomputation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusekit.domains import Placed
from fusekit.ids import NodeId
from fusekit.index import Form
from fusekit.ir import Layout
from fusekit.memory import Kind, locate, nested


def anchored(
    region: Layout,
    block: NodeId,
    space: tuple[int, ...],
    index: Sequence[Form],
    anchors: Iterable[tuple[NodeId, Layout]],
) -> Placed | None:
    """The place of a store to ``region`` that lies inside an anchor; ``index`` is the index in ``space``.

    ``anchors``: layouts that full-size stores and loads use at their own index; a region inside one of them runs
    where the same byte is touched.
    """
    if region.shape == space:
        return Placed(tuple(index))
    for other, layout in anchors:
        if other == block and (found := _inside(region, layout, index)):
            return found
    return None


def _inside(region: Layout, anchor: Layout, index: Sequence[Form]) -> Placed | None:
    """The region's index of the byte that the anchor touches, if the anchor has every byte of the region just once."""
    if not nested(anchor) or not all(stride for _, stride in anchor.axes()):
        return None
    if anchor.dtype.width != region.dtype.width or locate(region.address(), anchor).kind is not Kind.INSIDE:
        return None
    found = locate(anchor.address(index), region)
    if found.kind in (Kind.DISJOINT, Kind.NONE):
        return None
    return Placed(found.index, tuple(dict.fromkeys(found.guards)))
