"""On a device: every program against eager, other streams, other aliasings, captured graphs."""

from __future__ import annotations

import pytest
import torch

import fusekit as fk
from fusekit.pipeline import Options
from fusekit.programs import ODD, PROGRAMS, PROGRAMS_REAL, SMALL, Program
from fusekit.run.cuda.kernel import CudaKernel
from tests.cuda.samples import PASSES, SHAPES, arguments, bias_gelu, column_sum, full_sum, shifted, softmax

pytestmark = pytest.mark.cuda
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
AUTO = Options(passes=PASSES)


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


def on_device(program: Program, size: tuple[int, ...], dtype: torch.dtype) -> tuple[object, ...]:
    with torch.device("cuda"):
        return program.make(size, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("program", [*PROGRAMS, *PROGRAMS_REAL], ids=lambda program: program.name)
def test_a_program_is_what_eager_is(program: Program, dtype: str):
    for size in (SMALL, ODD):
        x = fk.explore(program.fn, *on_device(program, size, DTYPES[dtype]), options=AUTO)
        assert all(isinstance(kernel, CudaKernel) for kernel in x.kernels)
        report = x.check(**program.tolerance(DTYPES[dtype]))
        assert report.ok, report


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHAPES)
def test_a_kind_of_kernel_is_what_eager_is(name: str, dtype: str):
    fn, shapes = SHAPES[name]
    args = [t.cuda() for t in arguments(shapes, DTYPES[dtype])]
    report = fk.explore(fn, *args, options=AUTO).check()
    assert report.ok, report


def test_a_call_belongs_to_the_current_stream():
    """It waits for what its stream does before it, and torch on that stream waits for it."""
    f = fk.jit(full_sum, options=AUTO)
    x = torch.zeros(1 << 22, device="cuda")
    f(x)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        x.fill_(0.5)
        found = f(x) * 2
    torch.cuda.synchronize()
    assert found.item() == 1 << 22


def test_streams_share_no_scratch():
    f = fk.jit(column_sum, options=AUTO)
    inputs = [torch.randn(8192, 256, device="cuda") for _ in range(2)]
    wanted = [f(x).clone() for x in inputs]
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    found: list[tuple[int, torch.Tensor]] = []
    for _ in range(20):
        for k, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                found.append((k, f(inputs[k])))
    torch.cuda.synchronize()
    assert all(torch.equal(result, wanted[k]) for k, result in found)


def doubled_then_read(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.mul_(2)
    return x + 1


def test_one_callable_is_right_for_two_aliasings():
    f = fk.jit(doubled_then_read, options=AUTO)
    for first in (4096, 6, 1000, 0):
        ours, eager = (torch.arange(8192.0, device="cuda") for _ in range(2))
        found = f(ours[:4096], ours[first : first + 4096])
        assert torch.equal(found, doubled_then_read(eager[:4096], eager[first : first + 4096]))
        assert torch.equal(ours, eager)


def test_a_snapshot_is_a_copy_of_its_own():
    f = fk.jit(shifted, options=AUTO)
    for _ in range(3):
        ours = torch.randn(1000, 513, device="cuda")
        eager = ours.clone()
        assert torch.equal(f(ours), shifted(eager))
        assert ours._version == eager._version
    assert f.last_run.copies == 1


def test_a_0d_tensor_of_the_cpu_is_read_at_each_call():
    f = fk.jit(lambda x, s: x * s, options=AUTO)
    x = torch.randn(100, 8, device="cuda")
    for value in (3.0, -0.5):
        s = torch.tensor(value)
        assert torch.equal(f(x, s), x * s)


def test_a_captured_call_replays():
    f = fk.jit(lambda x, b: softmax(bias_gelu(x, b)), options=AUTO)
    x, b = torch.randn(64, 1024, device="cuda"), torch.randn(1024, device="cuda")
    f(x, b)
    f(x, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = f(x, b)
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.testing.assert_close(out, softmax(bias_gelu(x, b)))


def test_large_tensors():
    x, b = torch.randn(4096, 4096, device="cuda"), torch.randn(4096, device="cuda")
    f = fk.jit(lambda x, b: softmax(bias_gelu(x, b)), options=AUTO)
    torch.testing.assert_close(f(x, b), softmax(bias_gelu(x, b)))
    assert f.last_run.kernels == 1 and f.last_run.extern_calls == 0
