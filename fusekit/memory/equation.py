"""Bounded linear equations: the question behind every overlap.

Deciding one is NP-hard in the number of unknowns; views of real tensors fall to merging, divisibility and bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

Term = tuple[int, int]
"""(coefficient, greatest value) of an unknown ``0 <= z <= greatest``."""


def merge(terms: Iterable[Term]) -> list[Term]:
    """The same set of sums from fewer unknowns, by rising coefficient; coefficients must be positive.

    Unknowns of one coefficient are one; ``c*z + k*c*y`` without gaps (``k <= greatest(z) + 1``) is ``c*x``.
    """
    joined: dict[int, int] = {}
    for c, n in terms:
        if n:
            joined[c] = joined.get(c, 0) + n
    out: list[Term] = []
    for c, n in sorted(joined.items()):
        if out and c % out[-1][0] == 0 and (k := c // out[-1][0]) <= out[-1][1] + 1:
            out[-1] = out[-1][0], out[-1][1] + k * n
        else:
            out.append((c, n))
    return out


def has_solution(terms: Iterable[Term], target: int, budget: int) -> bool | None:
    """Is there ``sum(c * z) == target`` with ``0 <= z <= n`` for every (c, n)?

    None: ``budget`` candidates were not enough. Coefficients may be negative (``z -> n - z`` turns one round) or 0.
    """
    positive: list[Term] = []
    for c, n in terms:
        if c < 0:
            target -= c * n
        positive.append((abs(c), n if c else 0))
    unknowns = merge(positive)[::-1]
    divisors, spans = [0], [0]
    for c, n in reversed(unknowns):
        divisors.append(gcd(divisors[-1], c))
        spans.append(spans[-1] + c * n)
    try:
        return _search(unknowns, divisors[::-1], spans[::-1], 0, target, [budget])
    except OverflowError:
        return None


def _search(unknowns: list[Term], divisors: list[int], spans: list[int], k: int, rest: int, budget: list[int]) -> bool:
    if rest < 0 or rest > spans[k]:
        return False
    if k == len(unknowns):
        return rest == 0
    if rest % divisors[k]:
        return False
    c, n = unknowns[k]
    if k == len(unknowns) - 1:
        return rest // c <= n
    if k == len(unknowns) - 2:
        return _has_pair(unknowns[k], unknowns[k + 1], rest)
    least = max(0, -((spans[k + 1] - rest) // c))
    for z in range(min(n, rest // c), least - 1, -1):
        budget[0] -= 1
        if budget[0] < 0:
            raise OverflowError
        if _search(unknowns, divisors, spans, k + 1, rest - c * z, budget):
            return True
    return False


def _has_pair(first: Term, second: Term, rest: int) -> bool:
    """Is ``a*x + b*y == rest``? By the inverse of a modulo b, whatever the bounds; gcd(a, b) divides ``rest``."""
    (a, n), (b, m) = first, second
    unit = gcd(a, b)
    a, b, rest = a // unit, b // unit, rest // unit
    low, high = max(0, -((b * m - rest) // a)), min(n, rest // a)
    wanted = rest * pow(a, -1, b)
    return low + (wanted - low) % b <= high
