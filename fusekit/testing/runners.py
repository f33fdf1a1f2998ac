"""Ways to run a program: op by op, its kernels as plain Python, compiled, on a simulated GPU, on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal
from unittest import mock

from fusekit import pipeline
from fusekit.ir import Graph
from fusekit.lower import Kernel
from fusekit.passes import PIPELINE
from fusekit.pipeline import Options
from fusekit.testing.guarded import guarded_kernel
from fusekit.testing.stages import interpreted

jit = import_module("fusekit.jit")  # fusekit.jit itself is the function
RunnerName = Literal["plain", "numba", "interpreter", "sim", "cuda"]
RUNNERS: tuple[RunnerName, ...] = ("plain", "numba", "interpreter", "sim", "cuda")
OPTIONS = {
    "plain": Options(backend="cpu"),
    "numba": Options(backend="cpu"),
    "sim": Options(backend="sim"),
    "cuda": Options(backend="cuda"),
}


@dataclass(frozen=True)
class Runner:
    """``callable_of`` makes what is called in eager's place; ``device`` is where its arguments go (None: the CPU)."""

    name: RunnerName

    @property
    def device(self) -> str | None:
        return "cuda" if self.name == "cuda" else None

    def callable_of(self, fn: Callable[..., object]) -> Callable[..., Any]:
        """One callable for all calls of a program."""
        if self.name == "interpreter":
            return interpreted(fn, PIPELINE)
        return jit.JitFunction(fn, OPTIONS[self.name])

    @contextmanager
    def running(self, seed: int) -> Iterator[None]:
        """A context in which kernels are made as this runner has them.

        ``seed`` decides about the order of loops, and with one in four the second overlap pattern of a program is one
        too many: it gets the generic plan.
        """
        kernels = _plainly(seed) if self.name == "plain" else nullcontext()
        few = mock.patch.object(jit, "PATTERNS", 1) if seed % 4 == 3 else nullcontext()
        with kernels, few:
            yield


@contextmanager
def _plainly(seed: int) -> Iterator[None]:
    """Kernels run as guarded Python; with every other seed, where the order is free, in a random one."""

    def compiler_of(graph: Graph, backend: str) -> Callable[[Kernel], Callable[..., int | None]]:
        return lambda kernel: guarded_kernel(kernel, graph, seed if seed % 2 and kernel.order == "any" else None)

    with mock.patch.object(pipeline, "compiler_of", compiler_of):
        yield
