"""Which element of a region lives at an address: the inverse of a layout, as index forms and the conditions left.

Two ways, in this order. *Align* writes the address on the region's own strides, so that digits stay plain variables;
it holds when no carry can pass from one stride to the next. *Mixed radix* divides by falling strides and always holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import gcd

from fusekit.index import Form
from fusekit.index.form import ZERO, Atom
from fusekit.ir import Guard, Layout


class Kind(Enum):
    """How reads meet a region: never, always, under guards, or in a way that has no index form."""

    DISJOINT = "disjoint"
    INSIDE = "inside"
    PARTIAL = "partial"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Relation:
    """``index``: one form a dimension of the region, right where all ``guards`` hold (exactly there they meet)."""

    kind: Kind
    index: tuple[Form, ...] = ()
    guards: tuple[Guard, ...] = ()


NEVER, UNKNOWN = Relation(Kind.DISJOINT), Relation(Kind.NONE)
Axis = tuple[int, int]
"""(stride, size), both positive."""


def base(layout: Layout) -> Form:
    """The lowest address that an element starts at: the offset, once negative strides are turned round."""
    return layout.offset + sum(s * (n - 1) for s, n in zip(layout.strides, layout.shape, strict=True) if s < 0)


def falling(layout: Layout) -> list[int]:
    """Dimensions that move the address, by falling size of their stride."""
    moving = [k for k, (n, s) in enumerate(zip(layout.shape, layout.strides, strict=True)) if n > 1 and s]
    return sorted(moving, key=lambda k: -abs(layout.strides[k]))


def are_nested(axes: Sequence[Axis], width: int) -> bool:
    """Is each stride (falling) at least as long as all that the smaller ones and an element of ``width`` span?"""
    below = width
    for stride, size in reversed(axes):
        if stride < below:
            return False
        below += stride * (size - 1)
    return True


@lru_cache(maxsize=1 << 16)
def nested(layout: Layout) -> bool:
    """Has every address at most one index, by nesting of the strides? (A stride of 0 counts as one element.)"""
    axes = [(abs(layout.strides[k]), layout.shape[k]) for k in falling(layout)]
    return are_nested(axes, layout.dtype.width)


@lru_cache(maxsize=1 << 16)
def locate(address: Form, region: Layout) -> Relation:
    """The index of ``region`` whose element starts at byte ``address``; INSIDE when intervals prove that there is one.

    Dimensions of stride 0 get index 0: their elements are one. NONE where the region's strides do not nest.
    """
    dims = falling(region)
    axes = [(abs(region.strides[k]), region.shape[k]) for k in dims]
    if not region.numel:
        return NEVER
    if not are_nested(axes, region.dtype.width):
        return UNKNOWN
    found = digits(address - base(region), axes)
    if found.kind is Kind.DISJOINT:
        return found
    index = [ZERO] * len(region.shape)
    for k, digit in zip(dims, found.index, strict=True):
        index[k] = digit if region.strides[k] > 0 else -digit + (region.shape[k] - 1)
    return Relation(found.kind, tuple(index), found.guards)


def digits(offset: Form, axes: Sequence[Axis]) -> Relation:
    """The digits of ``offset`` on nested axes of falling stride."""
    for gaps in dict.fromkeys((_gaps(offset, axes), ())):
        if found := _align(offset, axes, gaps):
            return found
    return _mixed_radix(offset, axes)


def _gaps(offset: Form, axes: Sequence[Axis]) -> tuple[int, ...]:
    """Coefficients that step over a whole axis of the region: 16 for the rows of a matrix against one row of 16."""
    known = {stride for stride, _ in axes}
    found = {abs(c) for _, c in offset.terms} - known
    spans = [(stride, stride * size) for stride, size in axes]
    return tuple(c for c in found if any(c >= span for _, span in spans) and not any(s < c < span for s, span in spans))


def _relation(found: Sequence[Form], conditions: Sequence[tuple[Form, int]]) -> Relation:
    guards: list[Guard] = []
    for form, n in conditions:
        low, high = form.bounds
        if high < 0 or low >= n:
            return NEVER
        if low < 0 or high >= n:
            guards.append(Guard(form, n))
    return Relation(Kind.PARTIAL if guards else Kind.INSIDE, tuple(found), tuple(guards))


def _mixed_radix(offset: Form, axes: Sequence[Axis]) -> Relation:
    found: list[Form] = []
    rest = offset
    for stride, _ in axes:
        found.append(rest // stride)
        rest = rest % stride
    unit = gcd(*(c for _, c in rest.terms))
    if unit and rest.is_divisible(unit):  # only 0 matters: a smaller form says the same
        rest = rest.exact_quotient(unit)
    elif unit:
        return NEVER
    return _relation(found, [*((form, n) for form, (_, n) in zip(found, axes, strict=True)), (rest, 1)])


def _align(offset: Form, axes: Sequence[Axis], gaps: Sequence[int]) -> Relation | None:
    """Digits without division: ``offset - address(j) == sum(step * (form - j))``, 0 only where every form equals its j.

    Steps are the region's strides, ``gaps``, and what is left of coefficients; on the last two the region has one
    element.
    """
    size = dict(axes)
    steps, pieces = _decompose(offset, sorted([*size, *gaps], reverse=True))
    forms = [Form.make(piece) for piece in pieces]
    sizes = [size.get(step, 1) for step in steps]
    spans = [(form.bounds[0] - n + 1, form.bounds[1]) for form, n in zip(forms, sizes, strict=True)]
    shifts = shift(steps, spans, offset.const)
    if shifts is None:
        return None
    forms = [form + t for form, t in zip(forms, shifts, strict=True)]
    found = [form for step, form in zip(steps, forms, strict=True) if step in size]
    return _relation(found, list(zip(forms, sizes, strict=True)))


def _decompose(offset: Form, strides: Sequence[int]) -> tuple[list[int], list[list[tuple[Atom, int]]]]:
    """Steps by falling size, and the terms of ``offset`` on each; the constant is left to ``shift``.

    The *nearest* multiple is taken, so that ``1023*n`` is ``1024*n - n``.
    """
    steps = list(strides)
    pieces: list[list[tuple[Atom, int]]] = [[] for _ in steps]
    residues: dict[int, list[tuple[Atom, int]]] = {}
    for atom, c in offset.terms:
        for stride, piece in zip(strides, pieces, strict=False):
            q = -((stride - 2 * c) // (2 * stride))
            if q:
                piece.append((atom, q))
                c -= q * stride
        if c:
            residues.setdefault(abs(c), []).append((atom, 1 if c > 0 else -1))
    for step in sorted(residues, reverse=True):
        steps.append(step)
        pieces.append(residues[step])
    return steps, pieces


def shift(steps: Sequence[int], spans: Sequence[tuple[int, int]], delta: int) -> tuple[int, ...] | None:
    """Shifts t with ``delta == sum(step * t)`` such that no carry is possible, or None.

    ``spans`` bound the difference of both sides on each step before shifting; carries are excluded when what the
    smaller steps sum up to stays below the step.
    """

    def solve(k: int, rest: int) -> tuple[tuple[int, ...], int, int] | None:
        if k == len(steps):
            return ((), 0, 0) if rest == 0 else None
        step, (low, high) = steps[k], spans[k]
        t = rest // step
        for candidate in (t, t + 1):
            found = solve(k + 1, rest - step * candidate)
            if found and -step < found[1] and found[2] < step:
                below, least, most = found
                return (candidate, *below), least + step * (low + candidate), most + step * (high + candidate)
        return None

    found = solve(0, delta)
    return found[0] if found else None
