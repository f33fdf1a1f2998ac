"""51 to 69: arguments written to, views of what was computed, and what a boundary keeps."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import fusekit as fk
from tests.behaviours.seeing import data, launched, moves_least, see, share, start_alike


def test_b051_an_output_into_its_input() -> None:
    seen = see(lambda x: x.add_(1), data(7, 33), kernels=1)
    assert seen.out is seen.args[0] and torch.equal(seen.out, data(7, 33) + 1) and moves_least(seen)


def test_b052_an_input_written_across_a_cut() -> None:
    """Upstream makes three segments: the write gets one of its own."""

    def f(x):
        y = fk.cut(x + 1)
        x.copy_(y * 2)
        return y

    seen = see(f, data(7, 33), kernels=2, forced=True)
    assert seen.x.summary().segments == 2
    assert torch.equal(seen.args[0], (data(7, 33) + 1) * 2)


def test_b053_a_sum_and_its_permute() -> None:
    def f(x):
        y = x + 1
        return y, y.permute(1, 0)

    seen = see(f, data(7, 33), kernels=1, alias=1)
    assert [s.kernel is None for s in seen.x.segments] == [False, True] and start_alike(*seen.outs)


def test_b054_a_permute_alone_has_no_kernel() -> None:
    seen = see(lambda x: x.permute(1, 0), data(7, 33), kernels=0, alias=1)
    assert seen.x.kernels == () and seen.x.summary().bytes_moved == 0


def test_b055_a_slice_starts_where_it_should() -> None:
    seen = see(lambda x: x[2:5, 3:], data(7, 33), kernels=0, alias=1)
    assert seen.out.data_ptr() == seen.args[0].data_ptr() + 4 * (2 * 33 + 3)


def test_b056_an_argument_returned_and_copied() -> None:
    def f(a, b):
        a.copy_(b)
        return b

    seen = see(f, data(7, 33), data(7, 33, seed=1), kernels=1, copies=1)
    assert seen.out is seen.args[1] and torch.equal(*seen.args)
    s = seen.x.summary()
    assert s.kernels + s.copies == 1 and moves_least(seen)


def test_b057_a_boundary_keeps_the_order_of_the_output() -> None:
    """The view asks for nothing else than channels-last has."""
    x = data(2, 5, 3, 7).to(memory_format=torch.channels_last)
    seen = see(lambda x: x.relu().permute(0, 2, 3, 1).view(2, 21, 5), x, kernels=1, alias=1)
    assert seen.out.is_contiguous() and moves_least(seen)


def test_b058_views_of_the_input_and_of_the_output() -> None:
    def f(x):
        y = x * 2 + 1
        return x.permute(1, 0), y.view(3, 77)

    seen = see(f, data(7, 33), kernels=1, alias=2)
    (one,) = launched(seen)
    assert (len(one.reads), len(one.writes)) == (1, 1) and moves_least(seen)
    assert share(seen.args[0], seen.outs[0]) and not share(*seen.outs)


def test_b059_a_permute_a_product_and_a_view() -> None:
    seen = see(lambda x: (x.permute(1, 0) * 2).unflatten(0, (3, 11)), data(7, 33), kernels=1, alias=1)
    assert seen.out.stride() == (11, 1, 33) and moves_least(seen)


def test_b060_three_views_of_one_sum() -> None:
    def f(x):
        y = x + 1
        return y.view(-1), y.t(), y.view(11, 21)

    seen = see(f, data(7, 33), kernels=1, alias=1)
    assert start_alike(*seen.outs) and [len(s.writes) for s in launched(seen)] == [1]


def test_b061_two_views_of_a_view() -> None:
    def f(x):
        y = (x + 1).view(2, 3, 35)
        return y.view(6, 35), y.view(2, 105)

    seen = see(f, data(7, 30), kernels=1, alias=1)
    assert start_alike(*seen.outs) and seen.x.summary().segments == 2


def test_b062_a_concatenation_summed_and_viewed() -> None:
    def f(a, b):
        y = torch.cat([a, b], 1)
        z = y.view(-1)
        return y.sum(), z, z.view(35, 14).permute(1, 0)

    seen = see(f, data(7, 33), data(7, 37, seed=1), kernels=1, alias=1)
    assert start_alike(*seen.outs[1:]) and moves_least(seen)


def test_b063_the_last_view_of_a_group_norm_is_free() -> None:
    def f(x):
        split = x.view(2, 8, 4, 5, 7)
        var, mean = torch.var_mean(split, (2, 3, 4), correction=0, keepdim=True)
        return ((split - mean) * torch.rsqrt(var + 1e-5)).view(x.shape)

    x = torch.randn(2, 32, 5, 7)
    seen = see(f, x, kernels=1, alias=1)
    torch.testing.assert_close(seen.out, F.group_norm(x, 8))
    assert moves_least(seen)


def test_b063_with_weight_and_bias_too() -> None:
    """For upstream the affine needs the view, and it cuts in front of it. Here the view sinks below the affine."""

    def f(x, weight, bias):
        split = x.view(2, 8, 4, 5, 7)
        var, mean = torch.var_mean(split, (2, 3, 4), correction=0, keepdim=True)
        y = ((split - mean) * torch.rsqrt(var + 1e-5)).view(x.shape)
        return F.silu(y * weight.view(1, -1, 1, 1) + bias.view(1, -1, 1, 1))

    x, weight, bias = torch.randn(2, 32, 5, 7), torch.randn(32), torch.randn(32)
    seen = see(f, x, weight, bias, kernels=1, alias=1)
    torch.testing.assert_close(seen.out, F.silu(F.group_norm(x, 8, weight, bias)))


def test_b064_a_number_written_and_read_everywhere() -> None:
    """Upstream raced here (#2664)."""

    def f(x, s):
        s.add_(1)
        return x * s

    seen = see(f, data(70, 33), torch.tensor(2.0), kernels=1)
    assert torch.equal(seen.out, data(70, 33) * 3) and seen.args[1].item() == 3


def test_b065_a_write_by_copy() -> None:
    seen = see(lambda x: x.copy_(x + 1), data(7, 33), kernels=1)
    assert seen.out is seen.args[0] and moves_least(seen)


def test_b066_a_write_by_copy_between_views() -> None:
    def f(x):
        x.view(-1).copy_((x + 1).view(-1))
        return x * 2

    seen = see(f, data(7, 33), kernels=1)
    assert torch.equal(seen.args[0], data(7, 33) + 1) and moves_least(seen)


def test_b067_two_arguments_returned() -> None:
    seen = see(lambda a, b: (a.t(), b.t()), data(7, 33), data(4, 5), kernels=0)
    assert start_alike(seen.args[0], seen.outs[0]) and start_alike(seen.args[1], seen.outs[1])
    seen = see(lambda a, b: (b, a), data(7, 33), data(4, 5), kernels=0)
    assert seen.outs[0] is seen.args[1] and seen.outs[1] is seen.args[0]


def test_b068_a_transpose_cut_and_viewed() -> None:
    """The launch is the transpose; the view of the row-major result is free."""
    seen = see(lambda x: fk.cut(x.t().contiguous()).view(11, 21), data(7, 33), kernels=1, alias=1, forced=True)
    assert seen.out.is_contiguous() and moves_least(seen)


def test_b069_a_slice_of_an_expanded_axis() -> None:
    seen = see(lambda x: x.expand(7, 5, 33)[:, 1:3] + 1, data(7, 1, 33), kernels=1)
    assert seen.out.shape == (7, 2, 33)
    seen = see(lambda x: x.expand(7, 5, 33)[:, 1:3], data(7, 1, 33), kernels=0, alias=1)
    assert seen.out.stride() == (33, 0, 1)
