"""Around the matmuls of an MLP: biases and activations."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from fusekit.programs.program import EMPTY, SCALAR, SIZES, Args, Program, Size, randn


def bias_gelu_erf(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(x + bias)


def linear_bias_gelu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.linear(x, weight, bias))


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """The gated activation of most language models."""
    return F.silu(gate) * up


def _bias(size: Size, dtype: torch.dtype) -> Args:
    return randn(*size, dtype=dtype), randn(*size[1:], dtype=dtype, seed=1)


def _linear(size: Size, dtype: torch.dtype) -> Args:
    """As many outputs as inputs; weights such that the outputs stay near 1."""
    columns = size[1]
    weight = randn(columns, columns, dtype=torch.float32, seed=1) / columns**0.5
    return randn(*size, dtype=dtype), weight.to(dtype), randn(columns, dtype=dtype, seed=2)


def _gates(size: Size, dtype: torch.dtype) -> Args:
    return randn(*size, dtype=dtype), randn(*size, dtype=dtype, seed=1)


MLP: tuple[Program, ...] = (
    Program("bias_gelu_erf", "bias and the exact GELU", bias_gelu_erf, _bias, "mlp", (*SIZES, EMPTY, SCALAR)),
    Program("swiglu", "a gate and what it lets through", swiglu, _gates, "mlp", (*SIZES, EMPTY, SCALAR)),
    Program("linear_bias_gelu", "a linear layer and the exact GELU", linear_bias_gelu, _linear, "mlp", (*SIZES, EMPTY)),
)
