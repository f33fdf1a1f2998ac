"""Hand-written kernels in the printer's language: their sources simulated, their PTX assembled, and run on a device."""

import random
import re
import threading

import numpy as np
import pytest
import torch

from benchmarks.cuda_kernels import SAMPLES, Sample, axpy, column_sum, row_sum, softmax
from fusekit.errors import UnsupportedError
from fusekit.run import cuda
from fusekit.run.cuda import standins
from fusekit.run.cuda.kinds import WIDTHS, lane_counts
from fusekit.run.cuda.simulate import simulate


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_kernel_moves_16_bytes_a_thread_and_stays_in_registers(sample: Sample):
    made = cuda.assemble(sample.ptx())
    assert made.accesses["ld", "global", 16] and not made.uses_local
    assert made.accesses["st", "global", 16] or sample.name.startswith("row_sum")
    assert made.registers <= 64
    assert not re.search(r"fma|(add|mul|sub|div)[.]rn[.]f64", sample.ptx().text)


def fresh(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float32, device=device).to(dtype)


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor at an address that 16-byte accesses may have."""
    room = torch.empty(tensor.nbytes + 16, dtype=torch.uint8)
    skip = -room.data_ptr() % 16
    out = room[skip : skip + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
    return out.copy_(tensor)


DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


@pytest.mark.parametrize("dtype", DTYPES)
def test_simulated_axpy_rounds_as_eager(dtype: str):
    n, lanes = 150, 16 // DTYPES[dtype].itemsize
    x, y = (aligned(fresh(n, dtype=DTYPES[dtype])) for _ in range(2))
    wanted = x * 0.3 + y
    sample = axpy(dtype, 8)
    simulate(sample.source, sample.name, (-(-n // (8 * lanes)),), (8,), (x.data_ptr(), y.data_ptr(), 0.3, n))
    assert torch.equal(y, wanted)


def test_simulated_row_sum_crosses_warps():
    x, out = aligned(fresh(2, 512)), torch.full((2,), torch.nan)
    sample = row_sum("f32", 64)
    simulate(sample.source, sample.name, (2,), (64,), (x.data_ptr(), out.data_ptr(), 512))
    torch.testing.assert_close(out, x.double().sum(1).float())


def test_simulated_column_sum_is_finished_by_the_last_block_whichever_it_is():
    sample = column_sum(8, 2)
    x = aligned(fresh(20, 64))
    partials, counters = aligned(torch.full((4 * 64,), torch.nan)), torch.zeros(2, dtype=torch.int32)
    results = []
    for seed in range(2):
        out = aligned(torch.full((64,), torch.nan))
        arguments = (*(t.data_ptr() for t in (x, out, partials, counters)), 20, 64, 5)
        order = random.Random(seed)
        simulate(sample.source, sample.name, (2, 4), (8, 2), arguments, lambda p, order=order: order.sample(p, len(p)))
        results.append(out)
    torch.testing.assert_close(results[0], x.double().sum(0).float())
    assert torch.equal(*results) and not counters.any()


def test_simulated_softmax():
    sample = softmax("f32", 512, 64)
    x, out = aligned(fresh(2, 512)), aligned(torch.empty(2, 512))
    simulate(sample.source, sample.name, (2,), (64,), (x.data_ptr(), out.data_ptr()))
    torch.testing.assert_close(out, x.softmax(1))


def test_the_simulator_refuses_what_hardware_refuses():
    sample = axpy("f32", 8)
    x, y = aligned(fresh(64)), aligned(fresh(64))
    with pytest.raises(ValueError, match="is not aligned"):
        simulate(sample.source, sample.name, (1,), (8,), (x.data_ptr() + 4, y.data_ptr(), 0.3, 32))


def test_the_simulator_finds_a_barrier_that_some_threads_miss(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(standins, "PATIENCE", 0.2)
    source = "def kernel():\n    if thread_x() < 3:\n        sync_threads()\n"
    with pytest.raises(threading.BrokenBarrierError):
        simulate(source, "kernel", (1,), (4,), ())


# ---- on a device -----------------------------------------------------------------------------------------------------


def launched(sample: Sample, grid: tuple[int, ...], block: tuple[int, ...] = ()) -> cuda.Launch:
    function = cuda.load(sample.ptx(cuda.describe().cc))
    return cuda.Launch(function, grid, block or (sample.threads,))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 255, 4096, 100_003])
def test_axpy(dtype: str, n: int):
    x, y = (fresh(n, dtype=DTYPES[dtype], device="cuda") for _ in range(2))
    wanted = x * 0.3 + y
    lanes = 16 // x.itemsize
    launched(axpy(dtype), (-(-n // (256 * lanes)),))((x.data_ptr(), y.data_ptr(), 0.3, n))
    assert torch.equal(y, wanted)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
def test_row_sum(dtype: str):
    x = fresh(100, 3000, dtype=DTYPES[dtype], device="cuda")
    out = torch.full((100,), torch.nan, device="cuda")
    launched(row_sum(dtype), (100,))((x.data_ptr(), out.data_ptr(), 3000))
    torch.testing.assert_close(out, x.double().sum(1).float(), rtol=1e-5, atol=1e-4)


def run_column_sum(x: torch.Tensor, blocks: int = 16) -> torch.Tensor:
    rows, columns = x.shape
    out = torch.full((columns,), torch.nan, device="cuda")
    partials, counters = cuda.partials(0, 4 * blocks * columns), cuda.counters(0, columns // 128)
    arguments = (*(t.data_ptr() for t in (x, out, partials, counters)), rows, columns, -(-rows // blocks))
    launched(column_sum(), (columns // 128, blocks), (32, 8))(arguments)
    return out


@pytest.mark.cuda
def test_column_sum_of_many_launches_leaves_its_counters_at_zero():
    x = fresh(1000, 512, device="cuda")
    wanted = x.double().sum(0).float()
    results = [run_column_sum(x) for _ in range(20)]
    torch.testing.assert_close(results[0], wanted, rtol=1e-5, atol=1e-4)
    assert all(torch.equal(results[0], result) for result in results)
    assert not cuda.counters(0, 4).any()


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax(dtype: str):
    x = fresh(64, 4096, dtype=DTYPES[dtype], device="cuda")
    out = torch.full_like(x, torch.nan)
    launched(softmax(dtype, 4096, 256), (64,))((x.data_ptr(), out.data_ptr()))
    wanted = x.double().softmax(1)
    close = 1e-6 if dtype == "f32" else 4e-3
    assert ((out.double() - wanted).norm() / wanted.norm()).item() < close


@pytest.mark.cuda
def test_a_launch_belongs_to_the_current_stream():
    """The kernel waits for what its stream does before it, and torch on that stream for the kernel."""
    n = 1 << 22
    x, y = fresh(n, device="cuda"), torch.zeros(n, device="cuda")
    launch = launched(axpy("f32"), (n // 1024,))
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        y.fill_(1.0)
        launch((x.data_ptr(), y.data_ptr(), 2.0, n))
        seen = y.clone()
    torch.cuda.synchronize()
    assert torch.equal(seen, x * 2.0 + 1.0)


@pytest.mark.cuda
def test_two_streams_share_no_scratch():
    streams = [torch.cuda.Stream() for _ in range(2)]
    inputs = [fresh(4096, 1024, device="cuda") for _ in streams]
    wanted = [run_column_sum(x) for x in inputs]
    torch.cuda.synchronize()
    found: list[list[torch.Tensor]] = [[], []]
    for _ in range(10):
        for k, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                found[k].append(run_column_sum(inputs[k]))
    torch.cuda.synchronize()
    assert all(torch.equal(result, wanted[k]) for k, results in enumerate(found) for result in results)


@pytest.mark.cuda
def test_launches_from_a_thread_that_never_used_torch():
    x, y = fresh(1024, device="cuda"), torch.zeros(1024, device="cuda")
    launch = launched(axpy("f32"), (1,))
    torch.cuda.synchronize()
    worker = threading.Thread(target=launch, args=((x.data_ptr(), y.data_ptr(), 1.0, 1024),))
    worker.start()
    worker.join()
    torch.cuda.synchronize()
    assert torch.equal(y, x)


@pytest.mark.cuda
def test_a_captured_launch_replays_with_its_own_scratch():
    x = fresh(1000, 512, device="cuda")
    wanted = run_column_sum(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run_column_sum(x)
    for _ in range(3):
        out.fill_(torch.nan)
        graph.replay()
        assert torch.equal(out, wanted)


@pytest.mark.cuda
def test_a_grid_that_no_device_has_is_refused():
    with pytest.raises(UnsupportedError, match="a grid of"):
        launched(axpy("f32"), (1, 70_000))
    with pytest.raises(UnsupportedError, match="a block of"):
        launched(axpy("f32"), (1,), (512,))
    launched(axpy("f32"), (0,))((0, 0, 0.0, 0))


@pytest.mark.cuda
def test_every_dtype_goes_through_registers():
    """Loads and stores of each dtype and width give back what was there; halves keep every finite value."""
    for name in WIDTHS:
        data = (np.arange(512) % 2 if name == "bool" else np.arange(512) * 37).astype(np.uint8)
        if name in ("f16", "bf16"):
            data = np.arange(256, dtype=np.float16).view(np.uint8).copy()
        source_bytes = torch.from_numpy(data).cuda()
        for lanes in (1, *lane_counts(name)):
            tail = f"{name}x{lanes}" if lanes > 1 else name
            text = f"def copy(x, y):\n    i = thread_x() * {lanes}\n    store_{tail}(y, i, load_{tail}(x, i))\n"
            threads = 512 // (WIDTHS[name] * lanes)
            out = torch.zeros_like(source_bytes)
            sample = Sample("copy", text, ("address", "address"), threads)
            launched(sample, (1,))((source_bytes.data_ptr(), out.data_ptr()))
            assert torch.equal(source_bytes, out), tail
