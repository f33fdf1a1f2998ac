"""Inputs whose bytes lie in another order than their dimensions: what no PyTorch program can pass. The allocation of an
input is forced; the values are those of the rearranged tensor, whatever the loops are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fusekit as fk
from fusekit.errors import FusekitError
from tests.behaviours.seeing import data

Rearranged = Callable[[torch.Tensor], torch.Tensor]
ALLOCATIONS: dict[str, Rearranged] = {
    "reorder(1, 0)": lambda x: x.reshape(8, 6).t(),
    "split(1, 4)": lambda x: x,
    "split(1, 4, outer)": lambda x: x,
    "split(1, 4).reorder(1, 0, 2)": lambda x: x.reshape(2, 6, 4).transpose(0, 1).reshape(6, 8),
    "split(0, 3, outer).reorder(2, 1, 0)": lambda x: x.reshape(8, 2, 3).permute(2, 1, 0).reshape(6, 8),
    "merge(0).split(0, 16).reorder(1, 0)": lambda x: x.reshape(16, 3).t().reshape(6, 8),
}


def forced(fn: Callable[..., object], x: torch.Tensor, chain: str) -> fk.Exploration:
    made = fk.explore(fn, x).what_if(allocation={"%x": chain})
    for step in made.steps:
        assert fk.parse(made.text(step.name)) == step.graph
    assert (made.summary().kernels, made.summary().extern_calls, made.summary().copies) == (1, 0, 0)
    return made


@pytest.mark.parametrize("chain", ALLOCATIONS)
def test_b022_b024_an_op_over_another_allocation(chain: str) -> None:
    """The loops are not touched: 22 to 24, and an allocation that is a split (#3479), which upstream runs only where
    the loop has the same split."""
    x = data(6, 8)
    made = forced(lambda x: x * 2 + 1, x, chain)
    assert torch.equal(made.run(), ALLOCATIONS[chain](x) * 2 + 1)
    assert made.summary().bytes_moved == made.summary().bytes_least


@pytest.mark.parametrize("chain", ALLOCATIONS)
def test_b075_a_view_over_another_allocation(chain: str) -> None:
    x = data(6, 8)
    made = forced(lambda x: x.view(3, 16) - 1, x, chain)
    assert torch.equal(made.run(), ALLOCATIONS[chain](x).reshape(3, 16) - 1)


@pytest.mark.parametrize("chain", ALLOCATIONS)
def test_b081_sums_over_another_allocation(chain: str) -> None:
    x = data(6, 8)
    for fn in (lambda x: x.sum(0), lambda x: x.sum(1) * 2, lambda x: x.sum(0).sum(0) + x.sum()):
        assert torch.equal(forced(fn, x, chain).run(), fn(ALLOCATIONS[chain](x)))


def test_a_split_with_a_rest_is_refused() -> None:
    """A buffer of its own may have padding; memory that is there has none."""
    with pytest.raises(FusekitError, match="7"):
        fk.explore(lambda x: x + 1, data(7)).what_if(allocation={"%x": "split(0, 2)"})


def test_check_reads_the_bytes_alike() -> None:
    """A check of a forced allocation holds it against eager on the rearranged tensor."""
    made = fk.explore(lambda x: x * 2 + 1, data(6, 8)).what_if(allocation={"%x": "reorder(1, 0)"})
    assert made.check().ok
