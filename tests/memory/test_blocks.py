"""Byte spans that meet."""

import random

from fusekit.memory import join


def test_join_groups_spans_that_share_a_byte():
    assert join([(0, 4), (4, 8), (2, 5)]) == ((0, 1, 2),)
    assert join([(0, 4), (4, 8)]) == ((0,), (1,))
    assert join([(0, 100), (10, 10), (50, 60), (200, 210), (90, 120)]) == ((0, 2, 4), (1,), (3,))
    assert join([]) == ()


def test_join_is_the_transitive_closure():
    rng = random.Random(5)
    for _ in range(300):
        spans = [(low, low + rng.randint(0, 6)) for low in (rng.randint(0, 40) for _ in range(rng.randint(0, 9)))]
        groups = [{k} for k in range(len(spans))]
        for a in range(len(spans)):
            for b in range(a):
                if max(spans[a][0], spans[b][0]) < min(spans[a][1], spans[b][1]):
                    one = next(g for g in groups if a in g) | next(g for g in groups if b in g)
                    groups = [g for g in groups if not g & one] + [one]
        assert join(spans) == tuple(sorted(tuple(sorted(g)) for g in groups))
