"""The solver against every candidate."""

import itertools
import random

from fusekit.memory.equation import has_solution, merge


def sums(terms):
    return {
        sum(c * z for (c, _), z in zip(terms, point, strict=True))
        for point in itertools.product(*(range(n + 1) for _, n in terms))
    }


def test_every_target_of_random_equations():
    rng = random.Random(11)
    for _ in range(150):
        terms = [(rng.randint(-9, 9), rng.randint(0, 4)) for _ in range(rng.randint(0, 4))]
        reached = sums(terms)
        for target in range(min(reached) - 2, max(reached) + 3):
            assert has_solution(terms, target, 10_000) == (target in reached), (terms, target)


def test_merging_keeps_the_sums():
    rng = random.Random(12)
    for _ in range(200):
        terms = [(rng.randint(1, 9), rng.randint(0, 4)) for _ in range(rng.randint(0, 4))]
        assert sums(merge(terms)) == sums(terms)
    assert merge([(4, 255), (1024, 63), (1, 3)]) == [(1, 65535)], "a dense tensor is one unknown"


def test_two_unknowns_are_solved_whatever_their_bounds():
    big = 10**30
    assert has_solution([(big + 1, big), (big - 1, big)], big * big, 0) is not None
    assert has_solution([(6, big), (10, big)], 10**20 + 1, 0) is False
    assert has_solution([(6, big), (10, big)], 10**20, 0) is True
