"""A shadow run finds the numbers that a recording would find, or says that it cannot."""

import math

import pytest
import torch

from fusekit.trace import record, signature
from fusekit.trace.shadow import Script

LOG: list[int] = []


@pytest.fixture(autouse=True)
def _inference():
    with torch.no_grad():
        yield


def adamw(p, g, m, v, step, lr=1e-3, b1=0.9, b2=0.999):
    p.mul_(1 - lr * 0.01)
    m.lerp_(g, 1 - b1)
    v.mul_(b2).addcmul_(g, g, value=1 - b2)
    c1, c2 = 1 - b1**step, 1 - b2**step
    p.addcdiv_(m, (v.sqrt() / math.sqrt(c2)).add_(1e-8), value=-lr / c1)


def cache_step(cache, k, at):
    cache[:, at] = k
    cache[0, at : at + 2] += 1.5
    return cache[:, at].sum() * 2


def both(fn, args, first, second):
    script = Script(record(fn, (*args, first)))
    before = [(t.clone(), t._version) for t in args]
    found = script.numbers(fn, (*args, second), {})
    assert all(torch.equal(t, was) and t._version == version for t, (was, version) in zip(args, before, strict=True))
    return found, signature(record(fn, (*args, second)))[1]


def test_optimiser_steps():
    found, want = both(adamw, [torch.rand(3) for _ in range(4)], 1, 7)
    assert found == want


@pytest.mark.parametrize("at", [3, 5, -3])
def test_cache_positions(at):
    found, want = both(cache_step, [torch.rand(2, 8, 4), torch.rand(2, 4)], 2, at)
    assert found == want or (at < 0 and found is None)


@pytest.mark.parametrize(
    ("fn", "first", "second"),
    [
        (lambda x, n: x * n if n > 3 else x + n, 5, 2),  # another path
        (lambda x, n: x * n, 2, 2.5),  # another type
        (lambda x, n: x[n], 1, 9),  # out of range
        (lambda x, n: x[:n] * 2, 1, 2),  # another length
        (lambda x, n: x.reshape(n, -1), 2, 3),  # a shape
        (lambda x, n: (x * 2.0, n), 1, 3),  # returned
        (lambda x, n: (x, x * 2)[n], 0, 1),  # another tensor returned
        (lambda x, n: [x] * n, 1, 2),  # another structure
        (lambda x, n: x[n] * x[2], 3, 2),  # two numbers become one
        (lambda x, n: x**n, 2, 3),  # another formula
    ],
)
def test_what_must_be_recorded(fn, first, second):
    x = torch.rand(6)
    assert Script(record(fn, (x, first))).numbers(fn, (x, second), {}) is None


def test_same_path_other_numbers():
    def fn(x, n):
        return x * float(n) if n > 3 else x + n

    x = torch.rand(3)
    assert Script(record(fn, (x, 5))).numbers(fn, (x, 9), {}) == (9.0,)


def test_python_effects_are_put_back():
    def fn(x, n):
        if n > 3:
            LOG.append(n)
        return x * n

    x = torch.rand(3)
    assert Script(record(fn, (x, 1))).numbers(fn, (x, 5), {}) is None
    assert LOG == []
