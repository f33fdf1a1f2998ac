"""Random legal schedules of small programs: each is right, or is refused with a reason. None is ever wrong.

``make fuzz`` runs 5,000 of them for each target: ``python -m tests.lower.test_schedule_fuzz cpu 5000``.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

import pytest

from tests.lower.schedule_programs import Trial, trial

EXAMPLES, BATCHES = 300, 6
MOST_REFUSED = {"cpu": 0.25, "cuda": 0.55}  # blocks of a GPU put one result together; a CPU's are loops


def run(target: str, seeds: Iterable[int]) -> tuple[Counter[str], list[Trial]]:
    """Outcomes, and the trials that were wrong."""
    outcomes: Counter[str] = Counter()
    wrong: list[Trial] = []
    for seed in seeds:
        done = trial(seed, target)
        outcomes[done.outcome] += 1
        if done.outcome == "wrong":
            wrong.append(done)
    return outcomes, wrong


def report(wrong: list[Trial]) -> str:
    return "\n\n".join(
        f"seed {t.seed}, {t.program}: {'; '.join(map(str, t.schedules))}\n" + "\n".join(t.sources) for t in wrong[:3]
    )


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_schedules(target: str, batch: int) -> None:
    size = EXAMPLES // BATCHES
    outcomes, wrong = run(target, range(batch * size, (batch + 1) * size))
    assert not wrong, report(wrong)
    refused = sum(count for outcome, count in outcomes.items() if outcome.startswith("refused"))
    assert refused <= MOST_REFUSED[target] * size, outcomes


def test_an_outer_loop_with_an_empty_pass_stores_nothing_there() -> None:
    """Seed 5315: nine elements as four pieces of three; the fourth piece is empty, and a row's store ran in it."""
    assert trial(5315, "cpu").outcome == "right"


def test_a_value_of_two_stores_comes_after_the_tests_of_both() -> None:
    """Seed 7034: it is read at its first use, under either test; the second was made for the second store only."""
    assert trial(7034, "cuda").outcome == "right"


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(20))
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_many_schedules(target: str, batch: int) -> None:
    _, wrong = run(target, range(1000 + 250 * batch, 1250 + 250 * batch))
    assert not wrong, report(wrong)


def main(target: str, count: int) -> int:
    from tqdm import tqdm

    outcomes, wrong = run(target, tqdm(range(count), unit="schedule"))
    for outcome, number in outcomes.most_common():
        print(f"{number:6} {outcome}")
    print(report(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
