"""How long the passes take: chains of 500, 1,000 and 2,000 ops, with and without aliasing.

    python benchmarks/passes.py

Prints one row a program and length. The promise: 1,000 ops through all passes in under 1.5 s, 2,000 ops in at most 2.5
times that; the exit status says whether it holds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

from fusekit.pipeline import Options, run_passes
from fusekit.trace import record

LENGTHS = (500, 1000, 2000)


def pointwise(ops: int, x: torch.Tensor) -> torch.Tensor:
    """One chain with reuse."""
    for _ in range(ops // 2):
        x = torch.sin(x) * x
    return x


def in_place(ops: int, x: torch.Tensor) -> torch.Tensor:
    """Writes through the whole, a row and an element in turn."""
    for k in range(ops // 4):
        x.add_(1)
        x[k % 8].mul_(0.5)
    return x


def optimizer(ops: int, x: torch.Tensor) -> list[torch.Tensor]:
    """Many small tensors, each with its own few in-place ops."""
    parts = [x[0] + k for k in range(ops // 5)]
    for part in parts:
        part.mul_(0.9).add_(1).sqrt_().neg_()
    return parts


def library(ops: int, x: torch.Tensor) -> torch.Tensor:
    """Library calls between fused ops."""
    for _ in range(ops // 4):
        x = torch.cumsum(torch.exp(x) + 1, -1) * 2
    return x


def seconds(program: Callable[[int, torch.Tensor], object], ops: int) -> tuple[int, float, float]:
    """(recorded ops, seconds to record, seconds in all passes)"""
    started = time.perf_counter()
    graph = record(lambda x: program(ops, x), (torch.ones(16, 16),)).graph
    traced = time.perf_counter()
    run_passes(graph, Options())
    return len(graph.ops()), traced - started, time.perf_counter() - traced


def main() -> int:
    right = True
    print(f"{'program':12} {'ops':>6} {'trace s':>8} {'passes s':>9}")
    for program in (pointwise, in_place, optimizer, library):
        seconds(program, 20)
        took = {}
        for ops in LENGTHS:
            count, traced, took[ops] = seconds(program, ops)
            print(f"{program.__name__:12} {count:6} {traced:8.2f} {took[ops]:9.2f}")
        right &= took[1000] < 1.5 and took[2000] <= 2.5 * took[1000]
    print("holds" if right else "DOES NOT HOLD")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
