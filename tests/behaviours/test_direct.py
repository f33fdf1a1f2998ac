"""133 to 140: in-place outputs as a user writes them, odd arguments, and orders that are asked for."""

from __future__ import annotations

import torch

import fusekit as fk
from fusekit.testing import differential
from tests.behaviours.seeing import data, launched, moves_least, see, share, start_alike


def test_b133_a_write_that_is_not_returned() -> None:
    def f(t0):
        t1 = t0 + 1
        t0.copy_(t1)
        return t1 * 2

    seen = see(f, data(7, 33), kernels=1)
    assert torch.equal(seen.args[0], data(7, 33) + 1) and not share(seen.args[0], seen.out) and moves_least(seen)


def test_b134_a_written_argument_returned_three_times() -> None:
    def f(t0):
        t4 = t0.mul_(2)
        return t4, t0, t4.view_as(t0)

    seen = see(f, data(7, 33), kernels=1)
    assert start_alike(seen.args[0], *seen.outs) and seen.outs[0] is seen.outs[1] is seen.args[0]


def test_b135_in_place_on_strided_arguments() -> None:
    for x in (data(33, 7).t(), data(7, 66)[:, ::2], data(9, 40)[1:8, 3:36], data(7, 33).flip(0).t()):
        seen = see(lambda x: x.mul_(2).add_(1), x, kernels=1)
        assert seen.out is seen.args[0] and seen.out.stride() == x.stride() and moves_least(seen)


def test_b136_an_argument_one_element_off() -> None:
    """One callable, first aligned and then not."""

    def f(x):
        return x.sin() + 1

    base, compiled = data(4 * 1031 + 1), fk.jit(f)
    for x in (base[:-1], base[1:], base[3:], base[1:-1]):
        see(f, x, kernels=1)
        assert differential(f, compiled, (x,)).ok and compiled.last_run.kernels == 1


def test_b137_the_stride_of_one_element_is_no_matter() -> None:
    x = data(7, 33).as_strided((7, 1, 33), (33, 77, 1))
    seen = see(lambda x: x.view(231), x, kernels=0, alias=1)
    assert start_alike(seen.args[0], seen.out)
    seen = see(lambda x: x * 2, x, kernels=1)
    (one,) = launched(seen)
    assert one.kernel is not None and moves_least(seen)


def test_b138_orders_that_are_asked_for() -> None:
    def permuted(x):
        out = torch.empty_permuted(x.shape, (2, 0, 1))
        return out.copy_(x + 1)

    def broadcast(x):
        out = torch.empty_permuted((4, *x.shape), (3, 0, 2, 1))
        return out.copy_(x.unsqueeze(0).expand(4, *x.shape) * 2)

    def folded(x):
        out = torch.empty_strided((x.shape[0], 1, x.shape[2]), (1, 1, x.shape[0]))
        return out.copy_(x.sum(1, keepdim=True))

    for fn in (permuted, broadcast, folded):
        seen = see(fn, data(7, 5, 33), kernels=1)
        assert seen.out.stride() == fn(data(7, 5, 33)).stride() and moves_least(seen)


def test_b138_a_clone_keeps_or_makes_an_order() -> None:
    x = data(2, 3, 5, 7).to(memory_format=torch.channels_last)
    for fn in (
        lambda x: x.clone(),
        lambda x: x.clone(memory_format=torch.contiguous_format),
        lambda x: x.permute(3, 1, 0, 2).clone(),
    ):
        seen = see(fn, x, kernels=1, copies=1)
        assert seen.out.stride() == fn(x).stride() and moves_least(seen)


def test_b139_a_write_after_a_broadcast_read() -> None:
    """Upstream raced in four forms (#2664): all iterations of a launch read a small tensor that it also writes."""

    def number(x, s):
        y = x * s
        s.add_(1)
        return y

    def row(x, s):
        s.mul_(2)
        return x + s, s * 3

    def written_from_it(x, s):
        x.add_(s)
        s.copy_(x[0])
        return x * s

    def twice(x, s):
        s.add_(1)
        y = x * s
        s.add_(1)
        return y + s

    see(number, data(70, 33), torch.tensor(2.0), kernels=1)
    see(row, data(70, 33), data(33, seed=1), kernels=1)
    see(row, data(70, 33), data(70, 1, seed=1), kernels=1)
    see(written_from_it, data(70, 33), data(33, seed=1), kernels=2)
    see(twice, data(70, 33), data(33, seed=1), kernels=1)


def test_b139_where_the_small_tensor_is_a_part_of_the_large() -> None:
    def f(x, s):
        s.add_(1)
        return x * s

    x = data(70, 33)
    for part in (x[3, 4], x[5], x[:, 2:3], x[69:, 32:]):
        see(f, x, part, kernels=2, copies=1)


def test_b140_broadcast_and_squeeze_cancel() -> None:
    def f(x):
        y = (x.unsqueeze(0) + 1).squeeze(0)
        x.copy_(y)
        return y.unsqueeze(1).squeeze(1)

    seen = see(f, data(7, 33), kernels=1)
    assert torch.equal(seen.args[0], data(7, 33) + 1) and torch.equal(seen.out, seen.args[0])
    assert not share(seen.args[0], seen.out) and moves_least(seen)
    windows = [op for op in seen.x.graph.ops() if seen.x.graph.op(op).target == "fk.window"]
    assert not windows, "the two leave nothing"
