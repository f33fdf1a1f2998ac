"""Joining written regions whose union is one region."""

from __future__ import annotations

from functools import lru_cache

from fusekit.ir import Layout
from fusekit.memory.inverse import are_nested, base, falling, shift


@lru_cache(maxsize=1 << 14)
def hull(a: Layout, b: Layout) -> Layout | None:
    """The layout that is exactly the union of two overlapping boxes of one grid, or None.

    Its dimensions run by falling stride. Boxes that only touch are left alone: two plain stores are cheaper than one
    that selects.
    """
    delta = base(b) - base(a)
    if a.dtype != b.dtype or not delta.is_constant or not a.numel or not b.numel:
        return None
    first, second = _sizes(a), _sizes(b)
    if first is None or second is None:
        return None
    steps = sorted(first.keys() | second.keys(), reverse=True)
    sizes = [(first.get(s, 1), second.get(s, 1)) for s in steps]
    shifts = shift(steps, [(1 - n, m - 1) for n, m in sizes], delta.const)
    if shifts is None or any(t >= n or t + m <= 0 for t, (n, m) in zip(shifts, sizes, strict=True)):
        return None
    lows = [min(0, t) for t in shifts]
    spans = [max(n, t + m) - low for low, t, (n, m) in zip(lows, shifts, sizes, strict=True)]
    longer = [(span > n, span > m) for span, (n, m) in zip(spans, sizes, strict=True)]
    one_holds_all = not all(any(side) for side in zip(*longer, strict=True))
    if not one_holds_all and sum(any(pair) for pair in longer) > 1:
        return None
    axes = [(s, n) for s, n in zip(steps, spans, strict=True) if n > 1]
    if not are_nested(axes, a.dtype.width):
        return None
    offset = base(a) + sum(s * low for s, low in zip(steps, lows, strict=True))
    return Layout(offset, tuple(n for _, n in axes), tuple(s for s, _ in axes), a.dtype)


def _sizes(layout: Layout) -> dict[int, int] | None:
    """Size by stride; None where two dimensions have one stride, or one has none."""
    dims = falling(layout)
    sizes = {abs(layout.strides[k]): layout.shape[k] for k in dims}
    return sizes if len(sizes) == len(layout.axes()) else None
