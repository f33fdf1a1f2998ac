"""Every program of ``fusekit.programs`` on this CPU, large: eager, fusekit and torch.compile side by side in one run.

    python benchmarks/cpu_programs.py [--only softmax,adamw] [--seconds 240] [--no-inductor] [--runs 9] [--threads 2]

The three take turns, so that what else the machine does meets all of them; the best run counts. Memory that a call
allocates is part of its time, for all three. torch.compile needs a C++ compiler, and is asked while time is left.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from shutil import which

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numba
import torch

import fusekit as fk
from fusekit.programs import LARGE, PROGRAMS, PROGRAMS_REAL, Program
from fusekit.run.clones import clones

BIG = LARGE  # a million elements: runs of a millisecond or so, of which the best is steady on a busy machine too
BIG_OF = dict.fromkeys(("attention", "gpt2_block", "qkv_views", "linear_bias_gelu"), (256, 512))
BIG_OF |= {"group_norm_silu": (512, 512), "rope": (512, 512), "rope_grouped": (512, 512)}
TURNS = 3  # of each, before the next program
Call = Callable[[], object]
COLUMNS = ("k/c/lib", "eager ms", "fusekit", "inductor", "eager/fk", "ind/fk", "GB/s")
HEAD = f"{'program':30}" + "".join(f"{word:>10}" for word in COLUMNS)


def arguments(program: Program) -> tuple[object, ...]:
    return program.make(BIG_OF.get(program.name, BIG), torch.float32)


def call_of(fn: Callable[..., object], args: tuple[object, ...]) -> Call:
    """A call on arguments of its own: programs write to theirs."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    copies = iter(clones(tensors))
    mine = tuple(next(copies) if isinstance(a, torch.Tensor) else a for a in args)
    return lambda: fn(*mine)


def best(calls: dict[str, Call], runs: int) -> dict[str, float]:
    """Milliseconds of the fastest run of each."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(TURNS):
        for name, call in calls.items():
            for _ in range(max(runs // TURNS, 1)):
                started = time.perf_counter()
                call()
                found[name] = min(found[name], 1e3 * (time.perf_counter() - started))
    return found


def inductor(program: Program) -> Call | None:
    """None where it cannot."""
    torch._dynamo.reset()
    call = call_of(torch.compile(program.fn, dynamic=False), arguments(program))
    try:
        call()
    except Exception as error:
        print(f"# {program.name}: torch.compile: {type(error).__name__}", file=sys.stderr)
        return None
    return call


def row(program: Program, runs: int, with_inductor: bool) -> str:
    args = arguments(program)
    compiled = fk.jit(program.fn)
    calls = {"eager": call_of(program.fn, args), "fusekit": call_of(compiled, args)}
    for call in calls.values():
        call()
    last, moved = compiled.last_run, fk.explore(program.fn, *args).summary().bytes_moved
    if with_inductor and (third := inductor(program)):
        calls["inductor"] = third
    ms = best(calls, runs)
    assert last is not None
    times = [ms["eager"], ms["fusekit"], ms.get("inductor")]
    ratios = [t and t / ms["fusekit"] for t in (ms["eager"], ms.get("inductor"))]
    numbers = (*times, *ratios, moved / ms["fusekit"] / 1e6)
    counts = f"{last.kernels}/{last.copies}/{last.extern_calls}"
    return f"{program.name:30}{counts:>10}" + "".join(f"{'-':>10}" if n is None else f"{n:10.2f}" for n in numbers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of programs, with commas")
    parser.add_argument("--seconds", type=float, default=240.0, help="after which torch.compile is left out")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--threads", type=int, help="of each (default: all); on a busy machine one is steadier")
    parser.add_argument("--runs", type=int, default=9, help="of each, in turns")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    if options.threads:
        torch.set_num_threads(options.threads)
        numba.set_num_threads(options.threads)
    wanted = set(filter(None, options.only.split(",")))
    started, has_compiler = time.monotonic(), which("c++") is not None and not options.no_inductor
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}", HEAD, sep="\n", flush=True)
    with torch.no_grad():
        for program in (*PROGRAMS, *PROGRAMS_REAL):
            if not wanted or program.name in wanted:
                late = time.monotonic() - started > options.seconds
                print(row(program, options.runs, has_compiler and not late), flush=True)


if __name__ == "__main__":
    main()
