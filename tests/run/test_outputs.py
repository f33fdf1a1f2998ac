"""Outputs that are views are what eager's are to autograd: cut off where eager cuts, else written like eager's."""

from __future__ import annotations

import pytest
import torch

import fusekit as fk

CUT = {
    "detach": lambda w: w.detach(),
    "a view of it": lambda w: w.detach()[1:],
    "of a view": lambda w: w.view(2, 3).detach(),
    "data": lambda w: w.data,
    "data of it": lambda w: w.detach().data,
    "a view of data": lambda w: w.data.view(2, 3)[1],
    "beside a kernel": lambda w: (w.detach(), w.detach() * 2)[0],
    "beside a library call": lambda w: (w.detach(), w.detach().cumsum(0))[0],
    "as another dtype": lambda w: w.detach().view(torch.int32),
}


def marks(t: torch.Tensor) -> tuple[bool, bool, bool]:
    return t.requires_grad, t.is_leaf, t.grad_fn is None


@pytest.mark.parametrize("name", CUT)
def test_a_cut_view_carries_no_gradient(name):
    fn, w = CUT[name], torch.arange(6.0).requires_grad_()
    compiled = fk.jit(fn)
    for _ in range(2):  # the second call goes the short way
        got, version = compiled(w), w._version
        assert marks(got) == marks(fn(w)) == (False, True, True)
        assert got.untyped_storage().data_ptr() == w.untyped_storage().data_ptr()
        got.add_(1)
        assert (w._version > version) == ("data" not in name)
    assert fk.explore(fn, w).check()


WRITTEN = {
    "a view": lambda a: a[1:4],
    "of a written argument": lambda a: (a.add_(1), a[1:4])[1],
    "detached": lambda a: a.detach()[1:4],
    "of what was made": lambda a: (lambda b: (b[1:4], b))(a * 2),
    "beside a library call": lambda a: (a[1:4], a.cumsum(0)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_view_can_be_written_under_grad_mode(name):
    def gradients(fn):
        a, w = torch.arange(6.0), torch.tensor([2.0, 3.0, 5.0], requires_grad=True)
        out = fn(a)
        view, *rest = out if isinstance(out, tuple) else (out,)
        view.mul_(w)
        total = sum(t.sum() for t in (a, view, *rest) if t.requires_grad)
        total.backward()
        return a.requires_grad, w.grad, a.detach()

    compiled = fk.jit(WRITTEN[name])
    want = gradients(WRITTEN[name])
    for _ in range(2):
        got = gradients(compiled)
        assert got[0] == want[0]
        assert torch.equal(got[1], want[1]) and torch.equal(got[2], want[2])


def test_a_layout_changed_under_no_grad():
    def fn(w):
        with torch.no_grad():
            w.t_()
            w.mul_(2)
        return w.detach() + 1

    want, got = (torch.arange(6.0).reshape(2, 3).requires_grad_() for _ in range(2))
    a, b = fn(want), fk.jit(fn)(got)
    assert torch.equal(a, b) and got.shape == want.shape == (3, 2) and got.requires_grad and got.is_leaf
