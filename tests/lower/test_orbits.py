"""Orbits against every element: each is stored once, by the iteration that works for it."""

from __future__ import annotations

import itertools
import random

import pytest

from fusekit.index import Form
from fusekit.lower.orbits import MOST, Index, Orbit, _closed, _firsts
from tests.lower.sketch import at


def evaluated(index: Index, place: tuple[int, ...]) -> tuple[int, ...]:
    env = {f"i{k}": i for k, i in enumerate(place)}
    return tuple(form.evaluate(env) for form in index)


def maps_of(shape: tuple[int, ...], rng: random.Random) -> Index:
    """A permutation of dimensions of one size, and flips of some."""
    index = list(at(*shape))
    order = list(range(len(shape)))
    if rng.random() < 0.6:
        a, b = rng.randrange(len(shape)), rng.randrange(len(shape))
        if shape[a] == shape[b]:
            order[a], order[b] = order[b], order[a]
    index = [index[k] for k in order]
    return tuple(-form + (n - 1) if rng.random() < 0.5 else form for form, n in zip(index, shape, strict=True))


@pytest.mark.parametrize("seed", range(30))
def test_every_element_has_one_that_works_for_it(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.choice((2, 3, 5, 6))
    shape = rng.choice([(n,), (n, n), (n, 4), (3, n, n), (n, n, n)])
    maps = list({maps_of(shape, rng) for _ in range(rng.randint(1, 2))})
    closed = _closed(shape, maps)
    if not closed:
        return
    assert len(closed) < MOST
    orbit = Orbit(shape, closed, tuple(_firsts(shape, closed)))
    stored: dict[tuple[int, ...], int] = dict.fromkeys(itertools.product(*map(range, shape)), 0)
    own = at(*shape)
    guards = list(orbit.guards(own))
    for place in stored:
        env = {f"i{k}": i for k, i in enumerate(place)}
        if all(0 <= guard.form.evaluate(env) < guard.extent for guard in guards):
            for element in {evaluated(one, place) for one in (own, *orbit.others(own))}:
                stored[element] += 1
    assert set(stored.values()) == {1}


def test_what_does_not_lead_back_is_no_orbit() -> None:
    i, j = at(4, 6)
    assert _closed((4, 6), [(Form.of(2), j)]) == (), "a row"
    assert _closed((4, 6), [(i // 2, j)]) == (), "halves"
    assert _closed((4, 40), [(i, (at(4, 40)[1] + 1) % 40)]) == (), "a shift around the end is too long"
    assert len(_closed((4, 6), [(-i + 3, j)])) == 1
    assert len(_closed((4, 6), [(-i + 3, j), (i, -j + 5)])) == 3
