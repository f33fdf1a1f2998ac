"""Names that the package resolves on first use are no state of a function; questions to eager give no warnings."""

from __future__ import annotations

import warnings

import torch

import fusekit as fk


def cut_and_sum(x: torch.Tensor) -> torch.Tensor:
    return fk.cut(x + 1).sum(1)


def test_a_public_name_first_used_after_the_recording() -> None:
    x = fk.explore(cut_and_sum, torch.ones(3, 4))
    vars(fk).pop("diff", None)
    vars(fk).pop("overlap", None)
    assert fk.overlap(torch.ones(3), torch.ones(3)) is not None and fk.diff is not None
    assert x.check().ok


def test_no_warning_that_eager_does_not_give() -> None:
    """Eager is asked about tensors of one element, of which it can take no variance."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fk.explore(lambda x: x.var(0), torch.rand(5, 7)).check().ok
