"""Numbers that do not fork plans."""

import math

import pytest
import torch

from fusekit.index import number_var
from fusekit.ir import Number
from fusekit.trace import differing, generalise, record, signature
from fusekit.trace.numbers import exactly
from tests.trace.replay import run_graph


@pytest.fixture(autouse=True)
def _inference():
    with torch.no_grad():
        yield


def adamw(p, g, m, v, step, lr=1e-3, b1=0.9, b2=0.999):
    m.lerp_(g, 1 - b1)
    v.mul_(b2).addcmul_(g, g, value=1 - b2)
    c1, c2 = 1 - b1**step, 1 - b2**step
    p.addcdiv_(m, (v.sqrt() / math.sqrt(c2)).add_(1e-8), value=-lr / c1)


def cache_step(cache, k, at):
    cache[:, at] = k
    window = cache[:, at - 2 : at]
    return window.sum(1) + cache[:, at], window[0, 1]


def test_steps_share_a_signature():
    args = [torch.rand(3) for _ in range(4)]
    (one, first), (two, second) = (signature(record(adamw, (*args, step))) for step in (1, 2))
    assert one == two and hash(one) == hash(two)
    slots = differing(first, second)
    general = generalise(record(adamw, (*args, 1)), slots)
    assert [n.index for n in general.graph.numbers()] == list(range(len(slots)))
    assert [first[slot] for slot in general.parameters] == [n.example for n in general.graph.numbers()]
    want, got = [t.clone() for t in args], [t.clone() for t in args]
    adamw(*want, 2)
    run_graph(general, (*got, 2), numbers=[second[slot] for slot in general.parameters])
    assert all(map(torch.equal, want, got))


def test_view_offsets_become_forms():
    cache, k = torch.rand(2, 8, 3), torch.rand(2, 3)
    recordings = [record(cache_step, (cache, k, at)) for at in (2, 5)]
    (one, first), (two, second) = map(signature, recordings)
    assert one == two
    general = generalise(recordings[0], differing(first, second))
    graph = general.graph
    n0, n1 = number_var(0, 8), number_var(1, 7)  # a position, and a start of two elements
    assert graph.layout("%select").offset.coefficient(n0) == 12
    assert graph.layout("%slice").offset.coefficient(n1) == 12
    assert graph.layout("%slice").offset.const == 0
    derived = graph.layout(graph.outputs()[1]).offset  # window[0, 1]
    assert derived.coefficient(n1) == 12 and derived.const == 12
    for at in (2, 3, 7):
        numbers = signature(record(cache_step, (cache, k, at)))[1]
        want, got = cache.clone(), cache.clone()
        expected = cache_step(want, k, at)
        found = run_graph(general, (got, k, at), numbers=[numbers[slot] for slot in general.parameters])
        assert all(map(torch.equal, expected, found)) and torch.equal(want, got)


def test_one_position_is_one_number():
    recording = record(cache_step, (torch.rand(2, 8, 3), torch.rand(2, 3), 4))
    _, numbers = signature(recording)
    assert numbers == (4, 2, 0, 1)
    assert generalise(recording, (0,)).graph.numbers() == (Number(0, 4),)


def test_negative_indices_are_normalised():
    x = torch.rand(6)
    (one, a), (two, b) = (signature(record(lambda x, k: x[k] + 1, (x, k))) for k in (-1, 5))
    assert one == two and a == b == (5, 1)


@pytest.mark.parametrize(
    ("fn", "first", "second"),
    [
        (lambda x, k: x[:k] * 2, 2, 3),  # another length
        (lambda x, k: x * k, 2, 2.0),  # another type
        (lambda x, k: x + 1 if k > 2 else x - 1, 1, 3),  # another path
        (lambda x, k: torch.arange(k, k + 3), 1, 2),  # shapes hang on it
        (lambda x, k: x**k, 2, 3),  # eager multiplies
        (lambda x, k: (x + 1, k), 1, 2),  # returned as it is
    ],
)
def test_numbers_that_steer(fn, first, second):
    x = torch.rand(6)
    assert signature(record(fn, (x, first)))[0] != signature(record(fn, (x, second)))[0]


def test_overlap_is_in_the_signature():
    def f(a, b):
        a.exp_()
        return b + 1

    a = torch.rand(4, 4)
    signs = [signature(record(f, (a, b)))[0] for b in (a[0], a[1], torch.rand(4), torch.rand(4))]
    assert signs[0] != signs[1] and signs[0] != signs[2] and signs[2] == signs[3]
    assert signs[0].without_pattern == signs[2].without_pattern


def test_numbers_are_told_apart_by_bits():
    assert differing((0.0, 1.0, math.nan), (-0.0, 1.0, math.nan)) == (0,)
    assert exactly(1) != exactly(1.0) != exactly(True)
