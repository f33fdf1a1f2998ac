"""The algebra of layouts: is what a shape op gives a view of the same bytes, and through which layout?

Every function gives the layout of the result, in the strides that eager gives it, or the reason why no layout of the
same bytes has these elements in this order. Dimensions are counted from the outside in, strides are in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from fusekit.ir import Layout
from fusekit.why import Reason


@dataclass(frozen=True, slots=True)
class Dim:
    """One dimension of a layout. ``contiguous``: its stride is what the next longer-than-one dimension inside spans
    (None where it has one element); ``expanded``: several indices, one element."""

    extent: int
    stride: int
    contiguous: bool | None
    expanded: bool

    @property
    def broadcast(self) -> bool:
        """Has it one element, whatever its stride?"""
        return self.extent == 1


def facts(layout: Layout) -> tuple[Dim, ...]:
    """What the algebra knows of each dimension."""
    found: list[Dim] = []
    span = layout.dtype.width
    for n, s in zip(reversed(layout.shape), reversed(layout.strides), strict=True):
        found.append(Dim(n, s, None if n == 1 else s == span, n > 1 and s == 0))
        span = span if n == 1 else s * n
    return tuple(reversed(found))


def order(layout: Layout) -> tuple[int, ...]:
    """The dimensions as they lie in memory, outermost first; those that do not move stay in front of the next one."""
    key: list[int] = []
    inside = 0
    for n, s in zip(reversed(layout.shape), reversed(layout.strides), strict=True):
        inside = inside if n == 1 or s == 0 else abs(s)
        key.append(inside)
    return tuple(sorted(range(len(key)), key=lambda k: -key[::-1][k]))


def split(layout: Layout, dim: int, factor: int) -> Layout | Reason:
    """Dimension ``dim`` as (outer, ``factor``)."""
    n, s = layout.shape[dim], layout.strides[dim]
    if n % factor:
        return Reason.of("split-remainder", dim=dim, extent=n, factor=factor)
    return _put(layout, dim, dim + 1, (n // factor, factor), (s * factor, s))


def merge(layout: Layout, dim: int) -> Layout | Reason:
    """Dimensions ``dim`` and ``dim + 1`` as one."""
    (n, m), (s, t) = layout.shape[dim : dim + 2], layout.strides[dim : dim + 2]
    if n != 1 and m != 1 and s != t * m and layout.numel:
        return _apart(layout, dim)
    return _put(layout, dim, dim + 2, (n * m,), (s if m == 1 else t,))


def permute(layout: Layout, dims: Sequence[int]) -> Layout:
    """Dimension ``k`` of the result is ``dims[k]``."""
    shape, strides = (tuple(of[d] for d in dims) for of in (layout.shape, layout.strides))
    return Layout(layout.offset, shape, strides, layout.dtype)


def narrow(layout: Layout, dim: int, start: int, size: int, step: int = 1) -> Layout:
    """``size`` elements of dimension ``dim`` from ``start`` on, ``step`` apart: a slice."""
    part = _put(layout, dim, dim + 1, (size,), (layout.strides[dim] * step,))
    return Layout(layout.offset + start * layout.strides[dim], part.shape, part.strides, part.dtype)


def broadcast(layout: Layout, dim: int) -> Layout:
    """A new dimension of one element in front of ``dim``."""
    inside = dim < len(layout.shape)
    stride = layout.shape[dim] * layout.strides[dim] if inside else layout.dtype.width
    return _put(layout, dim, dim, (1,), (stride,))


def squeeze(layout: Layout, dim: int) -> Layout:
    """Without dimension ``dim``, where that has one element."""
    return _put(layout, dim, dim + 1, (), ()) if layout.shape[dim] == 1 else layout


def expand(layout: Layout, shape: Sequence[int]) -> Layout | Reason:
    """Dimensions of one element repeated, new ones in front: a stride of 0 each."""
    shape = tuple(shape)
    lead = len(shape) - len(layout.shape)
    old = (1,) * lead + layout.shape
    if lead < 0 or any(n not in (1, m) for n, m in zip(old, shape, strict=True)):
        return Reason.of("not-expandable", first=str(list(layout.shape)), second=str(list(shape)))
    strides: list[int] = []
    for k in reversed(range(len(shape))):
        new = shape[k + 1] * strides[0] if k + 1 < len(shape) else layout.dtype.width
        own = new if k < lead else layout.strides[k - lead]
        strides.insert(0, own if old[k] == shape[k] and layout.shape else 0)
    return Layout(layout.offset, shape, tuple(strides), layout.dtype)


def reshape(layout: Layout, shape: Sequence[int]) -> Layout | Reason:
    """The elements in row-major order in another shape, where one layout of the same bytes has them.

    The old dimensions fall into *runs*, each as even in memory as one long dimension; a new dimension may lie in one
    run only.
    """
    shape = tuple(shape)
    if prod(shape) != layout.numel:
        raise ValueError(f"{list(layout.shape)} has not as many elements as {list(shape)}")
    if not layout.numel:
        same = layout.strides if shape == layout.shape else Layout.contiguous(shape, layout.dtype).strides
        return Layout(layout.offset, shape, same, layout.dtype)
    strides: list[int] = []
    left = list(shape)
    for numel, step, first in _runs(layout):
        before = taken = 1
        while left and (taken < numel or left[-1] == 1):
            strides.insert(0, taken * step)
            before, taken = taken, taken * left.pop()
        if taken != numel:
            return _crossed(layout, first, split=before > 1)
    return Layout(layout.offset, shape, tuple(strides), layout.dtype)


def _runs(layout: Layout) -> list[tuple[int, int, int]]:
    """(elements, stride, first dimension) of each run, innermost first."""
    if not layout.shape:
        return [(1, layout.dtype.width, 0)]
    found: list[tuple[int, int, int]] = []
    numel, step = layout.shape[-1], layout.strides[-1]
    for k in reversed(range(len(layout.shape) - 1)):
        n, s = layout.shape[k], layout.strides[k]
        if n != 1 and s != numel * step:
            found.append((numel, step, k + 1))
            numel, step = 1, s
        numel *= n
    return [*found, (numel, step, 0)]


def _crossed(layout: Layout, dim: int, split: bool) -> Reason:
    """Why a dimension of a reshape can't go across the start of the run that begins at ``dim``."""
    if split and layout.shape[dim] > 1 and layout.strides[dim] == 0:
        return Reason.of("split-expanded", dim=dim)
    return _apart(layout, dim - 1)


def _apart(layout: Layout, dim: int) -> Reason:
    """Why dimensions ``dim`` and ``dim + 1`` are not one."""
    s, t = layout.strides[dim : dim + 2]
    if not (s and t):
        return Reason.of("merge-expanded", first=dim, second=dim + 1)
    if abs(s) < abs(t):
        return Reason.of("order-differs", first=dim, second=dim + 1)
    span, width = t * layout.shape[dim + 1], layout.dtype.width
    return Reason.of("merge-gap", first=dim, second=dim + 1, stride=s // width, span=span // width)


def _put(layout: Layout, start: int, stop: int, shape: Sequence[int], strides: Sequence[int]) -> Layout:
    """The layout with other dimensions in place of ``start`` to ``stop``."""
    sizes = (*layout.shape[:start], *shape, *layout.shape[stop:])
    steps = (*layout.strides[:start], *strides, *layout.strides[stop:])
    return Layout(layout.offset, sizes, steps, layout.dtype)
