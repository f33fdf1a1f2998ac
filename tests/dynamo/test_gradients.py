"""Gradients, and all else that can be seen of a call in training, are eager's: for views, writes in place, overlaps."""

import warnings

import pytest
import torch
import torch.nn.functional as F

from fusekit.dynamo_backend import FallbackWarning, backend
from tests.dynamo.differ import differences, leaf, observed, randn

PROGRAMS = {}


def program(*makes, slow=False):
    """A function, and makers of its arguments: it is called with each, and with the first once more."""

    def note(fn):
        marks = [pytest.mark.slow] if slow else []
        PROGRAMS[fn.__name__] = pytest.param(fn, makes, id=fn.__name__, marks=marks)
        return fn

    return note


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def check(fn, makes):
    compiled = torch.compile(fn, backend=backend)
    for make in (*makes, makes[0]):
        assert not list(differences(observed(fn, make), observed(compiled, make)))


# ---- without a fallback ---------------------------------------------------------------------------------------------


@program(lambda: (leaf(4, 3),))
def results_that_are_views_of_an_argument(x):
    return x, x[1:], x.t(), (x * 2).sum()


@program(lambda: (leaf(4, 3) * 1,))
def written_argument_with_a_history(x):
    x[1:].mul_(2)
    return x.sin()


@program(lambda: (leaf(4, 3) * 1,), slow=True)
def written_argument_that_is_the_result(x):
    x.mul_(2)
    return x


@program(lambda: (leaf(4, 3), randn(4, 3)))
def a_buffer_takes_on_a_gradient(x, buffer):
    buffer[1:3].copy_(x[1:3] * 2)
    return (buffer * x).sum()


@program(lambda: (leaf(4, 3), randn(4, 3)))
def a_running_mean(x, mean):
    with torch.no_grad():
        mean.mul_(0.9).add_(x, alpha=0.1)
    return (x * mean).sum()


@program(lambda: (leaf(4, 3),), slow=True)
def a_leaf_written_without_grad(x):
    with torch.no_grad():
        x.add_(1)
    return (x * x).sum()


@program(lambda: (leaf(4, 3), leaf(4, 3), randn(3)))
def in_place_on_a_view(x, w, b):
    y = x * w
    y[1:].mul_(b[0])
    return (y.tanh() * w).sum()


@program(lambda: (leaf(4, 4),))
def diagonal_and_transpose_written(x):
    y = x * 1
    y.diagonal().mul_(3)
    y.t()[0].add_(y[0])
    return y.sin().sum()


@program(lambda: (leaf(4, 4), randn(4, 4) > 0), slow=True)
def masked_writes(x, mask):
    y = x * 1
    y[mask] = 0.5
    y.masked_fill_(~mask, 2.0)
    y[0, :2] = x[1, 1:3]
    return (y * x).sum()


@program(lambda: (leaf(4, 3),))
def several_views_of_one_result(x):
    y = x.sin()
    z = y.view(-1)
    z.add_(1)
    y.mul_(2)
    return y, z, y[0]


@program(
    lambda: (leaf(4, 3), leaf(3)),
    lambda: (lambda a: (a, a[1]))(leaf(4, 3)),
    lambda: (lambda a: (a, a[2]))(leaf(4, 3)),
    lambda: (lambda a: (a, a.detach()[2]))(leaf(4, 3)),
    lambda: (lambda a: (a * 1, a.detach()[0]))(leaf(4, 3)),
)
def overlapping_arguments(a, b):
    c = a * 2
    c[0].add_(b)
    return (c * c).sum() + (b * a).sum()


@program(
    lambda: (leaf(3), randn(3), randn(3, 3)),
    lambda: (lambda y: (leaf(3), y[0], y))(randn(3, 3)),
    lambda: (lambda y: (leaf(3), y[2], y))(randn(3, 3)),
)
def a_written_argument_that_another_lies_in(x, w, y):
    y.add_(1)
    return (x * w * y[0]).sum()


@program(lambda: (randn(2, 8)[0:1].requires_grad_(),), lambda: (randn(3, 8)[1:2].requires_grad_(),))
def absolute_offsets(x):
    return x.view(-1)[2:].as_strided((2,), (1,), 0).sum() + (x * x).sum()


@program(lambda: (leaf(2, 6, 4, 4), leaf(6), leaf(6), randn(6), randn(6).abs()))
def batch_norm_in_training(x, w, b, mean, variance):
    return F.batch_norm(x, mean, variance, w, b, True, 0.1).sin().sum()


@program(lambda: (leaf(2, 6, 4), leaf(6), leaf(6)), slow=True)
def group_norm(x, w, b):
    return F.group_norm(x, 3, w, b).sin().sum()


@program(lambda: (leaf(4, 3),), slow=True)
def dropout(x):
    return F.dropout(x, 0.5, True).sin()


@program(lambda: (leaf(5, 7), torch.tensor([1, 2, 3, 0, 6])), slow=True)
def cross_entropy(x, target):
    return F.cross_entropy(x, target)


@program(lambda: (leaf(2, 2, 5, 4), leaf(2, 2, 5, 4), leaf(2, 2, 5, 4)), slow=True)
def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).sin().sum()


@program(lambda: (leaf(5, 7), torch.tensor([1, 2, 1])), slow=True)
def scatters(x, index):
    z = torch.zeros(5, 7)
    z.index_add_(0, index, x.index_select(0, index))
    z[index] = x.index_select(0, index) * 2
    return (z * x).sum()


@program(lambda: (leaf(3, 4), leaf(4, 4)), slow=True)
def autocast(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ w
    return y.float().sum()


@program(lambda: (leaf(4, 3),), slow=True)
def partly_detached(x):
    return (x * 2).sum(), x.detach() * 2, x > 0


@program(lambda: (leaf(0, 3),), slow=True)
def no_elements(x):
    return (x * 2).sum()


@program(lambda: (leaf(4, 3), 2.0), lambda: (leaf(4, 3), 3.0), lambda: (leaf(5, 3), 4.0))
def numbers_and_sizes(x, s):
    return (x * s).sum() * x.shape[0]


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad * 3 * ctx.saved_tensors[0]  # not the derivative: it must be taken from here


@program(lambda: (leaf(4, 3),), slow=True)
def own_gradient(x):
    return Cubed.apply(x).sum()


@pytest.mark.parametrize(("fn", "makes"), PROGRAMS.values())
def test_all_is_as_in_eager(fn, makes):
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        check(fn, makes)


# ---- with a fallback that says why ----------------------------------------------------------------------------------


def writes_an_overlapping_argument(a, b):
    a.mul_(2)
    return (a * b).sin().sum()


def views_of_what_is_saved(x):
    return x.exp().unbind(0)


def detached_and_filled(x, buffer):
    y = buffer.detach()
    y.copy_(x)
    return y


@pytest.mark.parametrize(
    ("fn", "make", "reason"),
    [
        (
            writes_an_overlapping_argument,
            lambda: (lambda a: (a, a[1]))(leaf(4, 3) * 1),
            "a is written, and shares memory",
        ),
        (writes_an_overlapping_argument, lambda: (lambda a: (a, a.detach()[2]))(leaf(4, 3) * 1), "test_gradients.py:"),
        (views_of_what_is_saved, lambda: (leaf(4, 3),), "one of several views"),
        (detached_and_filled, lambda: (leaf(4, 3), randn(4, 3)), "detached from an argument"),
    ],
)
def test_what_is_not_proven_runs_in_eager(fn, make, reason):
    compiled = torch.compile(fn, backend=backend)
    with pytest.warns(FallbackWarning, match=reason):
        got = observed(compiled, make)
    assert not list(differences(observed(fn, make), got))
    with warnings.catch_warnings():  # said once
        warnings.simplefilter("error", FallbackWarning)
        observed(compiled, make)


def test_a_written_leaf_is_eagers_error_at_a_later_call_too():
    def double(x):
        x.mul_(2)
        return x.sin()

    compiled = torch.compile(double, backend=backend)
    compiled(leaf(4, 3) * 1)
    x = leaf(4, 3)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"), pytest.warns(FallbackWarning):
        compiled(x)
    assert torch.equal(x, randn(4, 3))


# ---- what happens between forward and backward ----------------------------------------------------------------------


def exp(x):
    return x.exp()


def exp_transposed(x):
    return x.exp().t()


def sin_transposed(x):
    return x.sin().t()


def times(x, w):
    return x * w.t().t()


@pytest.mark.parametrize("fn", [exp, exp_transposed])
def test_a_result_that_backward_needs_must_not_be_written(fn):
    with pytest.raises(RuntimeError, match=r"in-?place"):
        torch.compile(fn, backend=backend)(leaf(4, 3)).mul_(2).sum().backward()


def test_any_other_result_may_be_written():
    want, got = leaf(4, 3), leaf(4, 3)
    sin_transposed(want).mul_(2).sum().backward()
    torch.compile(sin_transposed, backend=backend)(got).mul_(2).sum().backward()
    torch.testing.assert_close(got.grad, want.grad)


def test_an_argument_that_backward_needs_must_not_be_written():
    x, w = leaf(4, 3), randn(4, 3)
    y = torch.compile(times, backend=backend)(x, w)
    w[0].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_backward_twice():
    want, got = leaf(4, 3), leaf(4, 3)
    for x, fn in ((want, exp), (got, torch.compile(exp, backend=backend))):
        y = fn(x).sum()
        y.backward(retain_graph=True)
        y.backward()
    torch.testing.assert_close(got.grad, want.grad)


def test_a_second_derivative_is_refused():
    x = leaf(4, 3)
    (first,) = torch.autograd.grad(torch.compile(exp, backend=backend)(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()
