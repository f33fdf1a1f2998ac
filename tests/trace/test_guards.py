"""Keys and the generated predicate agree on which calls are alike."""

import pytest
import torch

from fusekit.trace import Key, predicate_of, record, same_pattern
from fusekit.trace.spans import Span, meeting

WEIGHT = torch.ones(4, 4)
SCALE = 2.0


def f(a, b, k):
    return a.exp_() * b.tanh_() + WEIGHT * SCALE + k


@pytest.fixture
def learnt():
    with torch.no_grad():
        a, b = torch.rand(4, 4), torch.rand(4)
        recording, key = record(f, (a, b, 3)), Key()
        key.learn(recording)
        yield key, recording, a, b


def strange(a, b):
    """Calls that are not like (a, b, 3)."""
    return {
        "number": (a, b, 4),
        "type of number": (a, b, 3.0),
        "bool": (a, b, True),
        "count": (a, b),
        "size": (torch.rand(5, 4), b, 3),
        "strides": (torch.rand(4, 4).t(), b, 3),
        "dtype": (a.double(), b, 3),
        "overlap": (a, a[0], 3),
        "requires grad": (a.clone().requires_grad_(), b, 3),
        "subclass": (torch.nn.Parameter(a.clone()), b, 3),
        "conj": (a, torch.zeros(4, dtype=torch.complex64).conj(), 3),
        "no tensor": (a, None, 3),
        "capture as argument": (WEIGHT, b, 3),
    }


def test_key_tells_calls_apart(learnt):
    key, _, a, b = learnt
    base = key.look((a, b, 3), {}).key
    assert base == key.look((torch.rand(4, 4), torch.rand(4), 3), {}).key
    hash(base)
    for name, args in strange(a, b).items():
        assert key.look(args, {}).key != base, name
    assert key.look((a, b), {"k": 3}).key != base


def test_predicate_tells_calls_apart(learnt):
    key, recording, a, b = learnt
    predicate = predicate_of(key, recording, (a, b, 3), {})
    inputs = predicate((a, b, 3))
    assert [t is want for t, want in zip(inputs, (a, b, WEIGHT), strict=True)] == [True] * 3
    assert predicate((fresh := torch.rand(4, 4), b, 3))[0] is fresh
    for name, args in strange(a, b).items():
        assert predicate(args) is None, name
    with torch.enable_grad():
        assert predicate((a, b, 3)) is None


def test_predicate_sees_rebinding(learnt, monkeypatch):
    key, recording, a, b = learnt
    predicate = predicate_of(key, recording, (a, b, 3), {})
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "SCALE", 3.0)
        assert predicate((a, b, 3)) is None
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "WEIGHT", torch.zeros(4, 4))
        assert predicate((a, b, 3)) is None
    assert predicate((a, b, 3)) is not None


def test_overlaps_are_exact(learnt):
    key, *_ = learnt
    a = torch.rand(4, 4)
    rows = [key.look((a, a[k], 3), {}).key for k in (0, 1)]
    assert rows[0] != rows[1]
    halves = [key.look((a[:2], a[2 + k], 3), {}).key for k in (0, 1)]
    assert halves[0] == halves[1]  # disjoint is all that counts
    assert key.look((a, a, 3), {}).key != key.look((a, a[:], 3), {}).key
    recording = record(lambda a, b: a + b, (a, a[0]))
    key = Key()
    key.learn(recording)
    predicate = predicate_of(key, recording, (a, a[0]), {})
    assert predicate((a, a[0])) is not None and predicate((a, a[1])) is None
    assert same_pattern(recording, [a, a[0]]) is None
    assert "overlaps" in same_pattern(recording, [a, a[1]])


def test_predicate_sees_identity():
    a = torch.rand(4)
    recording, key = record(lambda a, b: a is b, (a, a)), Key()
    key.learn(recording)
    predicate = predicate_of(key, recording, (a, a), {})
    assert predicate((a, a)) is not None and predicate((a, a[:])) is None


def test_storages_count_where_the_program_sees_them():
    key = Key()
    key.learn(record(lambda a: a.as_strided((2,), (1,), 0), (torch.zeros(4)[2:],)))
    base = torch.zeros(4)
    assert key.is_exact
    assert key.look((base[:2],), {}).key != key.look((base[2:],), {}).key


def test_zeros_and_nans_are_told_apart():
    with torch.no_grad():
        x = torch.ones(2)
        recording, key = record(lambda a, k: a * k, (x, 0.0)), Key()
        key.learn(recording)
        assert key.look((x, 0.0), {}).key != key.look((x, -0.0), {}).key
        nan = float("nan")
        assert key.look((x, nan), {}).key == key.look((x, float("nan")), {}).key
        predicate = predicate_of(key, recording, (x, 0.0), {})
        assert predicate((x, 0.0)) is not None and predicate((x, -0.0)) is None


def test_meeting_spans():
    spans = [Span(0, 8, 1, 1), Span(4, 6, 1, 2), Span(8, 9, 1, 3), Span(5, 5, 1, 4), Span(0, 8, 2, 5)]
    assert meeting(spans) == ((0, 4, 0, False, False), (0, 1, 4, True, False), (4, 1, 4, False, False))


def test_the_key_without_numbers(learnt):
    key, _, a, b = learnt
    steady = key.look((a, b, 3), {}).without_numbers
    assert steady == key.look((a, b, 9), {}).without_numbers != key.look((a, b, 9.0), {}).without_numbers
    assert steady != key.look((a, a[0], 3), {}).without_numbers
    hash(steady)
