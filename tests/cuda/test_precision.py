"""precision="fast": no rounding between ops, products and sums may contract; stores, and the program's own conversions,
round as ever."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import fusekit as fk
from fusekit.errors import UnsupportedError
from fusekit.run.cuda.kernel import CudaKernel

Fn = Callable[..., torch.Tensor]


def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ((x * y + x) * y - x) * 0.5


def gelu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.gelu(x + y[0], approximate="tanh") * y


def softmax(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * 3 + y).softmax(-1)


def layer_norm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x * 2 + y, x.shape[-1:], y[0], y[1])


def column_means(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * y).mean(0) * 3 + 1


PROGRAMS: tuple[Fn, ...] = (chain, gelu, softmax, layer_norm, column_means)


def operands(dtype: torch.dtype, rows: int = 5, columns: int = 72) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    x, y = (torch.randn(rows, columns, generator=generator) for _ in range(2))
    return x.to(dtype), y.to(dtype)


def error(found: torch.Tensor, exact: torch.Tensor) -> float:
    return ((found.double() - exact).norm() / exact.norm()).item()


@pytest.mark.parametrize("backend", ["cpu", "sim"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("fn", PROGRAMS)
def test_fast_is_as_near_to_float64_as_eager(fn: Fn, dtype: torch.dtype, backend: str):
    x, y = operands(dtype)
    exact = fn(x.double(), y.double())
    fast = fk.jit(fn, backend=backend, precision="fast")(x, y)
    assert fast.dtype is dtype
    slack = 1.5 if dtype is torch.float32 else 1.02  # of float32 there is little but its own last bit
    assert error(fast, exact) <= slack * error(fn(x, y), exact) + 1e-7


@pytest.mark.parametrize("backend", ["cpu", "sim"])
@pytest.mark.parametrize("fn", PROGRAMS)
def test_a_check_allows_what_eager_alone_rounds(fn: Fn, backend: str):
    for dtype in (torch.float32, torch.bfloat16):
        report = fk.explore(fn, *operands(dtype), options=fk.Options(backend=backend, precision="fast")).check()
        assert report.ok, report


def made(fn: Fn, dtype: torch.dtype, precision: str) -> CudaKernel:
    x = fk.explore(fn, *operands(dtype, 8, 512), options=fk.Options(backend="cuda", precision=precision))
    (kernel,) = x.kernels
    assert isinstance(kernel, CudaKernel)
    return kernel


def count(pattern: str, kernel: CudaKernel) -> int:
    return len(re.findall(pattern, kernel.ptx))


def test_ptx_contracts_only_where_it_may():
    eager, fast = (made(chain, torch.float32, precision) for precision in ("eager", "fast"))
    assert count(r"fma\.rn\.f32", eager) == 0
    assert count(r"mul\.rn\.f32", eager) == 12 and count(r"(add|sub)\.rn\.f32", eager) == 8
    assert count(r"fma\.rn\.f32", fast) >= 4 and not count(r"(mul|add|sub)\.rn\.f32", fast)  # the rest is ptxas's
    assert eager.source == fast.source  # float32 has no rounding to lift: only the compiler is told


def test_ptx_rounds_halves_only_where_it_stores():
    eager, fast = (made(chain, torch.bfloat16, precision) for precision in ("eager", "fast"))
    assert count(r"cvt\.rn\.bf16\.f32", eager) == 5 * 8 and count(r"cvt\.rn\.bf16x2", eager) == 0  # a store drops zeros
    assert count(r"cvt\.rn\.bf16\.f32", fast) == 0 and count(r"cvt\.rn\.bf16x2", fast) == 4


def test_quotients_are_quick_only_where_a_half_hides_it():
    assert count(r"div\.rn\.f32", made(softmax, torch.bfloat16, "eager"))
    assert count(r"div\.full\.f32", made(softmax, torch.bfloat16, "fast"))
    assert count(r"div\.rn\.f32", made(softmax, torch.float32, "fast"))


@pytest.mark.parametrize("backend", ["cpu", "sim"])
def test_what_the_program_converts_is_converted(backend: str):
    """And what is looked at bit by bit has the bits that memory would have."""

    def converted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * y).to(torch.bfloat16).to(torch.float32)

    def looked_at(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * y).view(torch.int16) & 1

    for fn, dtype in ((converted, torch.float32), (looked_at, torch.bfloat16)):
        x, y = operands(dtype)
        assert torch.equal(fk.jit(fn, backend=backend, precision="fast")(x, y), fn(x, y))


def test_both_precisions_of_one_function_stand_side_by_side():
    x, y = operands(torch.bfloat16)
    eager, fast = fk.jit(chain), fk.jit(chain, precision="fast")
    for _ in range(2):
        assert torch.equal(eager(x, y), chain(x, y))
        assert not torch.equal(fast(x, y), chain(x, y))
    assert eager.cache_info().plans == fast.cache_info().plans == 1


def test_contraction_on_the_cpu_is_compiled_apart():
    """One source, two machine codes."""
    x, y = operands(torch.float32, 64, 513)
    eager, fast = fk.jit(chain)(x, y), fk.jit(chain, precision="fast")(x, y)
    assert torch.equal(eager, chain(x, y))
    assert not torch.equal(fast, eager)


def test_another_precision_is_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"'exact'.*'eager', 'fast'"):
        fk.Options(precision="exact")  # type: ignore[arg-type]
