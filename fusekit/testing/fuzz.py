"""Random programs against eager, as many as wanted: ``python -m fusekit.testing.fuzz --programs 20000 --runner plain``.

Each program is called three times through one callable, its arguments sharing memory otherwise in the second call; with
``--numbers`` four times, with other Python numbers as well.
What is done is kept in a file (``--resume``), so that a run goes on where it stopped. Seeds that failed are tried
again. Exits with 1 on a mismatch.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from fusekit.progress import progress
from fusekit.testing.fuzz_seed import WRONG, Job, run_seed
from fusekit.testing.fuzz_state import Failure, State
from fusekit.testing.runners import RUNNERS

CHUNK = 10  # seeds a task
FATES = (
    *("right", "wrong", "refused", "eager raises", "eager's accidents decide"),
    *("with a number", "exact", "within a bound", "needed the measured bound"),
)
Result = tuple[list[int], "Counter[str]", list[Failure]]
Work = Callable[[Sequence[int], Job], Result]


def main(argv: Sequence[str] | None = None) -> int:
    """The command; 0 where nothing is wrong."""
    options = _parser().parse_args(argv)
    label = f"{options.runner}-numbers" if options.numbers else options.runner
    path = Path(options.resume or f"out/fuzz-{label}.json")
    job = Job(options.runner, options.steps, not options.no_shrink, options.numbers)
    if options.prepare:
        from fusekit.testing.fuzz_prepare import prepare

        made, without = prepare(range(options.first_seed, options.first_seed + options.programs), job)
        print(f"PTX of {made} kernels is kept; {without} programs have none")
        return 0
    state = State.load(path, label)
    state.retry()
    left = state.left(options.first_seed, options.programs)
    bar = progress(None, f"fuzz {label}", "program", total=len(left))
    for seeds, counts, failures in results(left, job, options.jobs or os.cpu_count() or 1):
        state.add(seeds, counts, failures)
        state.save(path)
        bar.update(len(seeds))
        for failure in failures:
            bar.write(_text(failure))
    bar.close()
    print(summary(state))
    print(f"kept in {path}")
    print(
        f"{label}: " + ", ".join(f"{state.counts[word]} {word}" for word in ("programs", "right", "wrong", "refused"))
    )
    return 1 if state.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fusekit.testing.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=300, help="how many seeds (300)")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--runner", choices=RUNNERS, default="plain", help="what runs the kernels (plain)")
    parser.add_argument("--steps", type=int, default=12, help="lines of a program, at most (12)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1); 0 is one a core")
    parser.add_argument("--resume", metavar="FILE", help="what is done so far (out/fuzz-RUNNER[-numbers].json)")
    parser.add_argument("--no-shrink", action="store_true", help="show failing programs as they are")
    parser.add_argument("--numbers", action="store_true", help="programs that take numbers, each called four times")
    parser.add_argument("--prepare", action="store_true", help="with --runner cuda: only make the PTX; needs no GPU")
    return parser


def run_seeds(seeds: Sequence[int], job: Job) -> Result:
    """One task of a worker."""
    counts, failures = Counter[str](), list[Failure]()
    for seed in seeds:
        found, failure = run_seed(seed, job)
        counts += found
        failures += [failure] if failure else []
    return list(seeds), counts, failures


def results(seeds: Sequence[int], job: Job, jobs: int, work: Work = run_seeds) -> Iterator[Result]:
    """What became of the seeds, some at a time, in any order; a process that dies is a failure of its seed."""
    chunks = [seeds[k : k + CHUNK] for k in range(0, len(seeds), CHUNK)]
    if jobs <= 1:
        yield from (work(chunk, job) for chunk in chunks)
        return
    while chunks:
        lost, count = yield from _in_processes(chunks, job, jobs, work)
        chunks = chunks[count:]
        for seed in (seed for chunk in lost for seed in chunk):
            yield _alone(seed, job, work)


def _in_processes(chunks: Sequence[Sequence[int]], job: Job, jobs: int, work: Work) -> Any:
    """Results as they come; returns the chunks that were under way when a worker died, and how many were begun."""
    context, count = multiprocessing.get_context("spawn"), 0
    running = dict[Future[Result], Sequence[int]]()
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_one_thread, max_tasks_per_child=40) as pool:
        try:
            for chunk in chunks:
                running[pool.submit(work, chunk, job)] = chunk
                count += 1
                if len(running) >= 2 * jobs:
                    yield from _collect(running)
            while running:
                yield from _collect(running)
        except BrokenProcessPool:
            pass
    return list(running.values()), count


def _collect(running: dict[Future[Result], Sequence[int]]) -> Iterator[Result]:
    """Hands on what is done. Raises BrokenProcessPool where a worker died."""
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        found = future.result()
        del running[future]
        yield found


def _alone(seed: int, job: Job, work: Work) -> Result:
    """A seed of a chunk in which a process died, in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_one_thread) as pool:
        try:
            return pool.submit(work, [seed], job).result()
        except BrokenProcessPool:
            return [seed], Counter(WRONG), [Failure(seed, "the process died", "", f"# seed {seed}")]


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


# ---- what is printed


def _text(failure: Failure) -> str:
    head = f"seed {failure.seed}: first wrong after {failure.stage}" + (" (an accident)" if failure.accident else "")
    return f"{'=' * 100}\n{head}\n{failure.words}\n\n{failure.script}"


def summary(state: State) -> str:
    """What ran, what became of it, and how diverse it was."""
    counts, total = state.counts, max(state.counts["programs"], 1)
    lines = [f"{counts['programs']} programs by {state.runner}:"]
    lines += [f"  {name:<26}{counts[name]:>7}  {100 * counts[name] / total:5.1f} %" for name in FATES]
    for group in ("arguments", "lines", "relation", "kernels", "library calls", "copies", "kind", "op", "refused"):
        lines += _group(counts, group)
    return "\n".join([*lines, f"wrong seeds: {', '.join(str(f.seed) for f in state.failures) or 'none'}"])


def _group(counts: Counter[str], group: str) -> Iterator[str]:
    """A histogram; numbers in order, words by how often they occur."""
    found = [(key.split(": ", 1)[1], n) for key, n in counts.items() if key.startswith(f"{group}: ")]
    if not found:
        return
    is_number = all(word.isdigit() for word, _ in found)
    found.sort(key=lambda pair: int(pair[0]) if is_number else -pair[1])
    total = sum(n for _, n in found)
    yield f"{group}:"
    words = [f"{word} {n} ({100 * n / total:.0f} %)" if n * 50 > total else f"{word} {n}" for word, n in found]
    line = " "
    for word in words:
        if len(line) + len(word) > 116:
            yield line.rstrip(",")
            line = " "
        line += f" {word},"
    yield line.rstrip(",")


if __name__ == "__main__":
    sys.exit(main())
