"""``alias="conservative"``: byte ranges instead of overlap, and a launch at each hazard. Right, and slower."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fusekit as fk
from fusekit.programs import ODD, PROGRAMS, SMALL, Program

CONSERVATIVE = fk.Options(alias="conservative")
LAUNCHES = {
    "thread_f": (1, 3),
    "thread_h": (1, 3),
    "thread_sin_after": (1, 3),
    "thread_sin_after_inner_view": (1, 3),
    "thread_add_at_end": (1, 4),
    "thread_g": (1, 1),
    "thread_view_then_both_read": (1, 1),
    "thread_two_views": (1, 1),
    "thread_unrelated": (1, 1),
}
"""Kernels and copies of the thread's programs: exact, conservative."""


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
@pytest.mark.parametrize("size", [SMALL, ODD], ids=str)
def test_programs_stay_right(program: Program, size: tuple[int, int]) -> None:
    args = program.make(size, torch.float32)
    x = fk.explore(program.fn, *args, options=CONSERVATIVE)
    report = x.check(**program.tolerance(torch.float32, size))
    assert report.ok, report
    exact = fk.explore(program.fn, *args).summary()
    assert x.summary().kernels + x.summary().copies >= exact.kernels + exact.copies


@pytest.mark.parametrize("name", LAUNCHES)
def test_what_exactness_saves(name: str) -> None:
    program = next(p for p in PROGRAMS if p.name == name)
    args = program.make(ODD, torch.float32)
    found = [fk.explore(program.fn, *args, options=fk.Options(alias=a)).summary() for a in ("exact", "conservative")]
    assert tuple(s.kernels + s.copies for s in found) == LAUNCHES[name]
    assert (found[1].bytes_moved > found[0].bytes_moved) == (LAUNCHES[name][1] > 1)


def test_what_if_and_why() -> None:
    program = next(p for p in PROGRAMS if p.name == "thread_f")
    x = fk.explore(program.fn, *program.make(ODD, torch.float32))
    y = x.what_if(alias="conservative")
    assert (x.summary().kernels, y.summary().kernels) == (1, 3)
    assert any(e.reason.name == "flush-conservative" for step in y.steps for e in step.explanations)
    assert y.check().ok


def columns(x: torch.Tensor) -> torch.Tensor:
    """Even and odd columns share no byte, and their byte ranges cross."""
    x[:, 0::2] += 1
    x[:, 1::2] *= 2
    return x


def shifted(x: torch.Tensor) -> torch.Tensor:
    x[1:] += x[:-1].clone()
    return x


def read_then_written(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """WAR: a row is read before all of x is written."""
    row = x[1] * 2
    x.add_(1)
    return row, x


def parts(x: torch.Tensor) -> torch.Tensor:
    """The writes of one op are one access, and so is who reads its result."""
    return torch.cat((x, -x), 1) * 2


@pytest.mark.parametrize(
    ("fn", "launches"), [(columns, (1, 2)), (shifted, (1, 2)), (read_then_written, (1, 2)), (parts, (1, 1))]
)
def test_kinds_of_hazards(fn: Callable[[torch.Tensor], object], launches: tuple[int, int]) -> None:
    x = torch.arange(9.0 * 14).view(9, 14)
    found = [fk.explore(fn, x, options=fk.Options(alias=a)) for a in ("exact", "conservative")]
    assert all(one.check().ok for one in found)
    assert tuple(one.summary().kernels + one.summary().copies for one in found) == launches
