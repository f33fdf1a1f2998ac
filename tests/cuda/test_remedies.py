"""What protects loads from stores of one launch: in PTX that ptxas takes, and right thread by thread."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fusekit as fk
from fusekit.run.cuda.kernel import CudaKernel


def flip_rows(x: torch.Tensor) -> torch.Tensor:
    return x.copy_(x.flip(0).clone())


def add_transposed(x: torch.Tensor) -> torch.Tensor:
    return x.add_(x.t().clone())


def element_of_all(x: torch.Tensor) -> torch.Tensor:
    return x.exp_() * x[0, 0].tanh_()


def row_of_all(x: torch.Tensor) -> torch.Tensor:
    return x.sub_(x[1].clone())


def shift_in_rows(x: torch.Tensor) -> torch.Tensor:
    """A row is one block's, since its sum is."""
    y = x - x.sum(1, keepdim=True)
    return x.copy_(torch.cat((y[:, 1:], y[:, :1]), 1))


PAIRED, LAST, BARRIER = "pairing of orbits", "store left to the last block", "block barrier"
Program = Callable[[torch.Tensor], torch.Tensor]
PROGRAMS = [
    (flip_rows, (32, 40), PAIRED),
    (add_transposed, (68, 68), PAIRED),
    (element_of_all, (16, 40), LAST),
    (element_of_all, (13, 41), LAST),
    (row_of_all, (24, 48), LAST),
    (flip_rows, (5, 7), BARRIER),
    (shift_in_rows, (6, 37), BARRIER),
]


@pytest.mark.parametrize(("fn", "shape", "remedy"), PROGRAMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_remedies(fn: Program, shape: tuple[int, ...], remedy: str, dtype: torch.dtype) -> None:
    if dtype is torch.int64 and fn in (element_of_all, add_transposed):
        pytest.skip("no exp of integers in place; 4,000 threads take a minute")
    x = torch.randint(-4, 5, shape).to(dtype)
    with torch.no_grad():
        seen = fk.explore(fn, x, options=fk.Options(backend="sim"))
        assert seen.check().ok
    assert seen.summary().copies == 0
    kernels = [kernel for kernel in seen.kernels if isinstance(kernel, CudaKernel)]
    assert remedy in {race.remedy for kernel in kernels for race in kernel.races}
    for kernel in kernels:
        made = kernel.assembled()
        assert (made.spill_stores, made.spill_loads) == (0, 0)
    text = "".join(kernel.ptx for kernel in kernels)
    assert ("bar.sync" in text) == (remedy != PAIRED)
    assert ("atom.acq_rel.gpu" in text) == (remedy == LAST)


def test_a_call_that_starts_anywhere() -> None:
    """Memory that is not aligned as vectors are: the deferred stores go one by one."""
    x = torch.randn(16 * 40 + 1)[1:].view(16, 40)
    with torch.no_grad():
        assert fk.explore(element_of_all, x, options=fk.Options(backend="sim")).check().ok
