"""Attention and what stands around it, up to a whole block of GPT-2."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F

from fusekit.programs.program import SIZES, Args, Program, Size, heads_of, randn, seeded

BATCH = 2


def _turned(x: torch.Tensor) -> torch.Tensor:
    """The second half of each head, negated, before the first."""
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def rope(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotary positions of queries and keys, as many heads of each."""
    return q * cos + _turned(q) * sin, k * cos + _turned(k) * sin


def rope_grouped(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same where several heads of queries share one of keys."""
    return rope(q, k, cos, sin)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """``mask``: true where a query must not look."""
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    weights = torch.softmax(scores.masked_fill(mask, float("-inf")), -1)
    return weights @ v


def qkv_views(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, heads: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One linear layer, split into queries, keys and values by head; after it only views."""
    batch, tokens, width = x.shape
    q, k, v = F.linear(x, weight, bias).split(width, -1)
    q, k, v = (t.view(batch, tokens, heads, width // heads).permute(0, 2, 1, 3) for t in (q, k, v))
    return q, k, v


class Block(torch.nn.Module):
    """A block of GPT-2: attention with a causal mask and an MLP, each behind a norm and with a residual."""

    mask: torch.Tensor

    def __init__(self, tokens: int, heads: int, width: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.register_buffer("mask", torch.ones(tokens, tokens, dtype=torch.bool).triu(1))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = qkv_views(x, self.qkv.weight, self.qkv.bias, self.heads)
        mixed = attention(q, k, v, self.mask[:tokens, :tokens])
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


def gpt2_block(block: Block, x: torch.Tensor) -> torch.Tensor:
    return block(x)


def _heads(size: Size, dtype: torch.dtype, count: int) -> tuple[torch.Tensor, ...]:
    rows, columns = size
    heads, width = heads_of(columns)
    return tuple(randn(BATCH, heads, rows, width, dtype=dtype, seed=k) for k in range(count))


def _rope(size: Size, dtype: torch.dtype) -> Args:
    q, k = _heads(size, dtype, 2)
    tokens, width = q.shape[-2:]
    speeds = 10000.0 ** (-torch.arange(0, width, 2) / width)
    angles = torch.outer(torch.arange(tokens).float(), speeds).repeat(1, 2)
    return q, k, angles.cos().to(dtype), angles.sin().to(dtype)


def _rope_grouped(size: Size, dtype: torch.dtype) -> Args:
    """Half as many heads of keys, at least one."""
    q, k, cos, sin = cast("tuple[torch.Tensor, ...]", _rope(size, dtype))
    return q, k[:, : max(k.shape[1] // 2, 1)].clone(), cos, sin


def _attention(size: Size, dtype: torch.dtype) -> Args:
    """A causal mask."""
    rows = size[0]
    return *_heads(size, dtype, 3), torch.ones(rows, rows, dtype=torch.bool).triu(1)


def _qkv(size: Size, dtype: torch.dtype) -> Args:
    rows, columns = size
    heads, each = heads_of(columns)
    width = heads * each
    weight = (randn(3 * width, width, dtype=torch.float32, seed=1) / width**0.5).to(dtype)
    return randn(BATCH, rows, width, dtype=dtype), weight, randn(3 * width, dtype=dtype, seed=2), heads


def _block(size: Size, dtype: torch.dtype) -> Args:
    rows, columns = size
    heads, each = heads_of(columns)
    width = heads * each
    block = seeded(Block(rows, heads, width), dtype, width**-0.5).eval()
    return block, randn(1, rows, width, dtype=dtype)


ATTENTION: tuple[Program, ...] = (
    Program("rope", "rotary positions of q and k", rope, _rope, "attention"),
    Program("rope_grouped", "the same, with fewer heads of keys", rope_grouped, _rope_grouped, "attention"),
    Program("attention", "mask and softmax between two matmuls", attention, _attention, "attention"),
    Program("qkv_views", "a linear layer split into heads by views", qkv_views, _qkv, "attention"),
    # Both are off by 0.04 from float64, at a scale of 8.5, and not in the same elements.
    Program("gpt2_block", "a block of GPT-2", gpt2_block, _block, "attention", SIZES, half_atol=0.1),
)
