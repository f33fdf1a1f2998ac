"""Ops of other libraries whose stand-in kernels tell other layouts: right at every call, fused from the second on."""

from __future__ import annotations

import pytest
import torch

import fusekit as fk
from fusekit.dynamo_backend import backend
from fusekit.testing import check


@torch.library.custom_op("fusekit_tests::columns", mutates_args=())
def columns(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).t().contiguous().t()


@columns.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("fusekit_tests::rows", mutates_args=())
def rows(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@rows.register_fake
def _(x):
    return torch.empty_like(x.t().contiguous()).t()


@torch.library.custom_op("fusekit_tests::longer", mutates_args=())
def longer(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x])


@longer.register_fake
def _(x):
    return torch.empty_like(x)


CALLS = [0]


@torch.library.custom_op("fusekit_tests::fickle", mutates_args=("y",))
def fickle(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Its layout hangs on data: on the sign of x's first element."""
    CALLS[0] += 1
    y.add_(1)
    return x + y if x.flatten()[0] > 0 else (x + y).t().contiguous().t()


@fickle.register_fake
def _(x, y):
    return torch.empty_like(x)


def written_before_and_after(x):
    x.add_(1)
    y = columns(x)
    x.mul_(2)
    return y, y + 1, y.reshape(-1), x


def of_another_shape(x):
    x.add_(1)
    y = longer(x)
    return y * 2, y.sum(0)


def a_view_that_only_eager_has(x):
    return rows(x).view(-1) * 2


def asked_for_its_strides(x):
    y = columns(x)
    return (y.view(-1) if y.is_contiguous() else y.t().view(-1)) * 2


def twice(x):
    y = columns(x).exp_()
    return rows(y) + columns(y.t()).t(), y


PROGRAMS = [written_before_and_after, of_another_shape, a_view_that_only_eager_has, asked_for_its_strides, twice]


def grid(sign: float = 1.0) -> torch.Tensor:
    return sign * torch.linspace(0.5, 2, 35).reshape(5, 7)


def same(got, want):
    got, want = (r if isinstance(r, tuple) else (r,) for r in (got, want))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other)
        assert one.stride() == other.stride()


@pytest.mark.parametrize("fn", PROGRAMS)
@pytest.mark.parametrize("front", [fk.jit, lambda fn: torch.compile(fn, backend=backend)], ids=["jit", "compile"])
def test_eagers_results_at_every_call(front, fn):
    torch._dynamo.reset()
    if fn in (a_view_that_only_eager_has, asked_for_its_strides, of_another_shape) and front is not fk.jit:
        pytest.skip("Dynamo itself believes the stand-in kernel")
    compiled = front(fn)
    for _ in range(4):
        mine, theirs = grid(), grid()
        same(compiled(mine), fn(theirs))
        assert torch.equal(mine, theirs)
    assert fk.last_run().kernels


@pytest.mark.parametrize("fn", PROGRAMS[:1])
def test_in_every_respect(fn):
    compiled = fk.jit(fn)
    compiled(grid())
    from fusekit.testing.differential import differential

    assert differential(fn, compiled, (grid(),), {}, title=fn.__name__).ok


def test_eagers_error_where_the_stand_in_has_none():
    compiled = fk.jit(lambda x: columns(x).view(-1))
    for _ in range(3):
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            compiled(grid())


def test_a_layout_that_hangs_on_data():
    def fn(x, z):
        x.mul_(2)
        y = fickle(x, z)
        x.add_(y)
        return y * 3

    compiled = fk.jit(fn)
    for sign in (1, 1, -1, -1, 1, 1, -1, -1, 1, 1):
        mine, theirs = (grid(sign), grid()), (grid(sign), grid())
        CALLS[0] = 0
        got = compiled(*mine)
        assert CALLS[0] == 1  # and its writes were made once
        torch.testing.assert_close(got, fn(*theirs))
        for one, other in zip(mine, theirs, strict=True):
            torch.testing.assert_close(one, other)
    assert fk.last_run().kernels == 0  # it gave up


def test_an_unread_result_may_be_whatever_it_is():
    def fn(weight, index, offsets):
        return torch.nn.functional.embedding_bag(index, weight, offsets, mode="sum", include_last_offset=True)

    check(fn, grid(), torch.tensor([0, 1, 1, 0, 1, 4]), torch.tensor([0, 3, 6]))
