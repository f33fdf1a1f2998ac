"""Shared tiles: what is read across goes through shared memory, at any size, and what cannot be shared is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

import fusekit as fk
from fusekit.lower import CannotLower, lower_segment
from fusekit.passes import PIPELINE, SchedulePass
from fusekit.run.cuda.kernel import CudaKernel
from fusekit.schedule import SCHEDULERS, Transpose, parse_schedule

SMALL = tuple(replace(s, tile=8, threads=16) if isinstance(s, Transpose) else s for s in SCHEDULERS)
PASSES = tuple(replace(p, schedulers=SMALL) if isinstance(p, SchedulePass) else p for p in PIPELINE)
SIM = fk.Options(backend="sim", passes=PASSES)


def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b.t()


def both(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The same tensor along and across."""
    return (a + a.t()) * b.t()


def copied(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.t().contiguous()


def in_place(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Blocks write what others read."""
    return a.copy_(a.t() * 2)


def batched(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.expand(3, *a.shape).transpose(1, 2) * torch.arange(3.0, dtype=a.dtype)[:, None, None]


def explored(fn: Callable[..., object], n: int, m: int, dtype: torch.dtype) -> fk.Exploration:
    a = torch.randn(n, m).to(dtype)
    return fk.explore(fn, a, torch.randn(m, n).to(dtype), options=SIM)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.uint8], ids=str)
@pytest.mark.parametrize(("n", "m"), [(8, 8), (16, 24), (9, 17), (33, 8), (5, 40), (1, 12)])
@pytest.mark.parametrize("fn", [add, copied])
def test_a_transpose_is_right_at_any_size(fn: Callable[..., object], n: int, m: int, dtype: torch.dtype):
    report = explored(fn, n, m, dtype).check()
    assert report.ok, report


@pytest.mark.parametrize("fn", [both, in_place, batched])
@pytest.mark.parametrize("n", [8, 19])
def test_squares_and_batches_are_right(fn: Callable[..., object], n: int):
    report = explored(fn, n, n, torch.float32).check()
    assert report.ok, report


def test_memory_is_walked_along_on_both_sides():
    for dtype, lanes in ((torch.float32, 4), (torch.bfloat16, 8)):
        a, b = torch.zeros(256, 128).to(dtype), torch.zeros(128, 256).to(dtype)
        x = fk.explore(add, a, b, options=fk.Options("cuda"))
        (kernel,) = x.kernels
        assert isinstance(kernel, CudaKernel)
        made = kernel.assembled()
        assert made.accesses["ld", "global", 16] == 2 * made.accesses["st", "global", 16] > 0
        assert sum(made.accesses[word, "global", dtype.itemsize] for word in ("ld", "st")) == 0
        assert made.shared == (64 * 65 - 1) * dtype.itemsize or made.shared >= 63 * 65 * dtype.itemsize
        assert re.search(r"sync_threads\(\)", kernel.source) and f"x{lanes}(" in kernel.source


TILE = (
    "split(0, 8).split(2, 8).reorder(0, 2, 1, 3).parallelize(BIDx, BIDy, TIDy, TIDx)"
    ".share(%t.in, after=3, loop={loop}, axes={axes}, strides={strides})"
)
SWAPPED = "reorder(0, 1, 3, 2).parallelize(BIDx, BIDy, TIDy, TIDx)"


@pytest.mark.parametrize(
    ("loop", "axes", "strides", "why"),
    [
        (SWAPPED, "[3, 2]", "[9, 1]", None),
        (SWAPPED, "[3, 2]", "[8, 1]", None),
        (SWAPPED, "[2, 3]", "[9, 1]", None),
        (SWAPPED, "[3, 2]", "[4, 1]", "two elements in one place"),
        (SWAPPED, "[3]", "[1]", "not the block's alone"),
        (SWAPPED.replace("0, 1, 3, 2", "2, 1, 0, 3"), "[0, 2, 3]", "[72, 9, 1]", "other blocks"),
        ("reorder(0, 1, 3, 2).parallelize(BIDx, BIDy, SERIAL, TIDx)", "[3, 2]", "[9, 1]", "serial loop"),
        ("merge(2).split(2, 4).parallelize(BIDx, BIDy, TIDx, UNROLL)", "[3, 2]", "[9, 1]", "other blocks or threads"),
        ("reorder(1, 0, 3, 2).parallelize(BIDx, BIDy, TIDy, TIDx)", "[3, 2]", "[9, 1]", "block's alone|other blocks"),
    ],
)
def test_a_tile_by_hand_is_right_or_refused(loop: str, axes: str, strides: str, why: str | None):
    chain = TILE.format(loop=loop, axes=axes, strides=strides)
    given = tuple(replace(p, given=(("$0", chain),)) if isinstance(p, SchedulePass) else p for p in PIPELINE)
    x = fk.explore(add, torch.randn(21, 13), torch.randn(13, 21), options=fk.Options(backend="sim", passes=given))
    if why is not None:
        with pytest.raises(CannotLower, match=why):
            lower_segment(x.graph, "$0", schedule=parse_schedule(chain), target="cuda")
        return
    assert "tile" in x.kernels[0].source
    assert x.check().ok


def test_blocks_read_of_a_tile_what_they_filled_themselves():
    """A tile over an axis of blocks that its value does not hang on: each block fills another place of its own tile."""
    tile = "share(%w.in, after=2, loop=parallelize(BIDy, BIDx), axes=[0], strides=[1])"
    chain = f"split(0, 5).merge(0).parallelize(BIDy, BIDx).persist().loads(top).{tile}"
    given = tuple(replace(p, given=(("$0", chain),)) if isinstance(p, SchedulePass) else p for p in PIPELINE)
    args, options = (torch.randn(5, 8), torch.randn(8)), fk.Options(backend="sim", passes=given)
    x = fk.explore(lambda x, w: torch.nn.functional.rms_norm(x.add_(w), (8,), w), *args, options=options)
    assert "load_shared_f32(" in x.kernels[0].source
    assert x.check().ok
