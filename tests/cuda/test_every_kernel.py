"""Every kernel of every program, for a GPU, on a machine without one: it compiles to PTX, ptxas takes it, no spills."""

import pytest
import torch

import fusekit as fk
from fusekit.programs import ODD, PROGRAMS, PROGRAMS_REAL, Program

DTYPES = (torch.float32, torch.bfloat16)


@pytest.mark.parametrize("dtype", DTYPES, ids=("f32", "bf16"))
@pytest.mark.parametrize("program", [*PROGRAMS, *PROGRAMS_REAL], ids=lambda p: p.name)
def test_every_kernel_assembles(program: Program, dtype: torch.dtype) -> None:
    with torch.no_grad():
        x = fk.explore(program.fn, *program.make(ODD, dtype), options=fk.Options(backend="cuda"))
    assert all(s.kernel is not None for s in x.segments if s.scheduler not in ("alias", "extern"))
    for kernel in x.kernels:
        assert ".visible .entry" in kernel.ptx
        made = kernel.assembled()
        assert (made.spill_stores, made.spill_loads) == (0, 0), kernel.name
        assert not made.uses_local or "sin(" in kernel.source, kernel.name  # libdevice reduces large angles in an array
