"""Folds of rows and columns, and what is made of them."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from fusekit.programs.program import EMPTY, SCALAR, SIZES, Args, Program, Size, integers, one, randn

EVERY = (*SIZES, EMPTY, SCALAR)


def log_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(x, -1)


def cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, target)


def mse_loss(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(x, target)


def embedding(index: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Rows of a table, scaled as some language models do."""
    return F.embedding(index, table) * table.shape[1] ** 0.5


def column_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0)


def full_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum()


def _logits(size: Size, dtype: torch.dtype) -> Args:
    """Every fifth target is the one that a loss leaves out."""
    rows, columns = size
    target = integers(columns, rows)
    target[::5] = -100
    return randn(*size, dtype=dtype), target


def _pair(size: Size, dtype: torch.dtype) -> Args:
    return randn(*size, dtype=dtype), randn(*size, dtype=dtype, seed=1)


def _looked_up(size: Size, dtype: torch.dtype) -> Args:
    """As many rows are looked up as there are."""
    rows, columns = size
    return integers(rows, rows), randn(rows, columns, dtype=dtype)


ROWS: tuple[Program, ...] = (
    Program("log_softmax", "a log-softmax over rows", log_softmax, one, "rows", EVERY),
    Program("cross_entropy", "logits and targets, of which some do not count", cross_entropy, _logits, "rows"),
    Program("mse_loss", "the mean of squared differences", mse_loss, _pair, "rows"),
    Program("embedding", "rows of a table, looked up and scaled", embedding, _looked_up, "rows"),
    Program("column_sum", "the sum of each column", column_sum, one, "rows", EVERY),
    Program("full_sum", "the sum of everything", full_sum, one, "rows", EVERY),
)
