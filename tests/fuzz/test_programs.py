"""Random programs against eager: 300 of them, and 300 that take numbers, their kernels as plain Python that is watched;
some by other runners."""

from collections import Counter

import hypothesis
import pytest
from hypothesis import given, settings

from fusekit.testing.fuzz_seed import Job, run_seed
from fusekit.testing.generate import programs
from fusekit.testing.programs import RandomProgram
from fusekit.testing.runners import Runner
from fusekit.testing.trial import try_program

BATCHES, BATCH = 10, 30
pytestmark = pytest.mark.filterwarnings("ignore")


def _run(seeds: range, job: Job) -> Counter[str]:
    counts, failures = Counter[str](), []
    for seed in seeds:
        found, failure = run_seed(seed, job)
        counts += found
        failures += [failure] if failure else []
    assert not failures, "\n".join(f"{f.words}\nfirst wrong after {f.stage}\n{f.script}" for f in failures)
    assert counts["refused"] <= max(1, 0.02 * len(seeds)), counts
    assert counts["eager's accidents decide"] <= 0.3 * len(seeds)
    return counts


@pytest.mark.parametrize("batch", range(BATCHES))
def test_plain(batch: int) -> None:
    counts = _run(range(batch * BATCH, (batch + 1) * BATCH), Job("plain"))
    assert counts["right"] + counts["refused"] == BATCH


@pytest.mark.parametrize("batch", range(BATCHES))
def test_with_numbers(batch: int) -> None:
    """Four calls each, with other numbers and other aliasing."""
    counts = _run(range(batch * BATCH, (batch + 1) * BATCH), Job("plain", steps=8, numbers=True))
    assert counts["right"] + counts["refused"] == BATCH


def test_compiled() -> None:
    _run(range(100_000, 100_008), Job("numba", steps=6))


def test_on_a_simulated_gpu() -> None:
    _run(range(200_000, 200_015), Job("sim", steps=6))


def test_op_by_op() -> None:
    _run(range(300_000, 300_020), Job("interpreter"))


@settings(
    max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=list(hypothesis.HealthCheck)
)
@given(programs(steps=6))
def test_drawn(program: RandomProgram) -> None:
    """By hypothesis, which makes a failing program as small as it can."""
    trial = try_program(program, Runner("plain"))
    assert trial.verdict != "wrong", f"{trial.words}\n{program.script()}"
