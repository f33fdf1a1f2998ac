"""Makes docs/table.md: of every program its launches and bytes, on a CPU and on a GPU, and the bounds that hold.

``python docs/make_table.py`` writes the page, ``--check`` only says whether it is current. No GPU is needed: what a
kernel for one moves follows from its loads and stores, which are there without a device.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm.auto import tqdm

import fusekit as fk
from fusekit.programs import PROGRAMS, PROGRAMS_REAL, Program, Size

PAGE = Path(__file__).with_name("table.md")
BACKENDS = ("cpu", "cuda")
USUAL: Size = (1024, 1024)
SHORT: Size = (64, 64)
CLOSE = 1.05  # bytes moved over bytes least that need no reason
Counts = tuple[int, int, int, int]


@dataclass(frozen=True)
class Goal:
    """The most kernels, library calls and alias segments, on a CPU and on a GPU; ``bound``: the most that bytes moved
    may be over bytes least, and why it is more than 1.05. ``sizes``: those of the table's rows."""

    cpu: Counts = (1, 0, 0, 0)
    cuda: Counts | None = None
    bound: float = CLOSE
    because: str = ""
    sizes: tuple[Size, ...] = (USUAL,)
    bounds: dict[Size, tuple[float, str]] | None = None

    def most(self, backend: str) -> Counts:
        return self.cpu if backend == "cpu" or self.cuda is None else self.cuda

    def bound_of(self, size: Size) -> tuple[float, str]:
        return (self.bounds or {}).get(size, (self.bound, self.because))

    @property
    def may_call(self) -> bool:
        """May it call a library?"""
        return self.cpu[2] > 0


ROWS_TWICE = "rows longer than registers and a core's own cache are read once for the statistics and once to be scaled"
PARTS = "blocks write partial results, and the last one reads them"
CALLS = "what goes into a library call and what comes out of it lies in memory"
GROUPS = {"sizes": (SHORT, USUAL), "bounds": {USUAL: (1.5, ROWS_TWICE)}}
BATCH = {"bound": 1.5, "because": "a channel is read once for the statistics and once to be scaled"}
BACKWARD = {
    "cpu": (2, 0, 0, 0),
    "bound": 1.75,
    "because": "rows are folded one way and columns the other: two launches, each reads what both need",
}

GOALS: dict[str, Goal] = {
    "group_norm_silu": Goal(**GROUPS),
    "group_norm_views": Goal((1, 0, 0, 1), **GROUPS),
    "group_norm_views_affine": Goal((1, 0, 0, 1), **GROUPS),
    "group_norm_views_silu": Goal((1, 0, 0, 1), **GROUPS),
    "cross_entropy": Goal(cuda=(2, 0, 0, 0)),
    "column_sum": Goal(bound=1.1, because=PARTS),
    "batch_norm": Goal(cuda=(2, 0, 0, 0), **BATCH),
    "batch_norm_channels_last": Goal(cuda=(2, 0, 0, 0), **BATCH),
    "layer_norm_backward": Goal(**BACKWARD),
    "native_layer_norm_backward": Goal(**BACKWARD),
    "linear_bias_gelu": Goal((1, 0, 1, 0), bound=1.7, because=CALLS),
    "attention": Goal((1, 0, 2, 1), bound=17, because=f"{CALLS}: scores, of which there are 16 times as many"),
    "rope_grouped": Goal((2, 0, 0, 0)),
    "qkv_views": Goal((0, 0, 1, 1)),
    "unrelated": Goal((2, 0, 0, 0)),
    "gpt2_block": Goal((6, 0, 6, 1), bound=8.5, because=f"{CALLS}: twelve launches, scores among them"),
}


def goal_of(program: Program) -> Goal:
    """What is asked of a program: one kernel and nothing else, unless its row of GOALS says more."""
    return GOALS.get(program.name, Goal())


@dataclass(frozen=True)
class Row:
    """One program at one size on one backend: kernels, copies, library calls, alias segments, and bytes."""

    program: Program
    size: Size
    backend: str
    counts: Counts
    moved: int
    least: int

    @property
    def ratio(self) -> float:
        return self.moved / self.least if self.least else 1.0

    @property
    def problem(self) -> str | None:
        """How the goal is missed; None where it is met."""
        goal, what = goal_of(self.program), f"{self.program.name} {list(self.size)} on {self.backend}"
        most, (bound, _) = goal.most(self.backend), goal.bound_of(self.size)
        if any(a > b for a, b in zip(self.counts, most, strict=True)):
            return f"{what}: {counted(self.counts)} where {counted(most)} are the most"
        if self.ratio > bound + 0.005:
            return f"{what}: {self.ratio:.3f} times the least bytes, above {bound}"
        return None


def counted(counts: Counts) -> str:
    return " / ".join(map(str, counts))


def row_of(program: Program, size: Size, backend: str) -> Row:
    """What one call launches and moves; nothing is run."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = fk.explore(program.fn, *program.make(size, torch.float32), options=fk.Options(backend=backend))
        s = x.summary()
    return Row(
        program, size, backend, (s.kernels, s.copies, s.extern_calls, s.alias_segments), s.bytes_moved, s.bytes_least
    )


def rows() -> list[tuple[Row, ...]]:
    """A row a program and size: on a CPU, on a GPU."""
    programs = [(p, size) for p in (*PROGRAMS, *PROGRAMS_REAL) for size in goal_of(p).sizes]
    bar = tqdm(programs, desc="table", disable=not sys.stderr.isatty(), leave=False)
    return [tuple(row_of(p, size, backend) for backend in BACKENDS) for p, size in bar]


HEAD = """# Launches and bytes of every program

Made by `python docs/make_table.py`; a test checks that it is current and that every row keeps its bound.

*k / c / l / a*: kernels, copies (snapshots and memsets), library calls, segments that launch nothing since their
outputs are views. *Bytes*: bytes moved over the least possible ([measured.md](measured.md#what-counts-as-moved) says
what counts). Float32; *size*: (rows, columns), as the programs' `make` takes it. A row without a bound keeps 1.05.
Programs marked * may call a library, no others do.

| program | size | CPU: k / c / l / a | bytes | GPU: k / c / l / a | bytes | bound |
| --- | --- | --- | --- | --- | --- | --- |
"""


def page(found: list[tuple[Row, ...]]) -> str:
    """The page as text."""
    lines = [HEAD.rstrip("\n")]
    reasons: dict[str, int] = {}
    for pair in found:
        first, goal = pair[0], goal_of(pair[0].program)
        bound, why = goal.bound_of(first.size)
        note = f"{bound:g} ({reasons.setdefault(why, len(reasons) + 1)})" if why else ""
        cells = [first.program.name + (" *" if goal.may_call else ""), f"{first.size[0]} × {first.size[1]}"]
        cells += [cell for row in pair for cell in (counted(row.counts), f"{row.ratio:.2f}")]
        lines.append("| " + " | ".join([*cells, note]) + " |")
    lines += ["", "The bounds, and why they are above 1.05:", ""]
    lines += [f"{number}. {why[0].upper()}{why[1:]}." for why, number in reasons.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page is not current")
    options = parser.parse_args()
    found = rows()
    problems = [row.problem for pair in found for row in pair if row.problem]
    text = page(found)
    if options.check:
        old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        problems += difflib.unified_diff(old.splitlines(), text.splitlines(), "docs/table.md", "now", lineterm="", n=0)
    else:
        PAGE.write_text(text, encoding="utf-8")
        print(f"{len(found)} rows in {PAGE}")
    print(*problems, sep="\n")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
