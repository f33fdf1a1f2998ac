"""What a fuzz run has done so far: a small JSON file by which it goes on after a stop."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Failure:
    """A seed whose program is wrong: what differs, the first stage that is, and a script that repeats it."""

    seed: int
    words: str
    stage: str
    script: str
    accident: bool = False


@dataclass
class State:
    """``done``: seeds, as ranges on disk. ``counts``: what the programs were, and what became of them."""

    runner: str
    done: set[int] = field(default_factory=set[int])
    counts: Counter[str] = field(default_factory=Counter[str])
    failures: list[Failure] = field(default_factory=list[Failure])

    def left(self, first: int, programs: int) -> list[int]:
        """Seeds of this run that are not done."""
        return [seed for seed in range(first, first + programs) if seed not in self.done]

    def add(self, seeds: Iterable[int], counts: Counter[str], failures: Iterable[Failure]) -> None:
        self.done.update(seeds)
        self.counts.update(counts)
        self.failures += failures

    def retry(self) -> None:
        """Seeds that failed are not done."""
        for failure in self.failures:
            self.done.discard(failure.seed)
            self.counts.subtract({"programs": 1, "wrong": 1})
        self.failures.clear()

    def save(self, path: Path) -> None:
        """Whole or not at all."""
        data = {
            "runner": self.runner,
            "done": list(ranges(self.done)),
            "counts": dict(sorted(self.counts.items())),
            "failures": [asdict(failure) for failure in self.failures],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        beside.write_text(json.dumps(data, indent=1), encoding="utf-8")
        beside.replace(path)

    @staticmethod
    def load(path: Path, runner: str) -> State:
        """The state of an earlier run; an empty one where there is none. Raises ValueError for another runner's."""
        if not path.exists():
            return State(runner)
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["runner"] != runner:
            raise ValueError(f"{path} is of a run with --runner {data['runner']}: name another file with --resume")
        done = {seed for low, high in data["done"] for seed in range(low, high + 1)}
        return State(runner, done, Counter(data["counts"]), [Failure(**one) for one in data["failures"]])


def ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of consecutive numbers."""
    ordered = sorted(numbers)
    start = 0
    for k, number in enumerate(ordered):
        if k + 1 == len(ordered) or ordered[k + 1] != number + 1:
            yield ordered[start], number
            start = k + 1
