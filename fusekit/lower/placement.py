"""Where a store smaller than the kernel's iteration space runs: its index at an iteration, and when.

A bad place is never wrong: it costs a snapshot or a recomputation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from fusekit.ids import NodeId
from fusekit.index import Form
from fusekit.ir import Guard, Layout
from fusekit.memory import Kind, locate, nested

ZERO = Form()


@dataclass(frozen=True, slots=True)
class Placed:
    """A root runs at ``index`` of its own tensor, in the iterations where all ``guards`` hold."""

    index: tuple[Form, ...]
    guards: tuple[Guard, ...] = ()


def place(
    region: Layout,
    block: NodeId,
    space: tuple[int, ...],
    index: Sequence[Form],
    anchors: Iterable[tuple[NodeId, Layout]],
) -> Placed:
    """The place of a store to ``region``; ``index`` is the index in ``space`` at an iteration.

    ``anchors``: layouts that full-size stores and loads use at their own index; a region inside one of them runs
    where the same byte is touched.
    """
    if region.shape == space:
        return Placed(tuple(index))
    for other, layout in anchors:
        if other == block and (found := _inside(region, layout, index)):
            return found
    return _padded(region, space, index) or _flat(region, space, index)


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


def _padded(region: Layout, space: tuple[int, ...], index: Sequence[Form]) -> Placed | None:
    """Dimensions that match the first or the last ones of the space; the others are entered at 0 only."""
    missing = len(space) - len(region.shape)
    if missing < 0:
        return None
    for start in (0, missing):
        shape = (1,) * start + region.shape + (1,) * (missing - start)
        if all(a in (1, b) for a, b in zip(shape, space, strict=True)):
            own = index[start : start + len(region.shape)]
            at = tuple(ZERO if n == 1 else form for form, n in zip(own, region.shape, strict=True))
            rest = (Guard(form, 1) for form, a, b in zip(index, shape, space, strict=True) if a == 1 < b)
            return Placed(at, tuple(rest))
    return None


def _flat(region: Layout, space: tuple[int, ...], index: Sequence[Form]) -> Placed:
    """Element number k runs at iteration number k."""
    flat = ZERO
    for form, n in zip(index, space, strict=True):
        flat = flat * n + form
    digits = []
    for k, n in enumerate(region.shape):
        quotient = flat // prod(region.shape[k + 1 :])
        digits.append(ZERO if n == 1 else quotient if k == 0 else quotient % n)
    guards = (Guard(flat, region.numel),) if region.numel < prod(space) else ()
    return Placed(tuple(digits), guards)
