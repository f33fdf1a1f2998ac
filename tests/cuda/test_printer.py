"""What is printed for CUDA: PTX that stays in registers and moves 16 bytes at a time, and the same text simulated."""

from __future__ import annotations

import ctypes
from random import Random

import pytest
import torch

import fusekit as fk
from fusekit.errors import BackendUnavailable, UnsupportedError
from fusekit.ir import parse
from fusekit.lower.print_cuda import print_cuda
from fusekit.pipeline import Options, backend_of, lower_graph
from fusekit.run import cuda
from fusekit.run.cuda.kernel import CudaKernel, addresses_of, is_aligned
from fusekit.run.cuda.simulate import simulate
from tests.cuda.samples import SHAPES, SIM, TINY, arguments, bias_gelu, explored, overlay, rescheduled, shifted

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# kernels whose every row is a whole number of vectors
IN_VECTORS = (
    "pointwise", "bias_gelu", "softmax_256", "softmax_4096", "layer_norm", "rms_norm", "row_sum", "column_sum",
    "full_sum", "transposed_add", "take",
)  # fmt: skip


def kernels(x: fk.Exploration) -> list[CudaKernel]:
    return [kernel for kernel in x.kernels if isinstance(kernel, CudaKernel)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHAPES)
def test_a_kernel_assembles_without_spills_and_is_right_when_simulated(name: str, dtype: str):
    x = explored(name, DTYPES[dtype], SHAPES)
    assert kernels(x), x.segments
    for kernel in kernels(x):
        made = kernel.assembled()
        assert not made.uses_local, kernel.source
        assert not name.endswith(IN_VECTORS) or made.accesses["ld", "global", 16], kernel.source
        assert "ld.global.nc" not in kernel.ptx  # the text may write what it reads
    report = x.check()
    assert report.ok, report


def fuzz(first: int, last: int) -> int:
    """How many random schedules were right; the first wrong one fails."""
    known: dict[tuple[str, torch.dtype], fk.Exploration] = {}
    right = 0
    for seed in range(first, last):
        random = Random(seed)
        name, dtype = random.choice(list(TINY)), random.choice((torch.float32, torch.bfloat16))
        if (name, dtype) not in known:
            known[name, dtype] = explored(name, dtype, TINY)
        made = rescheduled(known[name, dtype], random)
        if made is not None:
            report = made[0].check()
            assert report.ok, f"seed {seed}, {name}: {[str(schedule) for schedule in made[1].values()]}\n{report}"
            right += 1
    return right


def test_random_schedules_are_right_in_the_simulator():
    assert fuzz(0, 160) >= 100


@pytest.mark.slow
def test_many_random_schedules_are_right_in_the_simulator():
    assert fuzz(1000, 6000) >= 3000


# ---- accesses -------------------------------------------------------------------------------------------------------


def test_memory_that_starts_anywhere_is_read_element_by_element():
    """Four bytes off, a vector access would be refused by the hardware, and by the simulator."""
    buffer = bytearray(8 * 64 * 4 + 32)
    shift = -ctypes.addressof(ctypes.c_char.from_buffer(buffer)) % 16 + 4
    x = torch.frombuffer(buffer, dtype=torch.float32, offset=shift, count=8 * 64).view(8, 64)
    assert x.untyped_storage().data_ptr() % 16 == 4
    x.copy_(torch.randn(8, 64))
    b = torch.randn(64)
    found = fk.explore(bias_gelu, x, b, options=SIM).run(x, b)
    torch.testing.assert_close(found, bias_gelu(x, b))


def test_the_text_for_unaligned_memory_has_no_vector_access():
    (kernel,) = kernels(explored("pointwise", torch.float32, SHAPES))
    assert "load_f32x4(" in kernel.source
    assert "f32x4" not in kernel.scalar_source
    assert cuda.assemble(kernel.compiled(vectors=False)).accesses["ld", "global", 16] == 0


def test_is_aligned_looks_at_addresses_only():
    (kernel,) = kernels(explored("pointwise", torch.float32, SHAPES))
    where = addresses_of(kernel)
    assert where == (0, 1, 2)
    assert is_aligned((32, 16, 48), where) and not is_aligned((32, 20, 48), where)
    assert is_aligned((32, 16, 48, 3.5, 7), where)


# ---- backends -------------------------------------------------------------------------------------------------------


def test_cuda_without_a_device_shows_and_does_not_run():
    if cuda.device_count():
        pytest.skip("there is a device")
    x = fk.explore(bias_gelu, *arguments(((4, 8), (8,)), torch.float32), options=Options(backend="cuda"))
    (kernel,) = kernels(x)
    assert "each_lane" in kernel.source
    assert ".visible .entry" in kernel.ptx
    assert x.summary().kernels == 1
    with pytest.raises(BackendUnavailable, match="no CUDA device"):
        x.run()
    with pytest.raises(BackendUnavailable):
        fk.jit(bias_gelu, backend="cuda")(*arguments(((4, 8), (8,)), torch.float32))


def test_a_kernel_is_exported_with_its_source(tmp_path: object):
    (kernel,) = kernels(explored("pointwise", torch.float32, SHAPES))
    text = kernel.export(f"{tmp_path}/kernel.ptx").read_text()
    assert "// def fk_" in text and ".visible .entry fk_" in text


def test_auto_is_the_backend_of_the_arguments():
    x = fk.explore(bias_gelu, *arguments(((4, 8), (8,)), torch.float32))
    assert backend_of(x.graph, "auto") == "cpu"
    moved = parse(x.text().replace('"cpu"', '"cuda:0"').replace(" cpu", " cuda:0"))
    assert backend_of(moved, "auto") == "cuda"
    made = lower_graph(moved)
    assert made.backend == "cuda" and all(isinstance(kernel, CudaKernel) for kernel in made.kernels.values())


def test_the_simulator_refuses_large_grids():
    x = fk.explore(bias_gelu, torch.zeros(1024, 1024), torch.zeros(1024), options=SIM)
    with pytest.raises(UnsupportedError, match="use smaller tensors"):
        x.run()


def doubled_then_read(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.mul_(2)
    return x + 1


def test_one_callable_is_right_for_two_aliasings():
    f = fk.jit(doubled_then_read, options=SIM)
    for first in (12, 6):
        ours, eager = torch.arange(24.0), torch.arange(24.0)
        found = f(ours[:12], ours[first : first + 12])
        assert torch.equal(found, doubled_then_read(eager[:12], eager[first : first + 12]))
        assert torch.equal(ours, eager)
    assert f.cache_info().plans == 2


@pytest.mark.parametrize("fn", [overlay, shifted])
def test_writes_through_views_leave_what_eager_leaves(fn):
    x, same = (arguments(((5, 8),), torch.float32)[0] for _ in range(2))
    fk.explore(fn, x, options=SIM).run(x)
    assert torch.equal(x, fn(same))


def test_a_snapshot_is_one_copy():
    x = explored("shifted", torch.float32, SHAPES)
    (kernel,) = kernels(x)
    assert kernel.copies == len(kernel.snapshots) == x.summary().copies == 1


# ---- numbers of the CPU among tensors of a device --------------------------------------------------------------------


def test_a_0d_tensor_of_the_cpu_is_passed_as_a_number():
    x = fk.explore(lambda x, s: x * s, torch.randn(4, 8), torch.tensor(3.0), options=SIM)
    (kernel,) = kernels(x)
    number = kernel.program.params[1].name
    source = print_cuda(kernel.program, kernel.name, x.graph, values=(number,)).text
    assert f"np.float32(np.float64({number}))" in source
    given, out = torch.arange(32.0), torch.zeros(32)
    simulate(source, kernel.name, *kernel.launch, (given.data_ptr(), 2.5, out.data_ptr()))
    assert torch.equal(out, given * 2.5)
