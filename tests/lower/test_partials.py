"""Folds of everything: threads find their own parts, which are put together in order; the same on any machine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import fusekit as fk
from fusekit.lower.program import Buffer, For
from fusekit.run.compile import plain_kernel

BIG = (1031, 1033)  # more than a million elements, and no part divides


def kernel_of(fn: Callable[..., object], *args: torch.Tensor):
    (kernel,) = fk.explore(fn, *args).kernels
    return kernel


def big(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(BIG, generator=generator).to(dtype)


FOLDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "amax": lambda x: x.amax(),
    "amin": lambda x: -x.amin(),
    "any": lambda x: (x > 9).any(),
    "all": lambda x: (x > -9).all(),
    "prod": lambda x: (1 + x * 1e-4).prod(),
    "columns": lambda x: x.sum(0),
    "most of columns": lambda x: x.amax(0),
    "two": lambda x: x.sum() + (x * x).sum(),
    "then elements": lambda x: x / x.abs().sum(),
    "variance": lambda x: (x - x.mean()) * torch.rsqrt((x - x.mean()).square().mean()),
    "half the rows": lambda x: x[::2].sum(),
}


@pytest.mark.parametrize("name", FOLDS)
def test_all_threads_fold(name: str) -> None:
    fn, x = FOLDS[name], big()
    kernel = kernel_of(fn, x)
    if name != "half the rows":
        assert kernel.parallel and any(isinstance(s, Buffer) for s in kernel.program.body)
    found = fk.jit(fn)(x)
    loose = 1e-2 if name == "prod" else 1e-5  # a million float32 factors
    torch.testing.assert_close(found, fn(x.double()).to(found.dtype), rtol=loose, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64, torch.float64], ids=str)
def test_every_dtype(dtype: torch.dtype) -> None:
    x = (big() * 100).to(dtype)
    for fn in (lambda x: x.sum(), lambda x: x.sum(0)):
        torch.testing.assert_close(fk.jit(fn)(x), fn(x), rtol=1e-2, atol=1e-2)


def test_rows_are_folded_and_then_what_they_gave() -> None:
    logits, target = big(), torch.arange(BIG[0]) % BIG[1]
    target[::5] = -100
    assert kernel_of(F.cross_entropy, logits, target).parallel
    torch.testing.assert_close(fk.jit(F.cross_entropy)(logits, target), F.cross_entropy(logits, target))


def test_nan_is_found_in_any_part() -> None:
    for at in (0, 515_000, -1):
        x = big()
        x.view(-1)[at] = float("nan")
        assert fk.jit(lambda x: x.amax())(x).isnan()


def test_the_first_of_equals_is_found() -> None:
    x = big()
    x.view(-1)[[700, 900_000]] = 50.0
    assert fk.jit(lambda x: x.argmax())(x) == 700


def test_threads_do_not_change_the_result() -> None:
    """The parts are what the program says, not what the machine has."""
    import numba

    x, fn = big(), fk.jit(lambda x: x.sum())
    first, before = fn(x), numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        assert torch.equal(fn(x), first)
    finally:
        numba.set_num_threads(before)


def test_the_source_runs_as_plain_python() -> None:
    """In any order of the parts: the very text, without Numba."""
    x = big()[:17].clone()
    kernel = kernel_of(lambda x: x.sum(0), big())
    assert any(isinstance(s, For) and s.parallel for s in kernel.program.body)
    small = kernel_of(lambda x: x.sum(0), x)
    out = torch.empty(BIG[1])
    plain_kernel(small, shuffle=1)(x.data_ptr(), out.data_ptr())
    torch.testing.assert_close(out, x.sum(0))
