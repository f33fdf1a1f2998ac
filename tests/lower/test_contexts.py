"""Conditions of statements: simplified without changing what they say."""

import itertools
import random

from fusekit.index import Form, Var
from fusekit.ir import Guard
from fusekit.lower.contexts import MOST_CASES, Ranges, simplify

I0 = Form.of(Var("i0", 10))
TESTS = {
    "a": (Guard(I0 - 2, 4),),
    "b": (Guard(I0 - 3, 2),),
    "c": (Guard(I0 - 7, 9),),
    "d": (Guard(I0 - 1, 6), Guard(I0 - 2, 9)),
}


def _holds(case: frozenset, values: dict[str, bool]) -> bool:
    return all(values[test] == wanted for test, wanted in case)


def _random_cases(choose: random.Random, most: int) -> frozenset:
    names = sorted(TESTS)
    return frozenset(
        frozenset((name, choose.random() < 0.5) for name in choose.sample(names, choose.randrange(1, 4)))
        for _ in range(choose.randrange(1, most))
    )


def test_simplify_keeps_the_meaning() -> None:
    choose = random.Random(1)
    for _ in range(300):
        cases = _random_cases(choose, 6)
        simple = simplify(cases)
        for values in itertools.product([False, True], repeat=4):
            world = dict(zip("abcd", values, strict=True))
            assert any(_holds(c, world) for c in cases) == any(_holds(c, world) for c in simple)


def test_many_cases_are_weakened() -> None:
    cases = [frozenset([(f"t{k}", True), ("always", True)]) for k in range(MOST_CASES + 1)]
    assert simplify(cases) == {frozenset([("always", True)])}


def test_ranges_keep_the_meaning() -> None:
    choose, ranges = random.Random(2), Ranges(TESTS)
    for _ in range(300):
        cases = _random_cases(choose, 5)
        cleaned = frozenset(c for c in map(ranges.clean, cases) if c is not None)
        short = ranges.absorb(cleaned)
        for i in range(10):
            world = {n: all(0 <= g.form.evaluate({"i0": i}) < g.extent for g in gs) for n, gs in TESTS.items()}
            assert any(_holds(c, world) for c in cases) == any(_holds(c, world) for c in short)


def test_nested_ranges_leave_one_test() -> None:
    ranges = Ranges(TESTS)
    assert ranges.clean(frozenset([("a", True), ("b", True)])) == {("b", True)}
    assert ranges.clean(frozenset([("b", True), ("c", False)])) == {("b", True)}
    assert ranges.clean(frozenset([("b", True), ("a", False)])) is None
