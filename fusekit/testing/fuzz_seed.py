"""One seed of a fuzz run: its program, what became of it, what is worth counting; a failure is shrunk."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch

from fusekit.run.sharing import overlap
from fusekit.testing.differential import differential
from fusekit.testing.fuzz_state import Failure
from fusekit.testing.generate import numbered_program, random_program
from fusekit.testing.programs import Placement, RandomProgram
from fusekit.testing.runners import Runner, RunnerName
from fusekit.testing.shrink import shrink
from fusekit.testing.stages import stages
from fusekit.testing.trial import Trial, try_program

SECONDS = 120  # that one program may take
WRONG = {"programs": 1, "wrong": 1}  # all that a failure counts: its seed is tried again
LARGE = {"numba": 4, "cuda": 3}  # every how many programs one has tensors past a block


class TookTooLong(Exception):
    """A program that has not come to its end."""


@dataclass(frozen=True)
class Job:
    """What a worker needs to know. ``shrinks``: are failures made smaller? ``numbers``: programs that take numbers."""

    runner: RunnerName
    steps: int = 12
    shrinks: bool = True
    numbers: bool = False


def program_of(seed: int, job: Job) -> RandomProgram:
    """The program of a seed: one in ten may end in a line that eager refuses, but on a GPU, which a bad index ends."""
    if job.numbers:
        return numbered_program(seed, steps=job.steps)
    every = LARGE.get(job.runner)
    large = every is not None and seed % every == 0
    return random_program(seed, steps=job.steps, errors=seed % 10 == 9 and job.runner != "cuda", large=large)


def run_seed(seed: int, job: Job) -> tuple[Counter[str], Failure | None]:
    """What to count, and the failure where there is one."""
    runner = Runner(job.runner)
    try:
        program = program_of(seed, job)
        if (
            program.accident or program.unordered
        ) and runner.device is not None:  # threads in no order: eager itself is not always the same
            return Counter(programs=1) + _looks(program), None
        trial = _tried(program, runner, seed)
    except Exception as error:  # the fuzz goes on, whatever one program does to it
        return Counter(WRONG), Failure(seed, f"{type(error).__name__}: {error}", "", f"# seed {seed}")
    if trial.verdict != "wrong":
        return Counter(programs=1) + _looks(program) + _outcome(trial), None
    if job.shrinks:
        program, trial = _shrunk(program, trial, runner, seed)
    calls = program.calls[: trial.call + 1]
    script = f"# seed {seed}\n{program.script(calls)}"
    return Counter(WRONG), Failure(seed, trial.words, _stage(program, calls[-1]), script, program.accident)


def _tried(program: RandomProgram, runner: Runner, seed: int) -> Trial:
    try:
        with _limited(SECONDS):
            return try_program(program, runner, seed)
    except Exception as error:  # the comparison itself may meet what nobody thought of
        return Trial("wrong", f"{type(error).__name__}: {error}")


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Raises TookTooLong where signals can be had (the main thread of a process)."""

    def stop(*_: Any) -> None:
        raise TookTooLong(f"longer than {seconds} s")

    try:
        before = signal.signal(signal.SIGALRM, stop)
    except (ValueError, AttributeError):
        yield
        return
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _shrunk(program: RandomProgram, trial: Trial, runner: Runner, seed: int) -> tuple[RandomProgram, Trial]:
    def fails(smaller: RandomProgram) -> bool:
        found = _tried(smaller, runner, seed)
        return found.verdict == "wrong" and found.raised <= trial.raised

    smaller = shrink(program, fails)
    return smaller, _tried(smaller, runner, seed)


def _stage(program: RandomProgram, call: int) -> str:
    """The first pass after which the interpreter does not do what eager does."""
    args = program.args(call)
    try:
        for name, candidate in stages(program.function):
            with torch.no_grad():
                if not differential(program.function, candidate, args):
                    return name
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "kernels, or the plan"


# ---- counts


def _looks(program: RandomProgram) -> Counter[str]:
    counts = Counter({f"lines: {len(program.steps)}": 1, f"arguments: {len(program.arguments)}": 1})
    counts["eager's accidents decide"] += program.accident
    counts["with a number"] += bool(program.placements[0].numbers)
    counts["exact" if program.exact else "within a bound"] += 1
    for step in program.steps:
        counts[f"kind: {step.kind}"] += 1
        counts.update(f"op: {name}" for name in set(re.findall(r"[\w.]*?(\w+)\(", step.text)) if name != "tensor")
    for placement in program.placements:
        counts.update(f"relation: {word}" for word in _relations(placement))
    return counts


def _relations(placement: Placement) -> Iterator[str]:
    """How each pair of arguments shares memory."""
    tensors = placement.make()
    for a, b in combinations(tensors, 2):
        yield "same object" if a is b else overlap(a, b).name.lower()


def _outcome(trial: Trial) -> Counter[str]:
    counts = Counter({trial.verdict: 1})
    counts["eager raises"] += trial.raised
    counts["needed the measured bound"] += trial.within_bound
    for kernels, calls, copies in trial.launches[:2]:
        counts[f"kernels: {min(kernels, 9)}"] += 1
        counts[f"library calls: {min(calls, 9)}"] += 1
        counts[f"copies: {min(copies, 9)}"] += 1
    if trial.verdict == "refused":
        counts[f"refused: {re.sub(r'[0-9]+', 'N', trial.words)[:100]}"] += 1
    return +counts
