"""Softmaxes, norms and losses by their definitions, against eager."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.passes.against_eager import agree, functional, targets

aten = torch.ops.aten
FLOATS = (torch.float32, torch.bfloat16, torch.float64)
HALF = {torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2}}


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


# ---- softmax ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax(dtype: torch.dtype) -> None:
    for dim in (0, 1, -1):
        agree(lambda x, d=dim: (x.softmax(d), x.log_softmax(d)), normal(3, 5, 4, dtype=dtype) * 4)
        agree(lambda x, d=dim: (x.softmax(d), x.log_softmax(d)), normal(4, 5, 3, dtype=dtype).permute(2, 1, 0))


def test_softmax_of_odd_values_and_sizes() -> None:
    x = normal(4, 6)
    x[0, 1], x[1], x[2, 2], x[3, 3] = float("-inf"), float("-inf"), float("inf"), float("nan")
    agree(lambda x: (x.softmax(1), x.log_softmax(1)), x)
    agree(lambda x: (x.softmax(0), x.softmax(1), x.log_softmax(0)), normal(0, 4))
    agree(lambda x: (x.softmax(0), x.log_softmax(-1)), torch.tensor(3.0))
    agree(lambda x: x.softmax(1, dtype=torch.float32), normal(3, 5, dtype=torch.bfloat16))


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_backward(dtype: torch.dtype) -> None:
    def program(grad: torch.Tensor, x: torch.Tensor) -> object:
        return (
            aten._softmax_backward_data(grad, x.softmax(1), 1, dtype),
            aten._log_softmax_backward_data(grad, x.log_softmax(0), 0, dtype),
        )

    agree(program, normal(4, 6, dtype=dtype, seed=1), normal(4, 6, dtype=dtype))


def test_softmax_in_place_of_a_slice() -> None:
    agree(lambda x: x[:, 1:4].copy_(x[:, 1:4].softmax(1)), normal(4, 6))
    agree(lambda x: x[:, 1:5].copy_(x.softmax(1)[:, :4]), normal(4, 6))


def test_attention_scores() -> None:
    def program(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = (q @ k.transpose(-1, -2)) * 0.5
        return scores.masked_fill(mask, float("-inf")).softmax(-1)

    agree(program, normal(2, 4, 8), normal(2, 4, 8, seed=1), torch.ones(4, 4).triu(1).bool(), calls=1)


# ---- layer norm and RMS norm --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_layer_norm(dtype: torch.dtype) -> None:
    w, b = normal(6, dtype=dtype, seed=1), normal(6, dtype=dtype, seed=2)
    agree(lambda x, w, b: aten.native_layer_norm(x, [6], w, b, 1e-5), normal(3, 5, 6, dtype=dtype), w, b)
    agree(lambda x, w: aten.native_layer_norm(x, [6], w, None, 1e-3), normal(6, 5, dtype=dtype).t(), w)
    agree(lambda x: aten.native_layer_norm(x, [5, 6], None, None, 1e-5), normal(3, 5, 6, dtype=dtype))
    agree(lambda x, w: F.layer_norm(x, (6,), w), normal(6, dtype=dtype), w)


def test_layer_norm_of_mixed_dtypes() -> None:
    """Statistics then have the weights' dtype on a CPU, which torch's fake tensors get wrong: eager is asked."""
    x, w = normal(4, 6, dtype=torch.bfloat16), normal(6, seed=1)
    agree(lambda x, w: F.layer_norm(x, (6,), w, w), x, w)
    agree(lambda x, w: aten.native_layer_norm(x, [6], w, w, 1e-5), x, w)


def test_layer_norm_of_odd_sizes() -> None:
    agree(lambda x: aten.native_layer_norm(x, [6], None, None, 1e-5), normal(0, 6))
    agree(lambda x: F.layer_norm(x, (1,)), normal(5, 1))
    agree(lambda x: F.layer_norm(x * 1000 + 5000, (7,)), normal(3, 7, dtype=torch.float64))


def test_residual_and_layer_norm_in_place() -> None:
    def program(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x.add_(r)
        return F.layer_norm(x, (6,), w, w)

    agree(program, normal(4, 6), normal(4, 6, seed=1), normal(6, seed=2))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mask", [[True, True, True], [True, False, False], [False, True, True], [False, False, True]])
def test_layer_norm_backward(dtype: torch.dtype, mask: list[bool]) -> None:
    def program(grad: torch.Tensor, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> object:
        _, mean, rstd = aten.native_layer_norm(x, [6], w, b, 1e-5)
        return aten.native_layer_norm_backward(grad, x, [6], mean, rstd, w, b, mask)

    args = [normal(*shape, dtype=dtype, seed=k) for k, shape in enumerate([(3, 5, 6), (3, 5, 6), (6,), (6,)])]
    agree(program, *args, **({"rtol": 2e-2, "atol": 0.1} if dtype == torch.bfloat16 else {}))  # eager sums rows in bf16


def test_layer_norm_backward_without_weights() -> None:
    def program(grad: torch.Tensor, x: torch.Tensor) -> object:
        _, mean, rstd = aten.native_layer_norm(x, [5, 6], None, None, 1e-5)
        return aten.native_layer_norm_backward(grad, x, [5, 6], mean, rstd, None, None, [True, False, False])

    agree(program, normal(3, 5, 6), normal(3, 5, 6, seed=1))


@pytest.mark.parametrize("dtype", FLOATS)
def test_rms_norm(dtype: torch.dtype) -> None:
    agree(lambda x, w: F.rms_norm(x, (6,), w, 1e-6), normal(4, 6, dtype=dtype), normal(6, dtype=dtype, seed=1))
    agree(lambda x: F.rms_norm(x, (5, 6)), normal(4, 5, 6, dtype=dtype))


# ---- group norm and batch norm ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_group_norm(dtype: torch.dtype) -> None:
    w, b = normal(6, dtype=dtype, seed=1), normal(6, dtype=dtype, seed=2)
    for shape in ((2, 6, 3, 5), (2, 6), (1, 6, 7)):
        agree(lambda x, w, b: F.group_norm(x, 3, w, b), normal(*shape, dtype=dtype), w, b)
    agree(lambda x: aten.native_group_norm(x, None, None, 2, 6, 15, 2, 1e-5), normal(2, 6, 3, 5, dtype=dtype))
    channels_last = normal(2, 6, 3, 5, dtype=dtype).to(memory_format=torch.channels_last)
    agree(lambda x, w, b: F.group_norm(x, 6, w, b), channels_last, w, b)


def _train(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, mean, var, w, b, training=True, momentum=0.3)


def _channels(dtype: torch.dtype, count: int = 4) -> list[torch.Tensor]:
    """Weight, bias, running mean and variance."""
    return [normal(count, dtype=dtype, seed=k).abs() for k in range(1, 5)]


@pytest.mark.parametrize("dtype", FLOATS)
def test_batch_norm_in_training(dtype: torch.dtype) -> None:
    for shape in ((3, 4, 2, 5), (5, 4), (2, 4, 7)):
        agree(_train, normal(*shape, dtype=dtype), *_channels(dtype))
    agree(_train, normal(3, 4, 2, 5, dtype=dtype).to(memory_format=torch.channels_last), *_channels(dtype))
    agree(_train, normal(3, 2, 5, 4, dtype=dtype).permute(0, 3, 1, 2), *_channels(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_batch_norm_in_evaluation(dtype: torch.dtype) -> None:
    agree(lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b), normal(3, 4, 2, 5, dtype=dtype), *_channels(dtype))
    agree(lambda x, w, b, m, v: F.batch_norm(x, m, v), normal(3, 4, dtype=dtype), *_channels(dtype))


def test_batch_norm_of_mixed_dtypes() -> None:
    agree(_train, normal(3, 4, 5, dtype=torch.bfloat16), *_channels(torch.float32))


def test_batch_norm_without_statistics() -> None:
    agree(lambda x: F.batch_norm(x, None, None, training=True), normal(3, 4, 5))
    agree(lambda x: F.instance_norm(x), normal(3, 4, 5))
    agree(lambda x: aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5), normal(3, 4, 5))


def test_other_overloads_of_batch_norm() -> None:
    def program(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> object:
        first = aten._native_batch_norm_legit(x, w, b, m, v, True, 0.1, 1e-5)
        second = aten._batch_norm_with_update(x, w, b, m, v, 0.1, 1e-5)[:3]
        return first, second, aten._batch_norm_no_update(x, w, b, m, v, 0.1, 1e-5)[0]

    agree(program, normal(3, 4, 5), *_channels(torch.float32))


def test_batch_norm_module_counts_its_batches() -> None:
    """Running statistics of a module are captures; the twice read buffers are written once."""
    layer = torch.nn.BatchNorm2d(4)

    def program(x: torch.Tensor) -> torch.Tensor:
        return layer(layer(x).relu())

    graph = functional(program, normal(2, 4, 3, 3))
    assert not [t for t in targets(graph) if "batch_norm" in t]


def test_running_statistics_that_share_memory() -> None:
    """Eager's loop order decides: a library call."""
    w, b, m, _ = _channels(torch.float32)
    agree(lambda x, w, b, m: F.batch_norm(x, m, m, w, b, True), normal(3, 4, 5), w, b, m, calls=1)
    both = normal(2, 4).abs()
    agree(lambda x, s: F.batch_norm(x, s[0], s[1], training=True), normal(3, 4, 5), both)


# ---- losses -------------------------------------------------------------------------------------------------------

REDUCTIONS = ("mean", "sum", "none")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_pairwise_losses(dtype: torch.dtype, reduction: str) -> None:
    a, b = normal(4, 6, dtype=dtype), normal(4, 6, dtype=dtype, seed=1)
    agree(lambda a, b: (F.mse_loss(a, b, reduction=reduction), F.l1_loss(a, b, reduction=reduction)), a, b)
    agree(lambda a, b: F.smooth_l1_loss(a, b, reduction=reduction, beta=0.5), a, b)
    agree(lambda a, b: F.huber_loss(a, b, reduction=reduction, delta=0.7), a, b)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy_with_logits(dtype: torch.dtype, reduction: str) -> None:
    x, t = normal(4, 6, dtype=dtype) * 5, normal(4, 6, dtype=dtype, seed=1).sigmoid()
    w = normal(6, dtype=dtype, seed=2).abs()
    f = F.binary_cross_entropy_with_logits
    agree(lambda x, t: f(x, t, reduction=reduction), x, t, **HALF.get(dtype, {}))
    agree(lambda x, t, w: f(x, t, w, pos_weight=w + 1, reduction=reduction), x, t, w, **HALF.get(dtype, {}))


def test_binary_cross_entropy_stays_a_library_call() -> None:
    agree(lambda x, t: F.binary_cross_entropy(x, t), normal(4, 6).sigmoid(), normal(4, 6, seed=1).sigmoid(), calls=1)


def targets_of(*shape: int, classes: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, classes, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy(dtype: torch.dtype, reduction: str) -> None:
    x, y, w = normal(7, 6, dtype=dtype), targets_of(7, classes=6), normal(6, dtype=dtype, seed=1).abs()
    y[2] = y[4] = -100
    f = F.cross_entropy
    agree(lambda x, y: f(x, y, reduction=reduction), x, y, **HALF.get(dtype, {}))
    agree(lambda x, y, w: f(x, y, w, ignore_index=3, reduction=reduction), x, y.clamp(min=0), w, **HALF.get(dtype, {}))
    agree(lambda x, y: f(x, y, reduction=reduction, label_smoothing=0.1), x, y, **HALF.get(dtype, {}))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy_of_other_shapes(reduction: str) -> None:
    f = F.cross_entropy
    agree(lambda x, y: f(x, y, reduction=reduction), normal(2, 5, 3, 4), targets_of(2, 3, 4, classes=5))
    agree(lambda x, y: f(x, y, reduction=reduction), normal(5), targets_of(classes=5))
    agree(lambda x, y: F.nll_loss(x, y, reduction=reduction), normal(4, 5), torch.full((4,), -100))
    agree(lambda x, y: aten.nll_loss_forward(x, y, None, 0, -100), normal(5), targets_of(classes=5))
