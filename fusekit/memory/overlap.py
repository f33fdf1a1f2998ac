"""Do two layouts share bytes, and how: exact on sets of bytes, whatever strides, widths and offsets are.

Parameters in the offsets are bounded unknowns that both sides share: what cancels is gone, and DISJOINT holds for all
of their values. Any other answer then means *may*.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import gcd, prod

from fusekit.index import Form, Var
from fusekit.ir import Guard, Layout
from fusekit.memory.equation import Term, has_solution, merge
from fusekit.memory.inverse import Axis, Kind, are_nested, base, digits

BUDGET = 20000


class Overlap(Enum):
    """The bytes of one layout against those of another; UNKNOWN (budget spent) counts as overlapping."""

    DISJOINT = "disjoint"
    SAME = "same"
    CONTAINS = "contains"
    WITHIN = "within"
    PARTIAL = "partial"
    UNKNOWN = "unknown"


@lru_cache(maxsize=1 << 16)
def meets(a: Layout, b: Layout, budget: int = BUDGET) -> bool | None:
    """Do they share a byte (for some value of the parameters)? None: not known within ``budget`` candidates."""
    if not ranges_meet(a, b):
        return False
    delta = b.offset - a.offset
    terms = [(s, n - 1) for n, s in a.axes()] + [(-s, n - 1) for n, s in b.axes()]
    target = delta.const
    for atom, c in delta.terms:
        least, most = Form.of(atom).bounds
        target += c * least
        terms.append((-c, most - least))
    unit = gcd(a.dtype.width, b.dtype.width, target, *(c for c, _ in terms))
    shorter = b.dtype.width // unit - 1
    spare = a.dtype.width // unit + shorter - 1  # byte p of one element less byte q of the other, counted from -shorter
    in_units = [(c // unit, n) for c, n in terms]
    return has_solution([*in_units, (1, spare)], target // unit + shorter, budget)


def ranges_meet(a: Layout, b: Layout) -> bool:
    """May the byte ranges of two layouts cross, whatever lies between their elements?"""
    if not a.numel or not b.numel:
        return False
    low, high = (b.offset - a.offset).bounds
    (a_low, a_high), (b_low, b_high) = _reach(a), _reach(b)
    return low + b_low < a_high and high + b_high > a_low


def _reach(layout: Layout) -> tuple[int, int]:
    """First byte and one past the last, from the offset on."""
    moves = [s * (n - 1) for n, s in layout.axes()]
    return sum(m for m in moves if m < 0), sum(m for m in moves if m > 0) + layout.dtype.width


@lru_cache(maxsize=1 << 16)
def overlap(a: Layout, b: Layout, budget: int = BUDGET) -> Overlap:
    """The bytes of ``a`` against those of ``b``: CONTAINS when a has all of b and more, WITHIN the other way round."""
    met = meets(a, b, budget)
    if not met:
        return Overlap.UNKNOWN if met is None else Overlap.DISJOINT
    first, second = _byte_sets(a, b)
    of_a, of_b = _contains(second, first), _contains(first, second)
    if (of_a is None or of_b is None) and (masks := _masks(first, second, budget)):
        of_a, of_b = not masks[0] & ~masks[1], not masks[1] & ~masks[0]
    if of_a and of_b:
        return Overlap.SAME
    if of_a is None or of_b is None:
        return Overlap.UNKNOWN
    if of_a:
        return Overlap.WITHIN
    return Overlap.CONTAINS if of_b else Overlap.PARTIAL


def shared_bytes(a: Layout, b: Layout, budget: int = BUDGET) -> int | None:
    """How many bytes both have, or None where counting is not cheap or parameters decide it."""
    if meets(a, b, budget) is False:
        return 0
    first, second = _byte_sets(a, b)
    masks = _masks(first, second, budget)
    return (masks[0] & masks[1]).bit_count() * first.unit if masks else None


def has_internal_overlap(layout: Layout, budget: int = BUDGET) -> bool:
    """Do two indices of one layout share a byte? True also where ``budget`` candidates do not tell."""
    if not layout.numel:
        return False
    axes = sorted(((abs(s), n) for n, s in layout.axes()), reverse=True)
    width = layout.dtype.width
    if any(not s for s, _ in axes):
        return True
    if are_nested(axes, width):
        return False
    for k, (stride, size) in enumerate(axes):  # the first dimension in which they differ, by at least one step
        later = [(s, 2 * (n - 1)) for s, n in axes[k + 1 :]]
        middle = sum(s * (n - 1) for s, n in axes[k + 1 :]) + width - 1
        if has_solution([(stride, size - 2), *later, (1, 2 * (width - 1))], middle - stride, budget) is not False:
            return True
    return False


# ---- sets of bytes: the order of elements and how often one occurs no longer matter ---------------------------------


@dataclass(frozen=True, slots=True)
class _Bytes:
    """Bytes at ``unit * (base + sum(stride * i))``, axes by falling stride; ``base`` and strides are in units."""

    base: Form
    axes: tuple[Axis, ...]
    unit: int

    @property
    def span(self) -> int:
        return sum(s * (n - 1) for s, n in self.axes) + 1

    @property
    def most(self) -> int:
        """How many units it has at most, and exactly if the axes nest."""
        return prod(n for _, n in self.axes)


def _byte_sets(a: Layout, b: Layout) -> tuple[_Bytes, _Bytes]:
    """Both as sets in their largest common unit, the first at base 0."""
    delta = base(b) - base(a)
    numbers = [a.dtype.width, b.dtype.width, delta.const, *(c for _, c in delta.terms)]
    unit = gcd(*numbers, *(s for x in (a, b) for _, s in x.axes()))
    first, second = (tuple((s, n + 1) for s, n in merge(_unit_terms(x, unit))[::-1]) for x in (a, b))
    return _Bytes(Form(), first, unit), _Bytes(delta.exact_quotient(unit), second, unit)


def _unit_terms(layout: Layout, unit: int) -> list[Term]:
    return [(abs(s) // unit, n - 1) for n, s in layout.axes() if s] + [(1, layout.dtype.width // unit - 1)]


def _contains(outer: _Bytes, inner: _Bytes) -> bool | None:
    """Has ``outer`` every byte of ``inner``, for all values of the parameters? None: nobody knows."""
    if are_nested(inner.axes, 1) and inner.most > outer.most:
        return False
    if not are_nested(outer.axes, 1):
        return None
    address = inner.base - outer.base + Form.make((Var(f"i{k}", n), s) for k, (s, n) in enumerate(inner.axes))
    found = digits(address, outer.axes)
    if found.kind is not Kind.PARTIAL:
        return found.kind is Kind.INSIDE
    return False if any(_is_broken(guard) for guard in found.guards) else None


def _is_broken(guard: Guard) -> bool:
    """Does some index break it? The bounds of a linear form are reached; with divisions, a few values are tried."""
    if all(isinstance(atom, Var) for atom, _ in guard.form.terms):
        return True
    free = sorted(guard.form.free, key=lambda var: var.name)
    tries = ({var.name: var.extent * k // 17 for var in free} for k in range(17))
    return any(not 0 <= guard.form.evaluate(values) < guard.extent for values in tries)


def _masks(first: _Bytes, second: _Bytes, budget: int) -> tuple[int, int] | None:
    """Both sets as bits of one integer; None where a parameter is left or the span is beyond 128 bits a candidate."""
    delta = second.base - first.base
    if not delta.is_constant or max(first.span, second.span) > 128 * budget:
        return None
    return _mask(first) << max(0, -delta.const), _mask(second) << max(0, delta.const)


def _mask(units: _Bytes) -> int:
    bits = 1
    for stride, size in reversed(units.axes):
        done = 1
        while done < size:  # doubling: each step ors in as many copies as there are, or as are missing
            step = min(done, size - done)
            bits |= bits << (stride * step)
            done += step
    return bits
