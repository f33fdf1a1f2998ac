"""21 to 50: outputs that are views of arguments and of what was computed share its memory, as eager's do."""

from __future__ import annotations

import torch

import fusekit as fk
from tests.behaviours.seeing import data, launched, moves_least, see, share, start_alike


def test_b021_view_shares_its_pointer() -> None:
    seen = see(lambda x: x.view(6, 35), data(2, 3, 35), kernels=0, alias=1)
    assert start_alike(seen.args[0], seen.out)


def test_b022_a_view_of_swapped_axes_keeps_them() -> None:
    seen = see(lambda x: x.view(6, 2, 2), data(4, 6).t(), kernels=0, alias=1)
    assert start_alike(seen.args[0], seen.out) and seen.out.stride() == (1, 12, 6)


def test_b023_an_output_with_gaps() -> None:
    seen = see(lambda x: x[:, :4].unflatten(1, (2, 2)), data(5, 9), kernels=0, alias=1)
    assert start_alike(seen.args[0], seen.out) and seen.out.stride() == (9, 2, 1)


def test_b024_a_forced_order_is_a_copy() -> None:
    seen = see(lambda x: x.view(6, 35).t().contiguous().t(), data(2, 3, 35), kernels=1)
    assert not share(seen.args[0], seen.out) and seen.out.stride() == (1, 6) and moves_least(seen)


def test_b025_view_and_permute() -> None:
    seen = see(lambda x: x.view(2, 5, 3, 4).permute(0, 2, 1, 3), data(2, 5, 12), kernels=0, alias=1)
    assert start_alike(seen.args[0], seen.out)


def test_b026_one_tensor_returned_twice() -> None:
    def f(x):
        y = x.view(6, 35)
        return y, y

    seen = see(f, data(2, 3, 35), kernels=0, alias=1)
    assert start_alike(seen.args[0], *seen.outs) and seen.outs[0] is seen.outs[1]


def test_b027_a_slice_of_one() -> None:
    seen = see(lambda x: x[:, :, 2:3], data(2, 6, 7), kernels=0, alias=1)
    assert share(seen.args[0], seen.out) and seen.out.stride()[:2] == (42, 7)
    assert seen.out.storage_offset() == 2


def test_b028_a_slice_right_of_a_broadcast() -> None:
    seen = see(lambda x: x[:, :, :5], data(4, 1, 7), kernels=0, alias=1)
    assert start_alike(seen.args[0], seen.out)
    assert (seen.out.stride(0), seen.out.stride(2)) == (7, 1)


def test_b029_query_key_value_are_slices() -> None:
    def f(x):
        return tuple(part.view(2, 5, 3, 4).permute(0, 2, 1, 3) for part in x.chunk(3, -1))

    seen = see(f, data(2, 5, 36), kernels=0, alias=1)
    assert share(seen.args[0], *seen.outs)
    assert [t.storage_offset() for t in seen.outs] == [0, 12, 24]


def test_b030_outputs_twice_across_a_cut() -> None:
    def f(x):
        y = x + 1
        z = fk.cut(y) * 2
        return y, z, z, y

    seen = see(f, data(7, 33), kernels=2, forced=True)
    assert seen.outs[0] is seen.outs[3] and seen.outs[1] is seen.outs[2]


def test_b031_a_view_into_expand_and_add() -> None:
    def f(x):
        y = x.view(6, 1, 35)
        return y.expand(6, 4, 35), y + 1

    seen = see(f, data(2, 3, 35), kernels=1, alias=1)
    assert share(seen.args[0], seen.outs[0]) and not share(*seen.outs)
    assert [len(s.writes) for s in launched(seen)] == [1] and moves_least(seen)


def test_b032_a_permute_into_sum_view_and_permute() -> None:
    def f(x):
        y = x.permute(0, 2, 1)
        return y.sum(), y.unflatten(2, (2, 2)), y.permute(1, 0, 2)

    seen = see(f, data(3, 4, 35), kernels=1, alias=1)
    assert start_alike(seen.args[0], *seen.outs[1:])


def test_b033_a_view_returned_and_added_to() -> None:
    """At a million elements: one store."""

    def f(x):
        y = x.view(1024, 1024)
        return y, y + 1

    seen = see(f, data(1 << 20), kernels=1, alias=1)
    assert start_alike(seen.args[0], seen.outs[0])
    assert [len(s.writes) for s in launched(seen)] == [1] and moves_least(seen)


def test_b034_a_slice_returned_and_added_to() -> None:
    """The kernel does not store the slice."""

    def f(x):
        y = x[:, 1:5]
        return y, y + 1

    seen = see(f, data(7, 9), kernels=1, alias=1)
    assert share(seen.args[0], seen.outs[0])
    assert [len(s.writes) for s in launched(seen)] == [1] and moves_least(seen)


def test_b035_another_order_is_a_copy() -> None:
    seen = see(lambda x: x.t().contiguous(), data(33, 70), kernels=1)
    assert not share(seen.args[0], seen.out) and seen.out.stride() == (33, 1) and moves_least(seen)


def test_b036_one_output_three_times_with_another_between() -> None:
    def f(x):
        a, b = x.view(6, 35), x + 1
        return a, a, b, a

    seen = see(f, data(2, 3, 35), kernels=1, alias=1)
    first, second, b, third = seen.outs
    assert start_alike(seen.args[0], first) and first is second is third
    assert not share(seen.args[0], b)


def test_b037_one_tensor_as_both_arguments() -> None:
    """Upstream refuses to register an input twice; here one callable serves both, and the same tensor too."""

    def f(a, b):
        return a.add_(b), b * 2

    x = data(7, 33)
    seen = see(f, x, x, kernels=1)
    assert seen.outs[0] is seen.args[0]
    assert see(f, x, data(7, 33, seed=1), kernels=1)


def test_b038_a_cut_argument_permuted_beside_an_add() -> None:
    seen = see(lambda x: (fk.cut(x).permute(1, 0), x + 1), data(7, 33), kernels=1, alias=1)
    assert start_alike(seen.args[0], seen.outs[0])


def test_b039_an_argument_as_the_output() -> None:
    """A second run of the cached plan too; no dimension likewise."""
    compiled = fk.jit(lambda x: x)
    for x in (data(7, 33), data(7, 33, seed=1), torch.tensor(3.0), torch.tensor(4.0)):
        assert compiled(x) is x
        assert see(lambda x: x, x, kernels=0).x.summary().segments == 0


def test_b040_permute_of_a_returned_view() -> None:
    def f(x):
        y = (x + 1).view(6, 35)
        return y, y.permute(1, 0)

    seen = see(f, data(2, 3, 35), kernels=1, alias=1)
    assert start_alike(*seen.outs) and moves_least(seen)


def test_b041_a_returned_view_that_is_also_computed_with() -> None:
    def f(x):
        y = (x + 1).view(6, 35)
        return y, y.permute(1, 0) * 2

    seen = see(f, data(2, 3, 35), kernels=1, alias=1)
    assert not share(*seen.outs) and moves_least(seen)


def test_b042_permute_view_and_slice_of_one_sum() -> None:
    def f(x):
        y = x + 1
        return y[1:], y.view(2, 105), y.permute(1, 0, 2), y

    seen = see(f, data(2, 3, 35), kernels=1, alias=1)
    assert share(*seen.outs) and start_alike(*seen.outs[1:])
    assert seen.outs[0].storage_offset() == 105 and moves_least(seen)


def test_b043_every_stage_of_a_chain_returned() -> None:
    def f(x):
        a = x + 1
        b = a.permute(1, 0)
        return a, b, b * 2

    seen = see(f, data(7, 33), kernels=1, alias=1)
    assert start_alike(*seen.outs[:2]) and moves_least(seen)


def test_b044_forks_of_views_with_one_product() -> None:
    def f(x):
        a = x.view(6, 35)
        b = a.permute(1, 0)
        return a.view(3, 70), b, b * 2, b.unsqueeze(0)

    seen = see(f, data(2, 3, 35), kernels=1, alias=1)
    assert [s.scheduler for s in launched(seen)] == ["pointwise"]
    assert start_alike(seen.args[0], seen.outs[0], seen.outs[1], seen.outs[3])


def test_b045_broadcast() -> None:
    seen = see(lambda x: x[:, None], data(7, 33), kernels=0, alias=1)
    assert start_alike(seen.args[0], seen.out) and seen.out.shape == (7, 1, 33)


def test_b046_expand() -> None:
    seen = see(lambda x: x.expand(4, 7, 33), data(7, 33), kernels=0, alias=1)
    assert start_alike(seen.args[0], seen.out) and seen.out.stride() == (0, 33, 1)


def test_b047_squeeze() -> None:
    seen = see(lambda x: x.squeeze(1), data(7, 1, 33), kernels=0, alias=1)
    assert start_alike(seen.args[0], seen.out) and seen.out.stride() == (33, 1)


def test_b048_a_merge_of_two_expanded_axes() -> None:
    """Upstream copies (#1126); eager keeps the stride 0, and so does this."""
    seen = see(lambda x: x[:, None, None].expand(7, 3, 4).reshape(7, 12), data(7), kernels=0, alias=1)
    assert start_alike(seen.args[0], seen.out) and seen.out.stride() == (1, 0)


def test_b049_a_merge_of_broadcasts_between_others() -> None:
    seen = see(lambda x: x[:, None].expand(7, 5, 33).reshape(7, 165), data(7, 33), kernels=1)
    assert not share(seen.args[0], seen.out) and moves_least(seen)
    seen = see(lambda x: x[:, None, :, None].reshape(7, 33), data(7, 33), kernels=0, alias=1)
    assert start_alike(seen.args[0], seen.out)


def test_b050_an_argument_returned_and_permuted() -> None:
    seen = see(lambda x: (x, x.permute(1, 0)), data(7, 33), kernels=0, alias=1)
    assert seen.outs[0] is seen.args[0] and start_alike(*seen.outs)
