"""Segments: which stores run together, and that their order is right for programs with many flushes."""

import pytest
import torch

import fusekit as fk
from fusekit.testing import differential


def cut_then_writes(a, b):
    c = fk.cut(a + 1)
    b.mul_(2)
    c.mul_(3)
    return c, b, b * 3


def many_rows(a, b):
    b.mul_(2)
    for k in range(18):
        a[k].add_(1)
    return b * 3, a * 3


def two_cuts(a, b):
    a.add_(1)
    c = fk.cut(a * b[0])
    a.mul_(c)
    d = fk.cut(a[1:] - a[:-1])
    b.sub_(a[0, :4])
    return d, c + a.sum()


def long_chain(a, b):
    x = a
    for k in range(170):
        x = torch.sin(x) * x + b[k % 4]
        if k % 40 == 0:
            a.add_(x)
    return x, a


@pytest.mark.parametrize("fn", [cut_then_writes, many_rows, two_cuts, long_chain], ids=lambda f: f.__name__)
def test_flushes_without_library_calls(fn) -> None:
    torch.manual_seed(0)
    args = (torch.rand(20, 4), torch.rand(4))
    report = differential(fn, fk.jit(fn), args)
    assert report.ok, report
    for name, step in fk.explore(fn, *args).check_steps().items():
        assert step.ok, f"after {name}\n{step}"
