"""Python numbers among the arguments of a random program, and calls that differ in them."""

from __future__ import annotations

from dataclasses import replace

from fusekit.testing.choices import Chooser
from fusekit.testing.programs import Placement

CALLS = 4
SCALARS = (0.5, 1.5, -2.0, 0.0, -0.0, 1.0, 3.0, 0.1, 0.75)
SPECIAL = (float("nan"), float("inf"), -float("inf"), 1e39, -1e39, 1e30, 16777217, 1 << 62, True, 300, -1)


def with_numbers(c: Chooser, first: Placement, second: Placement, steady: bool) -> tuple[Placement, ...]:
    """Four calls: the first two share memory alike, as a rule, and so do some later ones; the last may be the first
    one again. Two numbers index, and are equal now and then; they lie in a tensor, at its ends, past them, or count
    from its end. The third is computed with. One of them may be of another type than before. ``steady``: such odd
    numbers and other ways to share memory are rare, so that one recording may stand for several calls."""
    sizes = [size for view in first.arguments for size in view.shape if size]
    size = c.pick(sizes) if sizes else 1
    is_float, odd = c.chance(70), 8 if steady else 35
    calls: list[Placement] = []
    for call in range(CALLS):
        n = _index(c, size, odd)
        m = n if c.chance(35) else _index(c, size, odd)
        if steady and calls and c.chance(50):  # one of them moves, or none
            n, m = (n if c.chance(65) else calls[0].numbers[0]), calls[0].numbers[1]
        where = first if call == 0 or c.chance(90 if steady or call == 1 else 50) else second
        calls.append(replace(where, numbers=(n, m, _scalar(c, is_float))))
    if c.chance(20):
        calls[-1] = calls[0]
    return tuple(calls)


def _index(c: Chooser, size: int, odd: int) -> int | float:
    if not c.chance(odd):
        return c.number(0, size - 1)
    at = c.pick((0, size - 1, size - 2, size, size + 1, -1, -1, -2, -size, -size - 1))
    return at if not c.chance(6) else c.pick((True, False, float(at)))


def _scalar(c: Chooser, is_float: bool) -> int | float:
    if c.chance(12):
        return c.pick(SPECIAL)
    return c.pick(SCALARS) if is_float != c.chance(6) else c.number(-2, 4)
