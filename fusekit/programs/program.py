"""What a program is, its sizes, and how the families make tensors: the same ones on every machine and device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

M = TypeVar("M", bound=torch.nn.Module)

Args = tuple[object, ...]
Size = tuple[int, ...]

LARGE: Size = (1024, 1031)
SMALL: Size = (8, 16)
ODD: Size = (7, 13)
EMPTY: Size = (0, 5)
SCALAR: Size = ()
SIZES = (LARGE, SMALL, ODD)


@dataclass(frozen=True)
class Program:
    """``fn`` and ``make(size, dtype)``, which makes its arguments; ``size`` is (rows, columns).

    ``sizes``: those that make sense, EMPTY (no rows) and SCALAR (``()``: 0-d) among them where they do. Arguments are
    made on torch's default device: ``with torch.device("cuda"): program.make(size, dtype)``. ``atol``: for
    float32, where eager's own long sums are off by more than the tolerance that is usual. ``half_atol``: for bfloat16
    at LARGE, where eager's result is as far from that in float64 as ours, or farther (each says how far).
    """

    name: str
    title: str
    fn: Callable[..., object]
    make: Callable[[Size, torch.dtype], Args]
    group: str = "everyday"
    sizes: tuple[Size, ...] = SIZES
    atol: float | None = None
    half_atol: float | None = None

    def tolerance(self, dtype: torch.dtype, size: Size | None = None) -> dict[str, float]:
        """What ``Exploration.check`` is told."""
        if dtype is torch.bfloat16 and size == LARGE and self.half_atol is not None:
            return {"atol": self.half_atol}
        return {"atol": self.atol} if self.atol is not None and dtype is torch.float32 else {}


def randn(*shape: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """The same numbers on every device."""
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed), device="cpu")
    return made.to(torch.get_default_device(), dtype)


def integers(below: int, *shape: int, seed: int = 0) -> torch.Tensor:
    """Indices from 0 to below."""
    made = torch.randint(max(below, 1), shape, generator=torch.Generator().manual_seed(seed), device="cpu")
    return made.to(torch.get_default_device())


def seeded(module: M, dtype: torch.dtype, scale: float = 0.2) -> M:
    """The module with the same parameters on every machine, for inference; weights of a norm stay near 1."""
    module = module.to(torch.get_default_device(), dtype).requires_grad_(False)
    for seed, (name, parameter) in enumerate(module.named_parameters()):
        near = 1.0 if parameter.ndim == 1 and name.endswith("weight") else 0.0
        parameter.copy_(near + scale * randn(*parameter.shape, dtype=torch.float32, seed=100 + seed))
    return module


def heads_of(columns: int) -> tuple[int, int]:
    """(heads, width of a head) whose product is near ``columns``; the width is even, since RoPE turns pairs."""
    heads = max(columns // 64, 2)
    return heads, max(columns // heads // 2 * 2, 2)


def one(size: Size, dtype: torch.dtype) -> Args:
    return (randn(*size, dtype=dtype),)
