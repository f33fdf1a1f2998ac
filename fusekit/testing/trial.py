"""One random program against eager: called some times through one callable, with other numbers, its arguments sharing
memory otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch

from fusekit.run.closeness import Tolerance
from fusekit.run.compare import CheckReport, Row, compare
from fusekit.run.observe import observe
from fusekit.testing.bound import within_bound
from fusekit.testing.programs import RandomProgram
from fusekit.testing.runners import Runner

Verdict = Literal["right", "wrong", "refused"]
EXACT = Tolerance(bitwise=True)
Make = Callable[[], Sequence[object]]


@dataclass(frozen=True)
class Trial:
    """What became of a program. ``words``: what differs, or what was refused. ``launches``: kernels, library calls,
    copies of each call. ``raised``: eager itself refuses it. ``within_bound``: the measured bound was needed."""

    verdict: Verdict
    words: str = ""
    call: int = 0
    raised: bool = False
    within_bound: bool = False
    launches: tuple[tuple[int, int, int], ...] = ()


def try_program(program: RandomProgram, runner: Runner, seed: int = 0) -> Trial:
    """Run the calls of a program, each on arguments of its own, and compare each with eager."""
    makes = [partial(program.args, call, runner.device) for call in program.calls]
    return try_calls(program.function_on(runner.device), makes, program.exact, runner, seed)


def try_calls(fn: Callable[..., object], makes: Sequence[Make], exact: bool, runner: Runner, seed: int = 0) -> Trial:
    """Call a function with what each of ``makes`` makes, through one callable, and compare each call with eager."""
    candidate = runner.callable_of(fn)
    trial = Trial("right")
    launches: list[tuple[int, int, int]] = []
    for number, make in enumerate(makes):
        with runner.running(seed):
            report, has_raised, near = _call(fn, candidate, make, exact)
        run = getattr(candidate, "last_run", None)
        if run is not None:
            launches.append((run.kernels, run.extern_calls, run.copies))
        refusal = next((row.fusekit for row in report.failures if row.fusekit.startswith("UnsupportedError")), None)
        verdict: Verdict = "right" if report.ok else "refused" if refusal and not has_raised else "wrong"
        raised, near = has_raised or trial.raised, near or trial.within_bound
        trial = Trial(verdict, refusal or str(report), number, raised, near, tuple(launches))
        if verdict != "right":
            return trial
    return trial


def _call(
    fn: Callable[..., object], candidate: Callable[..., Any], make: Make, exact: bool
) -> tuple[CheckReport, bool, bool]:
    """(the comparison, does eager raise?, was the measured bound needed?)."""
    with torch.no_grad():
        want, got = observe(fn, make()), observe(candidate, make())
    tolerance = EXACT if exact else Tolerance()
    report = compare(want, got, tolerance=tolerance)
    raised = want.error is not None
    if report.ok or raised or got.error is not None or not all(map(_is_numeric, report.failures)):
        return report, raised, False
    with torch.no_grad():
        if within_bound(fn, make, want, got, exact):
            return CheckReport(tuple(row for row in report.rows if row.ok)), raised, True
    return report, raised, False


def _is_numeric(row: Row) -> bool:
    """Do only elements differ?"""
    return " elements, first " in row.fusekit and "after writes" not in row.what
