"""Blocks that put results together: the last one finishes, or all wait; rows of odd lengths; rows that stay packed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import fusekit as fk
from fusekit.lower import CannotLower, lower_segment
from fusekit.passes import PIPELINE, Pass, SchedulePass
from fusekit.run.cuda.kernel import CudaKernel
from fusekit.schedule import SCHEDULERS, Nested, Persistent, parse_schedule

Fn = Callable[..., object]
DTYPES = (torch.float32, torch.bfloat16)


def given(chain: str, segment: str = "$0") -> tuple[Pass, ...]:
    return tuple(replace(p, given=((segment, chain),)) if isinstance(p, SchedulePass) else p for p in PIPELINE)


def tuned(**fields: object) -> tuple[Pass, ...]:
    """The passes with other options of the schedulers of rows."""

    def one(s: object) -> object:
        if isinstance(s, Persistent):
            return replace(s, **fields)  # type: ignore[arg-type]
        return replace(s, rows=replace(s.rows, **fields)) if isinstance(s, Nested) else s  # type: ignore[arg-type]

    schedulers = tuple(map(one, SCHEDULERS))
    return tuple(replace(p, schedulers=schedulers) if isinstance(p, SchedulePass) else p for p in PIPELINE)


def explored(fn: Fn, args: tuple[object, ...], passes: tuple[Pass, ...] = PIPELINE) -> fk.Exploration:
    return fk.explore(fn, *args, options=fk.Options(backend="sim", passes=passes))


def kernel_of(x: fk.Exploration) -> CudaKernel:
    (kernel,) = x.kernels
    assert isinstance(kernel, CudaKernel)
    return kernel


# ---- all blocks wait -------------------------------------------------------------------------------------------------


def softmax(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1)


def normal(x: torch.Tensor) -> torch.Tensor:
    """Two results, one after the other, then the elements again."""
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)


def in_place(x: torch.Tensor) -> torch.Tensor:
    return x.copy_(x.softmax(-1))


def counted(x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    """One element that everybody would count up, and a statistic a row."""
    steps.add_(1)
    return x - x.amax(-1, keepdim=True)


SHARED = (
    "split(1, 2).split(1, 4).split(1, 2).split(1, {each}).parallelize(BIDy, BIDx, SERIAL, UNROLL, TIDx, VECTORIZE)",
    "split(1, 2).split(1, 4).split(1, {each}).parallelize(BIDy, BIDx, SERIAL, TIDx, VECTORIZE).persist()",
    "split(0, 2).split(2, 4).split(2, {each}).parallelize(BIDy, TIDy, BIDx, SERIAL, TIDx)",
)


@pytest.mark.parametrize("chain", SHARED)
@pytest.mark.parametrize(("rows", "columns"), [(3, 64), (2, 50), (1, 33)])
@pytest.mark.parametrize("fn", [softmax, normal, in_place])
def test_blocks_that_share_a_row_wait_for_one_another(fn: Fn, rows: int, columns: int, chain: str):
    x = explored(fn, (torch.randn(rows, columns),), given(chain.format(each=2)))
    kernel = kernel_of(x)
    assert "sync_grid(" in kernel.source and kernel.launch[0][0] > 1
    assert not kernel.snapshots or fn is in_place
    report = x.check()
    assert report.ok, report


def test_one_thread_of_one_block_counts_up():
    args = (torch.randn(3, 64), torch.tensor(3))
    x = explored(counted, args, given(SHARED[0].format(each=2)))
    kernel = kernel_of(x)
    assert not kernel.snapshots
    assert x.check().ok


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_batch_norm_with_few_channels_is_one_kernel_over_many_blocks(layout: torch.memory_format, dtype: torch.dtype):
    module = torch.nn.BatchNorm2d(3).to(dtype).requires_grad_(False)
    image = torch.randn(2, 3, 12, 20).to(dtype).to(memory_format=layout)
    x = explored(lambda m, t: m(t), (module, image), tuned(words=2, together=6, threads=8, unroll=2))
    kernel = kernel_of(x)
    assert "sync_grid(" in kernel.source and not kernel.snapshots
    report = x.check()
    assert report.ok, report


def test_too_many_blocks_are_not_made_to_wait():
    x = fk.explore(softmax, torch.randn(4, 8192), options=fk.Options(backend="cuda"))
    chain = parse_schedule("split(1, 4).parallelize(BIDy, BIDx, TIDx)")
    with pytest.raises(CannotLower, match="1024 are the most"):
        lower_segment(x.graph, "$0", schedule=chain, target="cuda")


def test_the_barrier_assembles_and_leaves_its_words_at_zero():
    from fusekit.run.cuda import assemble

    kernel = kernel_of(explored(normal, (torch.randn(2, 64),), given(SHARED[0].format(each=2))))
    made = kernel.compiled()
    assert made.text.count("ld.acquire.gpu.global.u32") == made.text.count("bra WAIT") == 2
    assert not assemble(made).uses_local


# ---- the last block finishes -----------------------------------------------------------------------------------------


def cross_entropy(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, t)


def sums(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return x.sum(), x.amax(), (x > 0).any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("fields", [{}, {"blocks": 3}, {"words": 2, "together": 4, "threads": 8, "unroll": 1}], ids=str)
def test_a_loss_over_rows_is_one_kernel(fields: dict[str, object], dtype: torch.dtype):
    for rows, columns in ((9, 40), (1, 33), (6, 300)):
        args = (torch.randn(rows, columns).to(dtype), torch.randint(0, columns, (rows,)))
        x = explored(cross_entropy, args, tuned(**fields))
        assert x.graph.segment("$0").by == "nested"  # type: ignore[arg-type]
        assert x.summary().kernels == 1 and x.summary().copies == 0
        report = x.check()
        assert report.ok, report


def test_several_results_of_one_tensor_are_finished_together():
    chain = "merge(0).split(0, 2).split(0, 4).split(0, 2).parallelize(BIDx, SERIAL, TIDx, VECTORIZE)"
    x = explored(sums, (torch.randn(9, 10),), given(chain))
    source = kernel_of(x).source
    assert source.count("last_block(") == 1
    assert x.check().ok


# ---- rows of odd lengths, and packed ones ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("fn", [softmax, normal, in_place])
def test_rows_that_no_vector_divides_have_vectors_and_masks(fn: Fn, dtype: torch.dtype):
    """A row starts anywhere in memory: its first and last vectors are masked."""
    lanes = 16 // dtype.itemsize
    for rows, columns in ((3, 61), (5, 35), (2, lanes + 1)):
        aligned = f"split_aligned(1, {lanes}, row=0, pitch={columns}).split(1, 4)"
        passes = given(f"{aligned}.parallelize(BIDx, UNROLL, TIDx, VECTORIZE)")
        x = explored(fn, (torch.randn(rows, columns).to(dtype),), passes)
        source = kernel_of(x).source
        assert "store_masked_" in source and f"x{lanes}(" in source
        report = x.check()
        assert report.ok, report


def test_an_odd_row_moves_sixteen_bytes_at_a_time():
    kernel = fk.explore(softmax, torch.zeros(8, 4095).bfloat16(), options=fk.Options(backend="cuda")).kernels[0]
    assert isinstance(kernel, CudaKernel)
    made = kernel.assembled()
    assert made.accesses["ld", "global", 16] >= 4 and not made.uses_local


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("fn", [softmax, normal])
def test_a_long_row_of_halves_stays_packed(fn: Fn, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fusekit.lower.packed.PACK_FROM", 16)
    x = explored(fn, (torch.randn(3, 512).to(dtype),), tuned(words=8, together=1))
    source = kernel_of(x).source
    assert "load_packed_" in source and "_again(" in source
    report = x.check()
    assert report.ok, report


def test_a_long_row_of_halves_fits_the_registers():
    x = fk.explore(softmax, torch.zeros(256, 32768).bfloat16(), options=fk.Options(backend="cuda"))
    (kernel,) = x.kernels
    assert isinstance(kernel, CudaKernel) and kernel.blocks_per_sm == 2
    made = kernel.assembled()
    assert made.registers <= 64 and not made.uses_local
    assert made.accesses["ld", "global", 16] == 8  # each element is read once


@pytest.mark.parametrize("loads", ["top", "phase", "use"])
def test_values_that_do_not_persist_are_read_again(loads: str):
    chain = f"split(1, 4).split(1, 8).parallelize(BIDx, UNROLL, TIDx, VECTORIZE).persist({{}}).loads({loads})"
    for kept, times in (("", 3), ("%x.in", 1)):
        x = explored(softmax, (torch.randn(4, 64),), given(chain.format(kept)))
        assert kernel_of(x).source.count("load_f32x4(m0") == 2 * times
        assert x.check().ok


# ---- choices within a vector -----------------------------------------------------------------------------------------


def overlaid(x: torch.Tensor) -> torch.Tensor:
    x.exp_()
    x[0, 1].tanh_()
    return x * 2


def shifted(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[:, 3:7] = x[:, 1:5]
    return y


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("fn", [overlaid, shifted, lambda x: F.pad(x, (3, 5)) + 1])
def test_lanes_that_differ_share_a_vector(fn: Fn, dtype: torch.dtype):
    x = explored(fn, (torch.randn(6, 48).to(dtype),))
    assert f"x{16 // dtype.itemsize}(" in kernel_of(x).source
    report = x.check()
    assert report.ok, report
