"""Every program of ``fusekit.programs`` on a CUDA device: is it right, what does it launch, how fast is it?

    python benchmarks/cuda_programs.py [--only softmax,adamw] [--seconds 230] [--no-inductor] [--table FILE]

Needs an NVIDIA GPU, torch with CUDA, numba, numba-cuda with NVVM (its own wheel or CUDA_HOME), cuda-bindings, networkx
and islpy. Small odd sizes are held against eager by ``x.check()``, large ones are run by ``fk.jit`` and compared on the
device; then ours in both precisions, eager and, while time is left, torch.compile are timed with a cold cache. Takes
about five minutes, and exits with 1 where anything is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

import fusekit as fk
from fusekit.jit import JitFunction
from fusekit.passes import PIPELINE, Functionalize
from fusekit.pipeline import Options
from fusekit.programs import LARGE, ODD, PROGRAMS, PROGRAMS_REAL, Program
from fusekit.run import cuda
from fusekit.run.clones import clones
from fusekit.run.timing import CudaClock

BIG = (4096, 4096)
BIG_OF = {"attention": (1024, 4096), "gpt2_block": (1024, 4096), "qkv_views": (1024, 4096)}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
CLOSE = {"f32": 3e-5, "bf16": 2e-2}
FAST_CLOSE = {"f32": 3e-5, "bf16": 4e-2}
OPTIONS = Options(passes=tuple(replace(p, reduce=True) if isinstance(p, Functionalize) else p for p in PIPELINE))
RUNS = 11
SLOW = 0.1  # seconds of a call that is timed once


@dataclass
class Row:
    """``wrong``: what is, in words. Times in milliseconds; ``moved`` in bytes."""

    name: str
    dtype: str
    wrong: str = ""
    launches: str = ""
    moved: int = 0
    ours: float | None = None
    fast: float | None = None
    eager: float | None = None
    inductor: float | None = None
    made: float = 0.0

    def text(self, bandwidth: float) -> str:
        given = (self.ours, self.fast, self.eager, self.inductor)
        times = (f"{t:9.3f}" if t is not None else f"{'-':>9}" for t in given)
        rate = self.moved / self.ours / 1e6 if self.ours else 0.0
        speed = f"{rate:7.0f} {100 * rate / bandwidth:5.0f}%"
        state = "WRONG" if self.wrong else "ok"
        return f"{self.name:30} {self.dtype:5} {state:6} {self.launches:>8} {' '.join(times)} {speed} {self.made:6.1f}"

    def markdown(self, bandwidth: float) -> str:
        """The row as it stands in docs/measured.md."""
        given = (self.ours, self.fast, self.eager, self.inductor)
        times = " | ".join("-" if t is None else f"{t:.3f}" for t in given)
        rate = self.moved / self.ours / 1e6 if self.ours else 0.0
        share = f"{rate:.0f} | {100 * rate / bandwidth:.0f}%"
        return f"| {self.name} | {self.dtype} | {self.launches} | {times} | {share} |"


TABLE = (
    "| program | dtype | k/c/l | ours, ms | fast, ms | eager, ms | inductor, ms | GB/s | of a copy |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)
HEAD = (
    f"{'program':30} {'dtype':5} {'':6} {'k/c/lib':>8} {'ours ms':>9} {'fast ms':>9} {'eager':>9} {'inductor':>9} "
    f"{'GB/s':>7} {'copy':>6} {'made s':>6}"
)


def made(program: Program, size: tuple[int, ...], dtype: torch.dtype) -> tuple[object, ...]:
    with torch.device("cuda"):
        return program.make(size, dtype)


def cloned(args: Sequence[object]) -> tuple[object, ...]:
    """Copies of the tensors with the same aliasing; modules stay."""
    leaves, spec = tree_flatten(list(args))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    for k, tensor in zip(places, clones([leaves[k] for k in places]), strict=True):
        leaves[k] = tensor
    return tuple(tree_unflatten(leaves, spec))


def distance(ours: object, eager: object) -> float:
    """The largest relative distance of two trees of tensors, each by its norm."""
    worst = 0.0
    for a, b in zip(tree_leaves(ours), tree_leaves(eager), strict=True):
        if isinstance(a, torch.Tensor) and a.numel():
            x, y = a.double(), b.double()
            if not torch.equal(x.isfinite(), y.isfinite()):
                return float("inf")
            x, y = (t.nan_to_num(0.0, 0.0, 0.0) for t in (x, y))
            worst = max(worst, ((x - y).norm() / y.norm().clamp_min(1e-9)).item())
    return worst


def small(program: Program, dtype: str) -> str:
    """What is wrong with an odd size; nothing where all is right."""
    x = fk.explore(program.fn, *made(program, ODD, DTYPES[dtype]), options=OPTIONS)
    report = x.check(**program.tolerance(DTYPES[dtype]))
    return "" if report.ok else f"{ODD}: {report}"


def large(program: Program, dtype: str, row: Row) -> tuple[JitFunction, tuple[object, ...]]:
    """Runs a large size, compares it and fills the row."""
    args = made(program, BIG_OF.get(program.name, BIG), DTYPES[dtype])
    f = fk.jit(program.fn, options=OPTIONS)
    ours, eager = cloned(args), cloned(args)
    started = time.perf_counter()
    found = f(*ours)
    torch.cuda.synchronize()
    row.made = time.perf_counter() - started
    error = distance((found, ours), (program.fn(*eager), eager))
    if not error < CLOSE[dtype]:
        row.wrong += f" large: {error:.1e} from eager"
    run = f.last_run
    assert run is not None
    row.launches = f"{run.kernels}/{run.copies}/{run.extern_calls}"
    row.moved = f.explorations()[-1].summary().bytes_moved
    return f, args


def fast(program: Program, args: tuple[object, ...], dtype: str, row: Row, clock: CudaClock) -> float | None:
    """The time with ``precision="fast"``, compared too."""
    f = fk.jit(program.fn, options=replace(OPTIONS, precision="fast"))
    ours, eager = cloned(args), cloned(args)
    error = distance((f(*ours), ours), (program.fn(*eager), eager))
    if not error < FAST_CLOSE[dtype]:
        row.wrong += f" large, fast: {error:.1e} from eager"
    return milliseconds(clock, lambda: f(*args))


def milliseconds(clock: CudaClock, call: Callable[[], object]) -> float:
    call()
    torch.cuda.synchronize()
    started = time.perf_counter()
    call()
    torch.cuda.synchronize()
    slow = time.perf_counter() - started > SLOW
    pairs: list[tuple[object, object]] = []
    for _ in range(1 if slow else RUNS):
        clock.lap()
        first = clock.mark()
        call()
        pairs.append((first, clock.mark()))
    clock.settle()
    return 1e3 * median(clock.between(*pair) for pair in pairs)


def measure(program: Program, dtype: str, clock: CudaClock, inductor: bool) -> Row:
    row = Row(program.name, dtype)
    try:
        row.wrong = small(program, dtype)
        if LARGE in program.sizes:
            f, args = large(program, dtype, row)
            row.ours = milliseconds(clock, lambda: f(*args))
            row.fast = fast(program, args, dtype, row, clock)
            row.eager = milliseconds(clock, lambda: program.fn(*args))
            if inductor:
                row.inductor = stock(program, args, clock)
    except Exception:
        row.wrong += traceback.format_exc(limit=-5)
        torch.cuda.synchronize()
    return row


def stock(program: Program, args: tuple[object, ...], clock: CudaClock) -> float | None:
    """torch.compile's time; None where it cannot compile the program."""
    try:
        compiled = torch.compile(program.fn)
        return milliseconds(clock, lambda: compiled(*args))
    except Exception:
        return None
    finally:
        torch.compiler.reset()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of programs, with commas between")
    parser.add_argument("--seconds", type=float, default=230, help="after which nothing more is compared to inductor")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--table", type=Path, help="a file for the rows as docs/measured.md has them")
    chosen = parser.parse_args()
    started, bandwidth = time.perf_counter(), cuda.measured_bandwidth()
    print(f"{cuda.describe()}, copies {bandwidth:.0f} GB/s, torch {torch.__version__}\n\n{HEAD}", flush=True)
    clock, rows = CudaClock(torch.device("cuda", 0)), list[Row]()
    for name, dtype in DTYPES.items():
        x, y = (torch.randn(BIG, device="cuda").to(dtype) for _ in range(2))
        print(f"a copy of {BIG} {name}: {milliseconds(clock, partial(y.copy_, x)):.4f} ms")
    wanted = [name for name in chosen.only.split(",") if name]
    with torch.no_grad():
        for program in (*PROGRAMS, *PROGRAMS_REAL):
            for dtype in DTYPES if not wanted or program.name in wanted else ():
                in_time = time.perf_counter() - started < 0.6 * chosen.seconds
                rows.append(measure(program, dtype, clock, in_time and not chosen.no_inductor))
                print(rows[-1].text(bandwidth), flush=True)
            if chosen.table is not None:  # after each program: a run that is stopped leaves its rows
                lines = [TABLE, *(row.markdown(bandwidth) for row in rows if row.ours)]
                chosen.table.write_text("\n".join(lines) + "\n")
    wrong = [row for row in rows if row.wrong]
    for row in wrong:
        print(f"\n{row.name} {row.dtype}: {row.wrong[:3000]}")
    print(f"\n{len(rows) - len(wrong)} right, {len(wrong)} wrong, {time.perf_counter() - started:.0f} s")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
