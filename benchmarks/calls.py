"""What a call of ``fk.jit`` costs: the guard, the launch, calls whose numbers move, and the same in eager.

    python benchmarks/calls.py

Prints one table, in microseconds a call. The promises: the guard of two aliasing tensors in under 5 us, of 20 tensors
in under 20 us; the exit status says whether they hold.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from functools import partial

import torch

import fusekit as fk
from fusekit.jit import JitFunction
from fusekit.programs import PROGRAMS

PROGRAM = {program.name: program for program in PROGRAMS}
PROMISED = {"two aliasing tensors": 5.0, "20 tensors": 20.0}


class Block(torch.nn.Module):
    """Twelve captured tensors and as many little ops."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.ones(8) for _ in range(12)])
        self.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = x * weight
        return x


def total(*tensors: torch.Tensor) -> torch.Tensor:
    out = tensors[0]
    for t in tensors[1:]:
        out = out + t
    return out


def microseconds(call: Callable[[], object], seconds: float = 0.2) -> float:
    """The best of ten batches, of this thread's own time: others may use the machine."""
    for _ in range(5):
        call()
    started = time.thread_time()
    call()
    count = max(3, int(seconds / 10 / max(time.thread_time() - started, 1e-7)))
    return 1e6 * min(_batch(call, count) for _ in range(10))


def _batch(call: Callable[[], object], count: int) -> float:
    started = time.thread_time()
    for _ in range(count):
        call()
    return (time.thread_time() - started) / count


def rows() -> list[tuple[str, Callable[..., object], Callable[[], tuple[object, ...]]]]:
    """(name, function, the arguments of the next call)"""
    a, b = torch.ones(8), torch.ones(8)
    many = [torch.ones(8) for _ in range(20)]
    whole = torch.ones(4, 4)
    shapes = itertools.cycle([(a, b), (torch.ones(16), torch.ones(16))])
    state = PROGRAM["adamw"].make((8, 8), torch.float32)[:4]
    cache, new = torch.zeros(2, 4096, 8), torch.ones(2, 1, 8)
    step, position = itertools.count(1), itertools.cycle(range(4096))
    block = Block()
    return [
        ("a + b", torch.add, lambda: (a, b)),
        ("two shapes in turn", torch.add, lambda: next(shapes)),
        ("two aliasing tensors", PROGRAM["thread_f"].fn, lambda: (whole, whole[0, 0])),
        ("20 tensors", total, lambda: tuple(many)),
        ("block, 12 captures", block, lambda: (a,)),
        ("AdamW, step moves", PROGRAM["adamw"].fn, lambda: (*state, next(step))),
        ("KV cache, position moves", PROGRAM["kv_cache_write"].fn, lambda: (cache[:, :64], new, next(position) % 64)),
    ]


def called(fn: Callable[..., object], arguments: Callable[[], tuple[object, ...]]) -> object:
    return fn(*arguments())


def guard_of(compiled: JitFunction, arguments: Callable[[], tuple[object, ...]]) -> float | None:
    """Of the last call's predicate; None where no predicate serves the call."""
    given = arguments()
    held = [predicate for predicate, _ in compiled._fast if predicate(given) is not None]
    return microseconds(lambda: held[0](given)) if held else None


def main() -> int:
    print(f"{'microseconds a call':26}{'guard':>8}{'call':>8}{'eager':>8}")
    holds = True
    with torch.no_grad():
        for name, fn, arguments in rows():
            compiled = fk.jit(fn)
            call = microseconds(partial(called, compiled, arguments))
            guard = guard_of(compiled, arguments)
            eager = microseconds(partial(called, fn, arguments))
            shown = f"{guard:8.1f}" if guard is not None else f"{'-':>8}"
            print(f"{name:26}{shown}{call:8.1f}{eager:8.1f}")
            holds &= name not in PROMISED or (guard is not None and guard < PROMISED[name])
    print("holds" if holds else "DOES NOT HOLD")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
