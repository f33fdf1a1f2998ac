"""Programs that mostly move bytes: transposes and pieces put together."""

from __future__ import annotations

import torch

from fusekit.programs.program import EMPTY, SCALAR, SIZES, Args, Program, Size, one, randn


def transposed_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b.t()


def cat_of_slices(x: torch.Tensor) -> torch.Tensor:
    """The columns behind the middle, doubled, then those before it."""
    half = x.shape[1] // 2
    return torch.cat((x[:, half:] * 2, x[:, :half]), 1)


def _transposed(size: Size, dtype: torch.dtype) -> Args:
    return randn(*size, dtype=dtype), randn(*reversed(size), dtype=dtype, seed=1)


MOVES: tuple[Program, ...] = (
    Program("transposed_add", "a sum of which one side is transposed", transposed_add, _transposed, "moves",
            (*SIZES, EMPTY, SCALAR)),
    Program("cat_of_slices", "two slices, put together the other way round", cat_of_slices, one, "moves",
            (*SIZES, EMPTY)),
)  # fmt: skip
