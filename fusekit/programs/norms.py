"""Norms over rows, groups and channels, with their backward; written out and as torch has them."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F

from fusekit.programs.program import EMPTY, SIZES, Args, Program, Size, randn, seeded

ROWS = (*SIZES, EMPTY)


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """As language models write it: the norm in float32, the weight in the model's dtype."""
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * (wide * scale).to(x.dtype)


def residual_layer_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return F.layer_norm(total, total.shape[-1:], weight, bias), total


def group_norm_views(x: torch.Tensor, groups: int) -> torch.Tensor:
    """Split the channels, normalise, view back."""
    split = x.view(x.shape[0], groups, -1)
    var, mean = torch.var_mean(split, -1, correction=0, keepdim=True)
    return ((split - mean) * torch.rsqrt(var + 1e-5)).view(x.shape)


def group_norm_views_affine(x: torch.Tensor, groups: int, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return group_norm_views(x, groups) * weight.view(1, -1, 1, 1) + bias.view(1, -1, 1, 1)


def group_norm_views_silu(x: torch.Tensor, groups: int, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The channels split off alone, so that weight and bias only need to be split as well."""
    n, c, *rest = x.shape
    split = x.view(n, groups, c // groups, *rest)
    var, mean = torch.var_mean(split, list(range(2, split.dim())), correction=0, keepdim=True)
    normal = ((split - mean) * torch.rsqrt(var + 1e-5)).view(x.shape)
    return F.silu(normal * weight.view(1, -1, 1, 1) + bias.view(1, -1, 1, 1))


def batch_norm(module: torch.nn.BatchNorm2d, x: torch.Tensor) -> torch.Tensor:
    """In training: the running statistics and the count of batches are written."""
    return module(x)


def layer_norm_backward(
    grad: torch.Tensor, x: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Written out; gradients of input, weight and bias."""
    normal = (x - mean) * rstd
    scaled = grad * weight
    fold = scaled.mean(-1, keepdim=True) + normal * (scaled * normal).mean(-1, keepdim=True)
    return (scaled - fold) * rstd, (grad * normal).sum(0), grad.sum(0)


def native_layer_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
) -> tuple[torch.Tensor, ...]:
    every = [True, True, True]
    return torch.ops.aten.native_layer_norm_backward(grad, x, list(weight.shape), mean, rstd, weight, bias, every)


def _affine(columns: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """A weight near 1 and a bias."""
    return 1 + 0.2 * randn(columns, dtype=dtype, seed=7), 0.2 * randn(columns, dtype=dtype, seed=8)


def _row(size: Size, dtype: torch.dtype) -> Args:
    return randn(*size, dtype=dtype), *_affine(size[1], dtype)


def _rms(size: Size, dtype: torch.dtype) -> Args:
    return _row(size, dtype)[:2]


def _residual(size: Size, dtype: torch.dtype) -> Args:
    return randn(*size, dtype=dtype), randn(*size, dtype=dtype, seed=1), *_affine(size[1], dtype)


CHANNELS, GROUPS = 6, 3
LONG_SUM = 2e-4  # eager adds hundreds of thousands of float32 one after another


def _image(size: Size, dtype: torch.dtype) -> torch.Tensor:
    """Twelve planes; of a large size an eighth of the rows."""
    rows, columns = size
    return randn(2, CHANNELS, rows if rows < 64 else rows // 8, columns, dtype=dtype)


def _groups(size: Size, dtype: torch.dtype) -> Args:
    return _image(size, dtype), GROUPS


def _groups_affine(size: Size, dtype: torch.dtype) -> Args:
    return _image(size, dtype), GROUPS, *_affine(CHANNELS, dtype)


def _batch(size: Size, dtype: torch.dtype) -> Args:
    return seeded(torch.nn.BatchNorm2d(CHANNELS), dtype).train(), _image(size, dtype)


def _batch_channels_last(size: Size, dtype: torch.dtype) -> Args:
    module, x = _batch(size, dtype)
    return module, cast(torch.Tensor, x).to(memory_format=torch.channels_last)


def _backward(size: Size, dtype: torch.dtype) -> Args:
    """What the forward hands to the backward."""
    x, (weight, bias) = randn(*size, dtype=dtype), _affine(size[1], dtype)
    _, mean, rstd = torch.native_layer_norm(x, list(weight.shape), weight, bias, 1e-5)
    return randn(*size, dtype=dtype, seed=1), x, mean, rstd, weight


def _native_backward(size: Size, dtype: torch.dtype) -> Args:
    return *_backward(size, dtype), _affine(size[1], dtype)[1]


NORMS: tuple[Program, ...] = (
    Program("layer_norm", "a layer norm with weight and bias", layer_norm, _row, "norms", ROWS),
    Program("rms_norm", "an RMS norm as language models write it", rms_norm, _rms, "norms", ROWS),
    Program("residual_layer_norm", "a residual is added, then normalised; both are kept", residual_layer_norm,
            _residual, "norms", ROWS),
    Program("group_norm_views", "a group norm written with views", group_norm_views, _groups, "norms"),
    Program("group_norm_views_affine", "the same, then weight and bias", group_norm_views_affine, _groups_affine,
            "norms"),
    Program("group_norm_views_silu", "the same with SiLU, the channels split off alone", group_norm_views_silu,
            _groups_affine, "norms"),
    Program("batch_norm", "nn.BatchNorm2d in training, with running statistics", batch_norm, _batch, "norms",
            atol=LONG_SUM),
    Program("batch_norm_channels_last", "the same with channels innermost", batch_norm, _batch_channels_last, "norms",
            atol=LONG_SUM),
    Program("layer_norm_backward", "its backward, written out", layer_norm_backward, _backward, "norms", ROWS,
            LONG_SUM),
    Program("native_layer_norm_backward", "its backward as torch has it", native_layer_norm_backward,
            # in bfloat16, of sums near 113, eager is off by 4.4 and ours by 0.25
            _native_backward, "norms", ROWS, LONG_SUM, half_atol=5.0),
)  # fmt: skip
