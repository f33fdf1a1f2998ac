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


ROWS: tuple[Program, ...] = (
    Program("log_softmax", "a log-softmax over rows", log_softmax, one, "rows", EVERY),
    Program("cross_entropy", "logits and targets, of which some do not count", cross_entropy, _logits, "rows"),
    Program("column_sum", "the sum of each column", column_sum, one, "rows", EVERY),
    Program("full_sum", "the sum of everything", full_sum, one, "rows", EVERY),
)
