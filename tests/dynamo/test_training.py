"""Training draws, saves and rounds as eager does: what AOT, its partition and its stand-ins would do otherwise."""

import warnings
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import fusekit as fk
from fusekit.dynamo_backend import FallbackWarning, backend
from fusekit.trace import gradients
from tests.dynamo.differ import differences, drawn, leaf, observed, randn


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def check(fn, make, times=3):
    """Without a fallback, each call is eager's."""
    compiled = torch.compile(fn, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for _ in range(times):
            assert not list(differences(observed(fn, make), observed(compiled, make)))


# ---- random numbers belong where they were written ------------------------------------------------------------------


def dropout_of_a_product(x, w):
    return F.dropout(x @ w, 0.5)


def dropout_between_products(x, w):
    return F.dropout(F.gelu(x @ w), 0.5) @ w


def unread_numbers(x, w):
    torch.rand(3)
    return x * w


def noise(x, w):
    return x * torch.randn_like(w) + torch.bernoulli(torch.full((4, 4), 0.5)) * w


def noise_in_place(x, w):
    return x * torch.empty(4, 4).uniform_() + w.sin() * torch.zeros(4, 4).bernoulli_(0.5)


def attention(x, w):
    return F.scaled_dot_product_attention(x[None], w[None], x[None], dropout_p=0.5)


class Rounded(torch.autograd.Function):
    """Draws in forward and in backward, some of it for nobody."""

    @staticmethod
    def forward(ctx, x):
        torch.rand(2)
        ctx.save_for_backward(x)
        return x + torch.rand(4, 4)

    @staticmethod
    def backward(ctx, slope):
        torch.rand(3)
        return slope * ctx.saved_tensors[0] + torch.rand(4, 4)


def own_gradient_that_draws(x, w):
    return Rounded.apply(x * w) * 2


DRAWING = [
    dropout_of_a_product, dropout_between_products, unread_numbers, noise, noise_in_place, attention,
    own_gradient_that_draws,
]  # fmt: skip


@pytest.mark.parametrize("fn", DRAWING)
def test_forward_and_backward_draw_what_eager_draws(fn):
    check(fn, lambda: (leaf(4, 4), leaf(4, 4)))


def backward_ops(fn, *args):
    """How often each op stands in the backward graph."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        partition = gradients.default_partition
        patch.setattr(gradients, "default_partition", lambda *a, **k: found.append(h := partition(*a, **k)) or h)
        torch.compile(fn, backend=backend)(*args).sum().backward()
    return Counter(str(node.target).split(".")[1] for node in found[0][1].graph.nodes if node.op == "call_function")


@pytest.mark.parametrize(("fn", "products"), [(dropout_of_a_product, 2), (dropout_between_products, 4)])
def test_backward_repeats_nothing_of_forward(fn, products):
    ops = backward_ops(fn, leaf(4, 4), leaf(4, 4))
    assert ops["mm"] == products and ops["native_dropout"] == ops["gelu"] == 0
    assert ops["native_dropout_backward"] == 1


# ---- checkpoints ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_dropout_in_a_checkpoint_has_one_mask(use_reentrant):
    def fn(x):
        return checkpoint(lambda v: F.dropout(v, 0.5), x, use_reentrant=use_reentrant)

    check(fn, lambda: (leaf(16),))
    x = torch.ones(16, requires_grad=True)
    y = torch.compile(fn, backend=backend)(x)
    y.sum().backward()
    assert torch.equal(y != 0, x.grad != 0)


def test_checkpoints_in_a_checkpoint():
    def inner(v, w):
        return F.dropout((v @ w).sin(), 0.5)

    def outer(v, w):
        return checkpoint(inner, v, w, use_reentrant=False) * F.dropout(v, 0.25)

    check(lambda x, w: checkpoint(outer, x, w, use_reentrant=False).sum(), lambda: (leaf(4, 4), leaf(4, 4)))


def test_a_checkpoint_is_computed_anew():
    def fn(x, w):
        return checkpoint(lambda v: F.dropout((v @ w).sin(), 0.5).exp(), x, use_reentrant=False)

    ops = backward_ops(fn, leaf(4, 4), leaf(4, 4))
    assert ops["exp"] and ops["cos"] and ops["mm"] == 3 and not ops["native_dropout"]


def test_a_checkpoint_without_gradients():
    check(lambda x: checkpoint(lambda v: F.dropout(v, 0.5).sin(), x, use_reentrant=False), lambda: (randn(4, 3),))


# ---- autocast -------------------------------------------------------------------------------------------------------


def without_autocast(x, w):
    with torch.autocast("cpu", enabled=False):
        return x @ w


def cast(x, w):
    return x @ w


def partly_cast(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ w
    return y.float() @ w


@pytest.mark.parametrize("fn", [without_autocast, cast, partly_cast])
@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize("backward", [False, True])
def test_backward_is_computed_in_the_modes_of_its_call(fn, forward, backward):
    found = []
    for call in (fn, torch.compile(fn, backend=backend)):
        x, w = leaf(4, 4), leaf(4, 4)
        with torch.autocast("cpu", torch.bfloat16, enabled=forward):
            y = call(x, w)
        with torch.autocast("cpu", torch.bfloat16, enabled=backward):
            (y * 0.1).sum().backward()
        found.append([y.detach(), x.grad, w.grad])
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(*found, strict=True))


def test_a_large_gradient_under_float16():
    def fn(x):
        with torch.autocast("cpu", enabled=False):
            return x * 1

    x = torch.ones(3, requires_grad=True)
    with torch.autocast("cpu", torch.float16):
        y = torch.compile(fn, backend=backend)(x)
    (y * 80000).sum().backward()
    assert x.grad.tolist() == [80000] * 3


# ---- zeros without memory, complex numbers --------------------------------------------------------------------------


def zero():
    x = torch.ones(2, 3, requires_grad=True)
    (z,) = torch.autograd.grad(x.sgn().sum(), x)
    assert z._is_zerotensor()
    return z


@pytest.mark.parametrize(
    "fn",
    [lambda x: x.sgn(), lambda x: x.view(6).sgn() * 2, lambda x: x.view(6).sgn() + x.view(6), lambda x: x.sgn() * x],
)
def test_a_gradient_that_is_zero_for_certain(fn):
    found = []
    for call in (fn, torch.compile(fn, backend=backend)):
        x = leaf(2, 3)
        found.append(torch.autograd.grad(call(x).sum(), x)[0] + 0)
    assert torch.equal(*found)


def test_zeros_without_memory_as_arguments():
    add = fk.jit(lambda t, u: (t + 1, t, u))
    for given in (zero(), torch.ones(2, 3), zero(), zero()):
        more, same, twin = add(given, given)
        assert torch.equal(more, given + 1) and same is given and twin is given
    x = leaf(2, 3)
    assert torch.equal(torch.compile(lambda x, z: x * 2 + z, backend=backend)(x, zero()), x * 2)
    y = torch.compile(lambda x: x * 2, backend=backend)(x)
    assert torch.equal(torch.autograd.grad(y, x, zero())[0], torch.zeros(2, 3))


def test_zeros_without_memory_cannot_be_written():
    with pytest.raises(RuntimeError, match="ZeroTensors are immutable"):
        fk.jit(lambda t: t.add_(1))(zero())


def test_a_captured_zero_without_memory_is_refused_by_name():
    captured = zero()
    with pytest.raises(fk.UnsupportedError, match="a zero tensor without memory"):
        fk.jit(lambda t: t + captured)(torch.ones(2, 3))


@pytest.mark.parametrize("number", [2 - 3j, 2.5, 1j])
def test_a_complex_tensor_times_a_number(number):
    def make():
        return (torch.complex(randn(3), randn(3).flip(0)).requires_grad_(),)

    compiled = torch.compile(lambda z: (z * number).abs(), backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)  # backward has lazy conj bits
        assert not list(differences(observed(lambda z: (z * number).abs(), make), observed(compiled, make)))


# ---- autograd.Function beside writes, results that nobody asked a gradient of ---------------------------------------


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, slope):
        return slope * 2 * ctx.saved_tensors[0]


class SquareInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone().mul_(x)

    @staticmethod
    def backward(ctx, slope):
        return slope.clone().mul_(2).mul_(ctx.saved_tensors[0])


@pytest.mark.parametrize("function", [Square, SquareInPlace])
def test_an_autograd_function_beside_a_write_is_fused(function):
    check(lambda x: function.apply(x).mul_(2), lambda: (leaf(4, 3),))


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a * 2, b * 3

    @staticmethod
    def backward(ctx, first, second):
        return first * 2, second * 3


@pytest.mark.parametrize(
    "fn",
    [
        lambda a, b: (a * 2, b * 3),
        lambda a, b: (a * 2, a * b),
        lambda a, b: ((a * 2).t(), b.exp().view(16), a.t()),
        lambda a, b: Twice.apply(a, b),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_what_got_no_gradient_gives_none(fn, which):
    found = []
    for call in (fn, torch.compile(fn, backend=backend)):
        a, b = leaf(4, 4), leaf(4, 4)
        call(a, b)[which].sum().backward()
        found.append((a.grad, b.grad))
    for want, got in zip(*found, strict=True):
        assert (want is None) == (got is None)
        assert want is None or torch.allclose(want, got)


def made_without_grad(x):
    with torch.no_grad():
        view = x.view(-1)
    return view, x * 2


@pytest.mark.parametrize("fn", [lambda x: (x * 3).chunk(2), lambda x: (x + 1).unbind(0), made_without_grad])
def test_a_view_that_eager_lets_nobody_write(fn):
    for call in (fn, torch.compile(fn, backend=backend)):
        with pytest.raises(RuntimeError, match=r"modified inplace|in-place"):
            call(leaf(4, 4))[0].mul_(2)


# ---- accumulated, kept and scaled gradients -------------------------------------------------------------------------


def test_gradients_accumulate_over_graphs_that_are_kept():
    states = []
    for compiles in (False, True):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.GELU(), nn.Linear(4, 1))
        call = torch.compile(net, backend=backend) if compiles else net
        for k in range(3):
            loss = call(randn(5, 4) + k).square().mean()
            loss.backward(retain_graph=True)
            loss.backward()
        states.append([*(p.grad for p in net.parameters()), drawn()])
    for want, got in zip(*states, strict=True):
        assert want == got if isinstance(want, bytes) else torch.allclose(want, got, rtol=1e-4, atol=1e-6)


def test_scaled_losses():
    states = []
    for compiles in (False, True):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.LayerNorm(4), nn.Linear(4, 1))
        call = torch.compile(net, backend=backend) if compiles else net
        steps, scaler = torch.optim.SGD(net.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=64.0)
        for k in range(3):
            steps.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = call(randn(5, 4) + k).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(steps)
            scaler.update()
        states.append([*net.parameters(), torch.tensor(scaler.get_scale()), drawn()])
    for want, got in zip(*states, strict=True):
        assert want == got if isinstance(want, bytes) else torch.allclose(want, got, rtol=1e-2, atol=1e-3)


def test_a_region_without_gradients():
    def fn(x, w):
        with torch.no_grad():
            scale = F.dropout(x, 0.5).amax()
        return F.dropout(x * scale, 0.5) @ w

    check(fn, lambda: (leaf(4, 4), leaf(4, 4)))
