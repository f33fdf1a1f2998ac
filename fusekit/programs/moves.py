"""Programs that mostly move bytes: transposes, pieces put together, results that share an input or nothing."""

from __future__ import annotations

import torch

from fusekit.programs.program import EMPTY, SCALAR, SIZES, Args, Program, Size, one, randn


def transposed_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b.t()


def cat_of_slices(x: torch.Tensor) -> torch.Tensor:
    """The columns behind the middle, doubled, then those before it."""
    half = x.shape[1] // 2
    return torch.cat((x[:, half:] * 2, x[:, :half]), 1)


def siblings(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three results that only share what they read."""
    return x.sin(), x * 2, x.relu() + 1


def unrelated(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two chains over different shapes, with nothing in common."""
    return (a.exp() * 2).sqrt(), (b.tanh() + 1).square()


def _unrelated(size: Size, dtype: torch.dtype) -> Args:
    return randn(*size, dtype=dtype), randn(*size[:-1], size[-1] + 3, dtype=dtype, seed=1)


def _transposed(size: Size, dtype: torch.dtype) -> Args:
    return randn(*size, dtype=dtype), randn(*reversed(size), dtype=dtype, seed=1)


MOVES: tuple[Program, ...] = (
    Program("transposed_add", "a sum of which one side is transposed", transposed_add, _transposed, "moves",
            (*SIZES, EMPTY, SCALAR)),
    Program("siblings", "three results of one input", siblings, one, "moves", (*SIZES, EMPTY, SCALAR)),
    Program("unrelated", "two chains that share nothing", unrelated, _unrelated, "moves", (*SIZES, EMPTY)),
    Program("cat_of_slices", "two slices, put together the other way round", cat_of_slices, one, "moves",
            (*SIZES, EMPTY)),
)  # fmt: skip
