"""One random program against eager: called twice through one callable, its arguments sharing memory otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch

from fusekit.errors import UnsupportedError
from fusekit.run.closeness import Tolerance
from fusekit.run.compare import CheckReport, compare
from fusekit.run.observe import observe
from fusekit.testing.bound import within_bound
from fusekit.testing.programs import RandomProgram
from fusekit.testing.runners import Runner

Verdict = Literal["right", "wrong", "refused"]
CALLS = (0, 1, 0)  # the last one meets a plan that is there
EXACT = Tolerance(bitwise=True)


@dataclass(frozen=True)
class Trial:
    """What became of a program. ``words``: what differs, or what was refused. ``launches``: kernels, library calls,
    copies of each call. ``raised``: eager itself refuses it."""

    verdict: Verdict
    words: str = ""
    call: int = 0
    raised: bool = False
    within_bound: bool = False
    launches: tuple[tuple[int, int, int], ...] = ()
    counts: Counter[str] = field(default_factory=Counter[str])


def try_program(program: RandomProgram, runner: Runner, seed: int = 0) -> Trial:
    """Run the calls of a program, each on arguments of its own, and compare each with eager."""
    fn = program.function
    candidate = runner.callable_of(fn)
    trial = Trial("right")
    launches: list[tuple[int, int, int]] = []
    for number, call in enumerate(CALLS):
        make = partial(program.make, call, runner.device)
        with runner.running(seed):
            report, raised, near = _call(fn, candidate, make, program.exact)
        run = getattr(candidate, "last_run", None)
        if run is not None:
            launches.append((run.kernels, run.extern_calls, run.copies))
        refusal = next((row.fusekit for row in report.failures if row.fusekit.startswith("UnsupportedError")), None)
        verdict: Verdict = "right" if report.ok else "refused" if refusal and not raised else "wrong"
        trial = Trial(verdict, refusal or str(report), number, raised or trial.raised, near or trial.within_bound, tuple(launches))
        if verdict != "right":
            return trial
    return trial


def _call(
    fn: Callable[..., object], candidate: Callable[..., Any], make: Callable[[], list[torch.Tensor]], exact: bool
) -> tuple[CheckReport, bool, bool]:
    """(the comparison, does eager raise?, was the measured bound needed?)."""
    with torch.no_grad():
        want, got = observe(fn, make()), observe(candidate, make())
    tolerance = EXACT if exact else Tolerance()
    report = compare(want, got, tolerance=tolerance)
    raised = want.error is not None
    if report.ok or exact or raised or got.error is not None:
        return report, raised, False
    with torch.no_grad():
        if within_bound(fn, make, want, got):
            left = tuple(row for row in report.rows if row.ok or not _is_numeric(row.fusekit))
            return CheckReport(left, report.title, report.script), raised, True
    return report, raised, False


def _is_numeric(words: str) -> bool:
    return " elements, first " in words


def is_refusal(error: Exception | None) -> bool:
    return isinstance(error, UnsupportedError)
