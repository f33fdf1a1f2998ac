"""Errors that data decide surface at their op: after the writes that eager too would have made, before later ones."""

from collections.abc import Callable

import pytest
import torch

import fusekit as fk
from fusekit.testing import differential


def bad_index(a: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    a.add_(1)
    picked = torch.ones(3)[index]
    a.mul_(2)
    return picked + a.sum()


def not_positive(a: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    a.add_(1)
    lower = torch.linalg.cholesky(-torch.eye(3))
    a.mul_(2)
    return lower + a.sum()


def divides_by_zero(a: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    a.add_(1)
    quotient = index // torch.zeros(2, dtype=torch.int64)
    a.mul_(2)
    return quotient + a.sum()


@pytest.mark.parametrize("fn", [bad_index, not_positive, divides_by_zero], ids=lambda f: f.__name__)
def test_writes_before_the_error_stay_and_later_ones_are_not_made(fn: Callable[..., torch.Tensor]) -> None:
    report = differential(fn, fk.jit(fn), (torch.zeros(4), torch.tensor([1, 7])))
    assert report.ok, report
    assert any(row.what.startswith("error") or "raise" in row.what for row in report.rows), report
