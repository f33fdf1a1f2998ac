"""The PTX of a fuzz run on a GPU, made where there is none: a run finds it on disk, under its source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fusekit.errors import FusekitError
from fusekit.exploration import explore
from fusekit.pipeline import Options
from fusekit.progress import progress
from fusekit.run.cuda.kernel import DEFAULT_CC, CudaKernel
from fusekit.testing.fuzz_seed import Job, program_of
from fusekit.testing.generate import REFUSED

OPTIONS = Options(backend="cuda")


def prepare(seeds: Iterable[int], job: Job) -> tuple[int, int]:
    """(kernels whose PTX is there now, programs that gave none) of the programs of these seeds."""
    made, without = 0, 0
    for seed in progress(list(seeds), "making PTX", "program"):
        kernels = list(_kernels(seed, job))
        made, without = made + len(kernels), without + (not kernels)
        for kernel in kernels:
            for vectors in (True, False):  # addresses that allow wide accesses, and others
                kernel.compiled(DEFAULT_CC, vectors)
    return made, without


def _kernels(seed: int, job: Job) -> Iterator[CudaKernel]:
    program = program_of(seed, job)
    for call in (0, 1):
        try:
            found = explore(program.function, *program.args(call), options=OPTIONS).kernels
        except (FusekitError, *REFUSED):  # eager refuses it, or fusekit: the run itself will tell
            continue
        yield from (kernel for kernel in found if isinstance(kernel, CudaKernel))
