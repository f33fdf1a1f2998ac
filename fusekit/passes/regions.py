"""Parts of a layout that ops write: one index of a dimension, a diagonal, each byte once."""

from __future__ import annotations

from fusekit.ir import Layout
from fusekit.memory.algebra import narrow


def select(layout: Layout, dim: int, index: int) -> Layout:
    part = narrow(layout, dim, index, 1)
    keep = [k for k in range(len(layout.shape)) if k != dim]
    return Layout(part.offset, tuple(part.shape[k] for k in keep), tuple(part.strides[k] for k in keep), part.dtype)


def diagonal(layout: Layout, offset: int, dim1: int, dim2: int) -> Layout:
    """As ``torch.diagonal``: the diagonal is the last dimension."""
    n, m = layout.shape[dim1], layout.shape[dim2]
    size = max(0, min(n, m - offset) if offset >= 0 else min(n + offset, m))
    s1, s2 = layout.strides[dim1], layout.strides[dim2]
    start = (offset * s2 if offset >= 0 else -offset * s1) if size else 0
    keep = [k for k in range(len(layout.shape)) if k not in (dim1, dim2)]
    shape = (*(layout.shape[k] for k in keep), size)
    return Layout(layout.offset + start, shape, (*(layout.strides[k] for k in keep), s1 + s2), layout.dtype)


def once(layout: Layout) -> Layout:
    """Dimensions of stride 0 hold one element however often it is written."""
    shape = tuple(min(n, 1) if s == 0 else n for n, s in zip(layout.shape, layout.strides, strict=True))
    return Layout(layout.offset, shape, layout.strides, layout.dtype)
