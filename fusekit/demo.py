"""``fusekit demo``: the main job on every program, one row each, and the pictures of every step."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from fusekit.exploration import Exploration, explore
from fusekit.programs import LARGE, PROGRAMS, PROGRAMS_REAL, Program, Size
from fusekit.run.clones import clones

SIZES: tuple[Size, ...] = ((5, 5), LARGE, (1, 1), (0, 5))
DTYPES = (torch.float32, torch.bfloat16)
HEADER = (
    "program",
    "size",
    "dtype",
    "segments",
    "kernels",
    "copies",
    "library",
    "alias",
    "moved / least",
    "against eager",
)


@dataclass(frozen=True)
class Row:
    """One program at one size and dtype; ``verdict`` is what ``check`` said, or the error that eager raises too."""

    cells: tuple[str, ...]
    ok: bool


def main(everything: bool = False, out: Path | None = None) -> int:
    """Run the programs; the exit status is 0 only when every row is right. ``everything``: all sizes and dtypes.

    The pictures of the first size go to ``out`` (default ``out/demo``), one SVG a step and view.
    """
    folder = out or Path("out/demo")
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    runs = list(_runs(everything))
    rows: list[Row] = []
    with torch.no_grad(), tqdm(runs, desc="programs", unit="run", disable=not sys.stderr.isatty(), leave=False) as bar:
        for program, size, dtype, is_drawn in bar:
            bar.set_postfix_str(program.name)
            rows.append(row_of(program, size, dtype, folder if is_drawn else None))
    print(table([HEADER, *(row.cells for row in rows)]))
    wrong = sum(not row.ok for row in rows)
    seconds = time.perf_counter() - started
    print(f"\n{len(rows) - wrong} of {len(rows)} right in {seconds:.0f} s; pictures in {folder}/")
    return 1 if wrong else 0


def _runs(everything: bool) -> Iterator[tuple[Program, Size, torch.dtype, bool]]:
    """The first fourteen are drawn."""
    pairs = [(p, SIZES, True) for p in PROGRAMS] + [(p, p.sizes, False) for p in PROGRAMS_REAL]
    for program, sizes, is_drawn in pairs:
        for size in sizes if everything else (LARGE,):
            for dtype in DTYPES if everything else DTYPES[:1]:
                yield program, size, dtype, is_drawn and (size, dtype) == (LARGE, DTYPES[0])


def row_of(program: Program, size: Size, dtype: torch.dtype, folder: Path | None = None) -> Row:
    """Explore, run and check one program; its pictures go to ``folder``."""
    head = (program.name, "x".join(map(str, size)) or "0-d", str(dtype).removeprefix("torch."))
    args = program.make(size, dtype)
    try:
        x = explore(program.fn, *args)
    except Exception as error:  # whatever eager raises is right to raise
        return _refused(program, args, head, error)
    report = x.check(**program.tolerance(dtype, size))
    if folder is not None:
        draw(x, folder)
    s = x.summary()
    ratio = f"{s.bytes_moved / s.bytes_least:.2f}" if s.bytes_least else "-"
    verdict = "outputs, mutations, aliasing equal" if report.ok else f"WRONG: {report.failures[0].what}"
    counts = (str(n) for n in (s.segments, s.kernels, s.copies, s.extern_calls, s.alias_segments))
    return Row((*head, *counts, f"{_bytes(s.bytes_moved)} / {ratio}", verdict), report.ok)


def _refused(program: Program, args: tuple[object, ...], head: tuple[str, ...], error: Exception) -> Row:
    """Right if eager raises the same type of error."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    copies = iter(clones(tensors))
    try:
        program.fn(*(next(copies) if isinstance(a, torch.Tensor) else a for a in args))
    except Exception as eager:
        same = type(eager) is type(error)
        return Row((*head, *"------", f"raises {type(error).__name__}{' as eager' if same else ''}"), same)
    return Row((*head, *"------", f"WRONG: raises {type(error).__name__}: {error}"), False)


def draw(x: Exploration, folder: Path) -> list[Path]:
    """One SVG a step, and the memory view of the program: ``<name>.<number>_<step>.svg``."""
    files: list[Path] = []
    for k, step in enumerate(x.steps):
        since = x.steps[k - 1].name if k else None
        path = folder / f"{x.recording.name}.{k}_{step.name}.svg"
        files.append(x.diagram(step.name, since=since).save(path))
    files.append(x.diagram("alias-groups", view="memory").save(folder / f"{x.recording.name}.memory.svg"))
    return files


def table(rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns under a ruled header."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _bytes(n: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.1f} {unit}" if isinstance(n, float) else f"{n} {unit}"
        n = n / 1024  # pyright: ignore[reportAssignmentType]
    return f"{n:.1f} GiB"
