"""The backend "sim": kernels for CUDA, run by the simulator on the memory of the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod

import numpy as np

from fusekit.errors import UnsupportedError
from fusekit.lower.print_cuda import scratch_of
from fusekit.run.cuda.kernel import ALIGNED, CudaKernel, addresses_of, copied, is_aligned
from fusekit.run.cuda.simulate import simulate
from fusekit.run.cuda.standins import Stopped

MOST_THREADS, MOST_AT_ONCE = 1 << 17, 4096
"""A simulated thread takes 0.05 to 1 ms; where all blocks wait for one another, all are threads of this process."""


def simulated_kernel(kernel: CudaKernel) -> Callable[..., int]:
    """The kernel as a function of CPU addresses, 1 where it stopped. Raises UnsupportedError for very many threads."""
    grid, block = kernel.launch
    copies, shared, addresses = copied(kernel), scratch_of(kernel.program), addresses_of(kernel)

    def run(*args: int | float) -> int:
        most = MOST_AT_ONCE if shared.together else MOST_THREADS
        if prod(grid) * prod(block) > most:
            what = f"a simulation of {prod(grid) * prod(block):,} threads{' at once' if shared.together else ''}"
            raise UnsupportedError(what, kernel.name, f"use smaller tensors: {most:,} are the most")
        source = kernel.source if is_aligned(args, addresses) else kernel.scalar_source
        keep = [_room(one.size) for one in copies]
        more: list[int] = []
        for one, room in zip(copies, keep, strict=True):
            target = _start(room) + one.first % ALIGNED
            ctypes.memmove(target, int(args[one.source]) + one.first, one.size)
            more.append(target - one.first)
        if shared.partials:
            keep += [_room(shared.partials), _room(4 * shared.counters)]
            keep[-1][:] = 0
            more += [_start(room) for room in keep[-2:]]
        try:
            simulate(source, kernel.name, grid, block, (*args, *more))
        except Stopped:
            return 1
        return 0

    return run


def _room(size: int) -> np.ndarray:
    """Bytes with space for a start at a multiple of 16 and a shift; undefined ones are 255."""
    return np.full(size + 2 * ALIGNED, 255, np.uint8)


def _start(room: np.ndarray) -> int:
    return -(-room.ctypes.data // ALIGNED) * ALIGNED
