"""What a call on CUDA does in front of its launch: here the device is the simulator, whose memory is the CPU's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
import torch

from fusekit.lower import Kernel, lower_segment
from fusekit.pipeline import Compiled, plan_of
from fusekit.run.cuda import kernel as calls
from fusekit.run.cuda.kernel import as_cuda, compile_kernel
from fusekit.run.cuda.ptx import Ptx
from fusekit.run.cuda.simulate import simulate
from fusekit.run.plan import execute
from fusekit.schedule import parse_schedule
from tests.cuda.samples import SHAPES, explored, shifted


class FakeLaunch:
    """A launch that simulates its kernel's source, which stands where the PTX would."""

    made: list[FakeLaunch]

    def __init__(self, function: Ptx, grid: Sequence[int], block: Sequence[int], together: bool = False):
        self.source, self.grid, self.block, self.calls = function, grid, block, 0
        FakeLaunch.made.append(self)

    def __call__(self, args: Sequence[int | float]) -> None:
        self.calls += 1
        simulate(self.source.text, self.source.entry, self.grid, self.block, args)


def copied(target: int, source: int, size: int, stream: int) -> tuple[int]:
    ctypes.memmove(target, source, size)
    return (0,)


@pytest.fixture(autouse=True)
def _device(monkeypatch: pytest.MonkeyPatch):
    """No driver: PTX is the source, memory is the CPU's."""
    driver = SimpleNamespace(cuMemcpyDtoDAsync=copied, CUresult=SimpleNamespace(CUDA_SUCCESS=0))
    counters = torch.zeros(64, dtype=torch.int32)
    partials = torch.full((1 << 16,), torch.nan)
    monkeypatch.setattr(calls, "Launch", FakeLaunch)
    monkeypatch.setattr(calls, "load", lambda ptx, device: ptx)
    monkeypatch.setattr(calls, "bindings", lambda: driver)
    monkeypatch.setattr(calls, "current_stream", lambda device: 0)
    monkeypatch.setattr(calls, "describe", lambda device=0: SimpleNamespace(cc=(9, 0)))
    monkeypatch.setattr(calls, "_room", lambda size, device: torch.empty(size, dtype=torch.uint8))
    monkeypatch.setattr(calls.scratch, "partials", lambda device, size: partials)
    monkeypatch.setattr(calls.scratch, "counters", lambda device, count: counters)
    monkeypatch.setattr(calls.CudaKernel, "compiled", compiled)
    FakeLaunch.made = []


def compiled(kernel: calls.CudaKernel, cc: tuple[int, int], vectors: bool = True) -> Ptx:
    return Ptx(kernel.name, kernel.source if vectors else kernel.scalar_source, kernel.kinds, cc, 1024)


def on_device(kernel: Kernel) -> Callable[..., None]:
    assert isinstance(kernel, calls.CudaKernel)
    return compile_kernel(kernel, 0)


def run(name: str, schedule: str = "") -> tuple[list[object], list[torch.Tensor], list[torch.Tensor]]:
    """The outputs, the arguments after a call, and before it."""
    x = explored(name, torch.float32, SHAPES)
    (segment,) = x.graph.segments()[:1]
    chosen = parse_schedule(schedule) if schedule else None
    kernel = as_cuda(lower_segment(x.graph, segment, schedule=chosen, target="cuda"), x.graph)
    plan = plan_of(x.graph, Compiled({segment: kernel}, {}), x.recording.graph, on_device)
    tensors = [torch.randn_like(t) for t in x.args if isinstance(t, torch.Tensor)]
    before = [tensor.clone() for tensor in tensors]
    return execute(plan, tensors), tensors, before


def test_a_snapshot_is_taken_in_front_of_the_launch():
    _, (x,), (before,) = run("shifted")
    assert torch.equal(x, shifted(before))
    (launch,) = FakeLaunch.made
    assert launch.calls == 1


def test_blocks_share_scratch_and_leave_their_counters_at_zero():
    chain = "merge(0).split(0, 4).split(0, 32).split(0, 4).parallelize(BIDx, SERIAL, TIDx, VECTORIZE)"
    for _ in range(2):
        (found,), (x,), _ = run("full_sum", chain)
        assert isinstance(found, torch.Tensor)
        torch.testing.assert_close(found, x.sum(), rtol=1e-4, atol=1e-4)
    assert FakeLaunch.made[0].grid[0] == 8
    assert not calls.scratch.counters(0, 1).any()


def test_an_address_that_is_not_aligned_takes_the_other_text():
    x = explored("pointwise", torch.float32, SHAPES)
    (kernel,) = x.kernels
    assert isinstance(kernel, calls.CudaKernel)
    call = compile_kernel(kernel, 0)
    rooms = [torch.randn(8 * 64 + 8) for _ in range(3)]
    starts = [-(room.data_ptr() // 4) % 4 for room in rooms]
    for shift, made in ((0, 1), (1, 2), (1, 2)):
        views = [room[k + shift : k + shift + n] for room, k, n in zip(rooms, starts, (512, 64, 512), strict=True)]
        call(*(view.data_ptr() for view in views))
        a, b = views[0].view(8, 64), views[1]
        assert torch.equal(views[2].view(8, 64), torch.where(a > 0, a * b, a - b))
        assert len(FakeLaunch.made) == made


Reader = Callable[[int], int | float]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool])
def test_a_number_is_read_from_the_memory_of_the_cpu(dtype: torch.dtype):
    from fusekit.index import Form
    from fusekit.lower.program import Load
    from fusekit.torch_types import FROM_TORCH

    value = torch.tensor([0, 3]).to(dtype)
    width = value.element_size()
    read: Reader = calls._reader(Load("s", "m", Form.of(width), FROM_TORCH[dtype]))
    assert read(value.data_ptr()) == value[1].item()
