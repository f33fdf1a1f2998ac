"""1 to 14: which views of what layouts need no copy. Eager says so too: a reshape that it copies is no alias."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fusekit as fk
from fusekit.dtypes import F32
from fusekit.index import Form
from fusekit.ir import Layout
from fusekit.memory import algebra
from fusekit.testing import differential
from fusekit.why import Reason
from tests.behaviours.seeing import Seen, data, moves_least, see, share, start_alike


def free(fn, *args) -> Seen:
    """Nothing is launched, and every output is the first argument's memory."""
    seen = see(fn, *args, kernels=0, alias=1)
    assert share(seen.args[0], *seen.outs)
    return seen


def copied(fn, *args) -> Seen:
    """One launch that reads and writes each byte once, into memory of its own."""
    seen = see(fn, *args, kernels=1, copies=0)
    assert not share(seen.args[0], seen.out)
    assert seen.x.summary().kernels == 1 and moves_least(seen)
    return seen


def test_b001_view_of_any_extents() -> None:
    """Shapes are concrete here: one callable, each size a plan that launches nothing."""

    def f(x):
        return x.view(x.shape[0], -1)

    free(f, data(3, 5, 7))
    compiled = fk.jit(f)
    for shape in ((3, 5, 7), (2, 4, 9), (1, 1, 1)):
        assert differential(f, compiled, (data(*shape),)).ok
        assert compiled.last_run.kernels == 0


def test_b002_a_chain_of_views() -> None:
    seen = free(lambda x: x.view(6, 20).view(4, 5, 6), data(2, 3, 20))
    assert start_alike(seen.args[0], seen.out)


def test_b003_view_of_dense_axes() -> None:
    seen = free(lambda x: x.view(2, 12), data(2, 3, 4))
    assert seen.out.stride() == (12, 1)


def test_b004_a_merge_across_a_gap_is_a_copy() -> None:
    copied(lambda x: x.reshape(3, 20), data(3, 4, 7)[:, :, :5])


def test_b005_a_set_keeps_the_order() -> None:
    seen = free(lambda x: x[:], data(4, 3, 5).permute(2, 0, 1))
    assert seen.out.stride() == seen.args[0].stride() == (1, 15, 5)


def test_b006_a_permute_is_another_order_of_the_same_bytes() -> None:
    seen = free(lambda x: x.permute(1, 2, 0), data(2, 3, 4))
    assert seen.out.stride() == (4, 1, 12)


def test_b007_a_split_expanded_axis_merged_is_a_copy() -> None:
    copied(lambda x: x.reshape(40, 3), data(4, 5, 1).expand(4, 5, 6))


def test_b008_a_merge_beside_an_expanded_axis() -> None:
    seen = free(lambda x: x.view(20, 6), data(4, 5, 1).expand(4, 5, 6))
    assert seen.out.stride() == (1, 0)


def test_b009_a_merge_with_an_expanded_axis_is_a_copy() -> None:
    copied(lambda x: x.reshape(4, 30), data(4, 5, 1).expand(4, 5, 6))


def test_b010_a_slice_of_everything_then_a_view() -> None:
    free(lambda x: x[0:2, 0:3].view(6, 5), data(2, 3, 5))


def test_b011_a_slice_and_a_merge_inside_of_it() -> None:
    seen = free(lambda x: x[:, 1:].view(2, 10), data(2, 3, 5))
    assert seen.out.stride() == (15, 1) and seen.out.storage_offset() == 5


def test_b012_a_slice_and_a_merge_across_it_is_a_copy() -> None:
    copied(lambda x: x[:, 1:].reshape(4, 5), data(2, 3, 5))


def test_b013_broadcast_and_expand() -> None:
    seen = free(lambda x: x.unsqueeze(1).expand(4, 3, 5), data(4, 5))
    assert seen.out.stride() == (5, 0, 1)


def test_b014_a_broadcast_between_swapped_axes() -> None:
    seen = free(lambda x: x.unsqueeze(1), data(5, 4).t())
    assert seen.out.shape == (4, 1, 5) and (seen.out.stride(0), seen.out.stride(2)) == (1, 4)


def test_of_an_intermediate_as_of_an_argument() -> None:
    """4, 3 and 12 over what a kernel computes: it stores the order that is asked for at once."""
    for fn in (
        lambda x: (x + 1)[:, :, :5].reshape(3, 20),
        lambda x: (x + 1).view(12, 7),
        lambda x: (x + 1)[:, 1:].reshape(9, 7),
    ):
        seen = see(fn, data(3, 4, 7), kernels=1, alias=1)
        assert moves_least(seen)


VIEWS: dict[str, tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor], Callable[[Layout], object]]] = {
    "1": (data(3, 5, 7), lambda x: x.view(3, 35), lambda a: algebra.merge(a, 1)),
    "2": (data(2, 3, 20), lambda x: x.view(6, 20).view(4, 5, 6), lambda a: algebra.reshape(a, (4, 5, 6))),
    "3": (data(2, 3, 4), lambda x: x.view(2, 12), lambda a: algebra.reshape(a, (2, 12))),
    "4": (data(3, 4, 7)[:, :, :5], lambda x: x.view(3, 20), lambda a: algebra.merge(a, 1)),
    "6": (data(2, 3, 4), lambda x: x.permute(1, 2, 0), lambda a: algebra.permute(a, (1, 2, 0))),
    "7": (data(4, 5, 1).expand(4, 5, 6), lambda x: x.view(40, 3), lambda a: algebra.reshape(a, (40, 3))),
    "8": (data(4, 5, 1).expand(4, 5, 6), lambda x: x.view(20, 6), lambda a: algebra.merge(a, 0)),
    "9": (data(4, 5, 1).expand(4, 5, 6), lambda x: x.view(4, 30), lambda a: algebra.merge(a, 1)),
    "10": (data(2, 3, 5), lambda x: x[0:2].view(6, 5), lambda a: algebra.merge(algebra.narrow(a, 0, 0, 2), 0)),
    "11": (data(2, 3, 5), lambda x: x[:, 1:].view(2, 10), lambda a: algebra.merge(algebra.narrow(a, 1, 1, 2), 1)),
    "12": (data(2, 3, 5), lambda x: x[:, 1:].view(4, 5), lambda a: algebra.merge(algebra.narrow(a, 1, 1, 2), 0)),
    "13": (
        data(4, 5),
        lambda x: x[:, None].expand(4, 3, 5),
        lambda a: algebra.expand(algebra.broadcast(a, 1), (4, 3, 5)),
    ),
    "14": (data(5, 4).t(), lambda x: x[:, None], lambda a: algebra.broadcast(a, 1)),
    "strided slice": (
        data(9, 8),
        lambda x: x[1::3].view(3, 2, 4),
        lambda a: algebra.split(algebra.narrow(a, 0, 1, 3, 3), 1, 4),
    ),
}


@pytest.mark.parametrize("case", VIEWS)
def test_the_algebra_agrees_with_eager(case: str) -> None:
    """It has a layout exactly where eager has a view: eager's own strides and offset. Upstream has no strided slice."""
    x, view, of = VIEWS[case]
    found = of(layout_of(x))
    try:
        want = view(x)
    except RuntimeError:
        assert isinstance(found, Reason) and str(found)
        return
    assert isinstance(found, Layout)
    shift = want.storage_offset() - x.storage_offset()
    assert (found.shape, found.axes()) == (tuple(want.shape), layout_of(want).axes())
    assert found.offset == Form.of(4 * shift)


def layout_of(x: torch.Tensor) -> Layout:
    return Layout.of(0, x.shape, [4 * s for s in x.stride()], F32)
