"""Whatever makes a graph run in eager: values, gradients, random numbers and modes are the function's in eager."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from fusekit.dynamo_backend import FallbackWarning, backend
from fusekit.trace.fallback import put_back_after_error
from tests.dynamo.differ import differences, leaf, observed, randn


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def gradient_of(x):
    return torch.func.grad(lambda v: (v * v).sum())(x) + F.dropout(x, 0.5)


def gradients_of_rows(x):
    return torch.vmap(torch.func.grad(lambda v: (v * v).sum()))(x)


def pulled_back(x):
    result, pull = torch.func.vjp(lambda v: v.sin() * v, x)
    return pull(torch.ones_like(result))[0]


def pushed_forward(x):
    return torch.func.jvp(lambda v: v.sin() * v, (x,), (torch.ones_like(x),))[1]


def jacobian(x):
    return torch.func.jacrev(lambda v: v * v)(x[0]) + torch.func.jacfwd(lambda v: v * v)(x[0])


def mapped(x):
    return torch.vmap(lambda v: v * v.sum())(x)


def draws_anew(x):
    return checkpoint(lambda v: F.dropout(v, 0.5).sin(), x, use_reentrant=False, preserve_rng_state=False)


def draws_anew_inside(x):
    inner = lambda v: checkpoint(lambda w: F.dropout(w, 0.5), v, use_reentrant=False, preserve_rng_state=False)  # noqa: E731
    return checkpoint(lambda v: inner(v).sin() * F.dropout(v, 0.25), x, use_reentrant=False)


def saves_products(ctx, op, *args, **kwargs):
    products = (torch.ops.aten.mm.default,)
    policy = torch.utils.checkpoint.CheckpointPolicy
    return policy.MUST_SAVE if op in products else policy.PREFER_RECOMPUTE


def contexts():
    return create_selective_checkpoint_contexts(saves_products)


def selective(x):
    body = lambda v: F.dropout(v @ v.t(), 0.5).sin()  # noqa: E731
    return checkpoint(body, x, use_reentrant=False, context_fn=contexts)


def statistics(x, mean, variance, steps):
    def norm(v):
        steps.add_(1)
        return F.dropout(F.batch_norm(v, mean, variance, training=True), 0.5)

    return checkpoint(norm, x, use_reentrant=False).sin()


def statistics_reentrant(x, mean, variance, steps):
    def norm(v):
        steps.add_(1)
        return F.dropout(F.batch_norm(v, mean, variance, training=True), 0.5)

    return checkpoint(norm, x, use_reentrant=True).sin()


def written_beside_a_checkpoint(x, steps):
    steps.add_(1)
    return checkpoint(lambda v: F.dropout(v, 0.5).sin(), x, use_reentrant=False)


def complex_numbers(z):
    return (z.conj() * torch.rand(4, 3)).abs()


def two_storages():
    array = randn(3).numpy()
    return leaf(3), torch.from_numpy(array), torch.from_numpy(array)


def product(x, a, b):
    return F.dropout(x * a * b, 0.5)


def writes_an_overlapping_argument(a, b):
    a.mul_(2)
    return F.dropout(a * b, 0.5).sin().sum()


def views_of_what_is_saved(x):
    return F.dropout(x, 0.5).exp().unbind(0)


def detached_and_filled(x, buffer):
    y = buffer.detach()
    y.copy_(F.dropout(x, 0.5))
    return y


def condition(x, flag):
    return torch.cond(flag, lambda v: v.sin(), lambda v: v.cos(), (x,)) + F.dropout(x, 0.5)


def hooked(x):
    y = F.dropout(x, 0.5) * 2
    y.register_hook(lambda slope: slope * 3)
    return y.sin()


def buffers():
    return leaf(4, 3), randn(3), randn(3).abs(), torch.zeros((), dtype=torch.int64)


KINDS = [
    (gradient_of, lambda: (randn(4, 3),), "transform at .*test_fallbacks.py:"),
    (gradient_of, lambda: (leaf(4, 3),), "transform"),
    (gradients_of_rows, lambda: (randn(4, 3),), "transform"),
    (pulled_back, lambda: (randn(4, 3),), "transform"),
    (pushed_forward, lambda: (randn(4, 3),), "transform"),
    (pushed_forward, lambda: (leaf(4, 3),), "transform"),
    (jacobian, lambda: (randn(4, 3),), "transform"),
    (mapped, lambda: (leaf(4, 3),), "transform"),
    (draws_anew, lambda: (leaf(4, 3),), "keeps no random state, at .*test_fallbacks.py:"),
    (draws_anew_inside, lambda: (leaf(4, 3),), "keeps no random state"),
    (selective, lambda: (leaf(4, 3),), "a checkpoint with a policy"),
    (statistics, buffers, "a checkpoint beside a write"),
    (statistics_reentrant, buffers, "a checkpoint beside a write"),
    (written_beside_a_checkpoint, lambda: (leaf(4, 3), torch.zeros(())), "a checkpoint beside a write"),
    (complex_numbers, lambda: (torch.complex(randn(4, 3), randn(4, 3)),), "lazy conj"),
    (complex_numbers, lambda: (torch.complex(randn(4, 3), randn(4, 3)).requires_grad_(),), "lazy conj"),
    (product, two_storages, "two storages"),
    (writes_an_overlapping_argument, lambda: (lambda a: (a, a[1]))(leaf(4, 3) * 1), "shares memory"),
    (views_of_what_is_saved, lambda: (leaf(4, 3),), "one of several views"),
    (detached_and_filled, lambda: (leaf(4, 3), randn(4, 3)), "detached from an argument"),
    (hooked, lambda: (leaf(4, 3),), "register_hook"),
    (condition, lambda: (leaf(4, 3), torch.tensor(True)), "cond"),
]


@pytest.mark.parametrize(("fn", "make", "reason"), KINDS)
def test_every_kind_of_fallback_is_eager(fn, make, reason):
    compiled = torch.compile(fn, backend=backend)
    with pytest.warns(FallbackWarning, match=reason):
        got = [observed(compiled, make)]
    with warnings.catch_warnings():  # said once
        warnings.simplefilter("error", FallbackWarning)
        got += [observed(compiled, make) for _ in range(2)]
    want = observed(fn, make)
    assert [list(differences(want, one)) for one in got] == [[], [], []]


def test_a_transform_leaves_nothing_open():
    x = torch.tensor([1.0, 2.0])
    compiled = torch.compile(lambda x: torch.func.jvp(lambda v: v * v, (x,), (x,)), backend=backend)
    with pytest.warns(FallbackWarning):
        compiled(x)
    assert torch.equal(torch.func.jvp(lambda v: v * v, (x,), (x,))[1], torch.tensor([2.0, 8.0]))
    assert torch._C._functorch.peek_interpreter_stack() is None


def test_modes_are_put_back_where_an_op_of_the_graph_raises():
    def fails(x, index):
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
            return torch.func.jvp(lambda v: v.index_select(0, index), (x,), (x,))

    x, C = torch.ones(3), torch._C
    with pytest.warns(FallbackWarning), pytest.raises((IndexError, RuntimeError)):
        torch.compile(fails, backend=backend)(x, torch.tensor([7]))
    assert C._functorch.get_dynamic_layer_stack_depth() == 0
    assert torch.autograd.forward_ad._current_level == -1
    assert torch.is_grad_enabled() and C._is_fwd_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    assert torch.func.grad(lambda v: (v * v).sum())(x).tolist() == [2, 2, 2]


def test_each_mode_is_put_back_after_an_error():
    def fails():
        torch._C._functorch._grad_increment_nesting()
        torch._C._autograd._saved_tensors_hooks_disable("no")
        torch._C._set_grad_enabled(False)
        torch._C._functorch.set_inplace_requires_grad_allowed(True)
        torch.set_autocast_enabled("cpu", True)
        torch.autocast_increment_nesting()
        torch.autograd.forward_ad.enter_dual_level()
        raise KeyError

    with pytest.raises(KeyError), put_back_after_error():
        fails()
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    assert torch._C._autograd._saved_tensors_hooks_is_enabled()
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
    assert not torch._C._functorch.get_inplace_requires_grad_allowed()
    assert torch.autograd.forward_ad._current_level == -1
    assert torch.autocast_increment_nesting() == 1 and torch.autocast_decrement_nesting() == 0


def test_what_a_checkpoint_reads_must_not_be_written_before_backward():
    def draws(x, w):
        return checkpoint(lambda v: F.dropout(v * w, 0.5).sin(), x, use_reentrant=False, preserve_rng_state=False)

    x, w = leaf(4, 3), randn(4, 3)
    with pytest.warns(FallbackWarning):
        y = torch.compile(draws, backend=backend)(x, w)
    w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
