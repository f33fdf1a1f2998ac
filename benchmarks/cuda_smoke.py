"""Runs hand-written kernels on the current CUDA device: are they right, how fast, and what does a launch cost?

``python benchmarks/cuda_smoke.py`` takes under a minute, and exits with 1 where a result is wrong.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.cuda_kernels import Sample, axpy, column_sum, row_sum, softmax
from fusekit.run import cuda
from fusekit.run.cuda.device import event_times

COLUMNS = 4096
F64 = torch.float64
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
LARGE = 1 << 29
"""Bytes of a large tensor."""


@dataclass(frozen=True)
class Case:
    """``run``, and the same work by torch; ``moved``: bytes of one run; ``error`` of the result, at most ``most``."""

    name: str
    run: Callable[[], object]
    torch_run: Callable[[], object]
    moved: int
    error: Callable[[], float]
    most: float = 2e-6


def launch(sample: Sample, grid: tuple[int, ...], block: tuple[int, ...] = ()) -> cuda.Launch:
    function = cuda.load(sample.ptx(cuda.describe().cc))
    return cuda.Launch(function, grid, block or (sample.threads,))


def random_rows(dtype: str) -> torch.Tensor:
    rows = LARGE // DTYPES[dtype].itemsize // COLUMNS
    return torch.randn(rows, COLUMNS, device="cuda", dtype=DTYPES[dtype])


def axpy_case(dtype: str) -> Case:
    x, y = random_rows(dtype), random_rows(dtype)
    n, kept, wanted = x.numel(), y.clone(), x * 0.3 + y
    run = partial(launch(axpy(dtype), (-(-n // (256 * 16 // x.itemsize)),)), (x.data_ptr(), y.data_ptr(), 0.3, n))

    def error() -> float:
        y.copy_(kept)
        run()
        return relative(y, wanted)

    return Case(f"axpy {dtype}", run, lambda: torch.add(x, kept, alpha=0.3, out=wanted), 3 * x.nbytes, error, 0.0)


def row_sum_case(dtype: str) -> Case:
    x = random_rows(dtype)
    out = torch.full((len(x),), torch.nan, device="cuda")
    run = partial(launch(row_sum(dtype), (len(x),)), (x.data_ptr(), out.data_ptr(), COLUMNS))
    return Case(f"row sum {dtype}", run, lambda: x.sum(1), x.nbytes, lambda: relative(out, x.sum(1, dtype=F64)))


def column_sum_case() -> Case:
    x = random_rows("f32")
    rows, blocks = len(x), 128
    out = torch.full((COLUMNS,), torch.nan, device="cuda")
    partials, counters = cuda.partials(0, 4 * blocks * COLUMNS), cuda.counters(0, COLUMNS // 128)
    pointers = tuple(tensor.data_ptr() for tensor in (x, out, partials, counters))
    start = launch(column_sum(), (COLUMNS // 128, blocks), (32, 8))
    run = partial(start, (*pointers, rows, COLUMNS, -(-rows // blocks)))
    return Case("column sum f32", run, lambda: x.sum(0), x.nbytes, lambda: relative(out, x.sum(0, dtype=F64)))


def softmax_case(dtype: str) -> Case:
    x = random_rows(dtype)
    out = torch.full_like(x, torch.nan)
    run = partial(launch(softmax(dtype, COLUMNS, 256), (len(x),)), (x.data_ptr(), out.data_ptr()))
    most = 1e-6 if dtype == "f32" else 4e-3

    def error() -> float:
        return relative(out, torch.softmax(x, 1, dtype=torch.float32))

    return Case(f"softmax {dtype}", run, lambda: x.softmax(1), 2 * x.nbytes, error, most)


CASES: tuple[Callable[[], Case], ...] = (
    *(partial(axpy_case, dtype) for dtype in DTYPES),
    *(partial(row_sum_case, dtype) for dtype in DTYPES),
    column_sum_case,
    *(partial(softmax_case, dtype) for dtype in DTYPES),
)


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """|found - wanted| / |wanted|; NaN where anything is."""
    found, wanted = found.double(), wanted.double()
    return ((found - wanted).norm() / wanted.norm().clamp_min(1e-300)).item()


def measure(make: Callable[[], Case], copy: float) -> tuple[str, bool]:
    """One line of the table, and whether the result was right."""
    start = time.perf_counter()
    case = make()
    made = time.perf_counter() - start
    case.run()
    torch.cuda.synchronize()
    error = case.error()
    is_right = error <= case.most
    ours, torchs = (1e3 * median(event_times(work, 10)) for work in (case.run, case.torch_run))
    speed = case.moved / ours / 1e3
    state = "right" if is_right else f"WRONG (error {error:.2e})"
    line = f"{case.name:16}{ours:10.1f}{speed:9.0f}{100 * speed / copy:8.1f}{torchs:10.1f}{made:8.2f}  {state}"
    return line, is_right


def host_microseconds(work: Callable[[], object], repeat: int = 2000) -> float:
    """Median over five rounds of what one call costs the host, with the queue never full."""
    rounds = []
    for _ in range(6):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeat // 5):
            work()
        rounds.append(1e6 * (time.perf_counter() - start) / (repeat // 5))
    torch.cuda.synchronize()
    return median(rounds[1:])


def overheads() -> list[tuple[str, float]]:
    """What the host pays a call."""
    x, y = (torch.randn(65536, device="cuda") for _ in range(2))
    start = launch(axpy("f32"), (64,))
    arguments = (x.data_ptr(), y.data_ptr(), 1e-9, 65536)
    rows = launch(row_sum("f32"), (16,))
    integers = (x.data_ptr(), y.data_ptr(), 4096)
    stream = cuda.current_stream(0)
    return [
        ("launch, a float among 4 arguments", host_microseconds(lambda: start(arguments))),
        ("launch, 3 integers", host_microseconds(lambda: rows(integers))),
        ("launch, 3 integers, stream given", host_microseconds(lambda: rows(integers, stream))),
        ("addresses and launch", host_microseconds(lambda: rows((x.data_ptr(), y.data_ptr(), 4096)))),
        ("scratch of the stream", host_microseconds(lambda: cuda.partials(0, 4096))),
        ("torch.add(x, y, out=y)", host_microseconds(lambda: torch.add(x, y, out=y))),
        ("x + y", host_microseconds(lambda: x + y)),
    ]


def main() -> int:
    if not cuda.device_count():
        print("no CUDA device: nothing is measured")
        return 0
    device = cuda.describe()
    print(
        f"{device}, torch {torch.__version__}, numba-cuda {version('numba-cuda')}, Python {platform.python_version()}"
    )
    copy = cuda.measured_bandwidth()
    print(f"copy: {copy:.0f} GB/s, read and written\n")
    print(f"{'kernel':16}{'us':>10}{'GB/s':>9}{'% copy':>8}{'torch us':>10}{'made s':>8}")
    verdicts = []
    for make in CASES:
        line, is_right = measure(make, copy)
        verdicts.append(is_right)
        print(line, flush=True)
    print("\nhost, us a call")
    for name, microseconds in overheads():
        print(f"{name:36}{microseconds:8.2f}")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
