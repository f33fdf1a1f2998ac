"""What a target makes of parallel types: which loops it runs, which the launch gives, which are unrolled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusekit.dtypes import BOOL, F32, F64, I64, DType
from fusekit.ir import Parallel
from fusekit.lower.program import Fold

Name = Literal["cpu", "cuda"]
BLOCKS = frozenset({Parallel.BIDx, Parallel.BIDy, Parallel.BIDz})
THREADS = frozenset({Parallel.TIDx, Parallel.TIDy, Parallel.TIDz})


@dataclass(frozen=True)
class Target:
    """``implicit``: types whose index the launch provides; ``expand``: unrolled by substituting numbers; ``lanes``:
    whole vectors; all others are loops. ``shared``: types whose loop may be shared out to threads of a CPU.

    ``ordered``: do loops run in their order? ``wide``: are sums of float32 accumulated in float64?
    ``exact``: is every op's result rounded to its dtype, as eager rounds? (Else only what is stored, and what the
    program itself converts.) ``rounds``: does a store of a half round, whatever the register holds?
    """

    name: Name
    implicit: frozenset[Parallel] = frozenset()
    expand: frozenset[Parallel] = frozenset()
    lanes: frozenset[Parallel] = frozenset()
    shared: frozenset[Parallel] = frozenset()
    ordered: bool = True
    wide: bool = False
    exact: bool = True
    rounds: bool = False

    def accumulator(self, fold: Fold, source: DType) -> DType:
        """The dtype in which elements of ``source`` are folded; halves are float32 in registers."""
        if fold in (Fold.ANY, Fold.ALL):
            return BOOL
        if fold in (Fold.SUM, Fold.PROD):
            if source.is_integral:
                return I64
            narrow = F64 if fold is Fold.SUM and self.wide else F32
            return F64 if source is F64 else narrow
        return F32 if source.is_floating and source.width == 2 else source


CPU = Target("cpu", shared=BLOCKS, wide=True)
CUDA = Target(
    "cuda",
    implicit=BLOCKS | THREADS,
    expand=frozenset({Parallel.UNROLL}),
    lanes=frozenset({Parallel.VECTORIZE}),
    ordered=False,
    rounds=True,
)
TARGETS = {"cpu": CPU, "cuda": CUDA}


def lifted(dtype: DType, exact: bool) -> DType:
    """The dtype that an op's result is rounded to: of a half's without exactness that of its register."""
    return F32 if not exact and dtype.is_floating and dtype.width == 2 else dtype
