"""The programs of deep learning: right at every step and as kernels and library calls, in every size that makes sense;
their text parses back; arguments are the same every time and large where they should be; other aliasing is right."""

from __future__ import annotations

import pytest
import torch

import fusekit as fk
from fusekit.programs import LARGE, ODD, PROGRAMS_REAL, Program, Size
from fusekit.testing import differential

DTYPES = (torch.float32, torch.bfloat16)
BY_NAME = {p.name: p for p in PROGRAMS_REAL}
EDGES = [(p, size) for p in PROGRAMS_REAL for size in p.sizes if 0 in size or not size]


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


def name(value: object) -> str:
    return value.name if isinstance(value, Program) else str(value).removeprefix("torch.")


def tensors(program: Program, size: Size, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Arguments, parameters and buffers."""
    found: list[torch.Tensor] = []
    for arg in program.make(size, dtype):
        if isinstance(arg, torch.nn.Module):
            found += [*arg.parameters(), *arg.buffers()]
        elif isinstance(arg, torch.Tensor):
            found.append(arg)
    return found


def check(program: Program, size: Size, dtype: torch.dtype) -> fk.Exploration:
    x = fk.explore(program.fn, *program.make(size, dtype))
    for step, report in x.check_steps().items():
        assert report.ok, f"after {step}\n{report}"
    report = x.check(**program.tolerance(dtype))
    assert report.ok, report
    return x


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("program", PROGRAMS_REAL, ids=name)
def test_every_step_is_what_eager_is(program: Program, dtype: torch.dtype) -> None:
    x = check(program, ODD, dtype)
    for step in x.steps:
        assert fk.parse(x.text(step.name)) == step.graph


@pytest.mark.parametrize(("program", "size"), EDGES, ids=name)
def test_nothing_and_0d(program: Program, size: Size) -> None:
    check(program, size, torch.float32)


@pytest.mark.parametrize("program", PROGRAMS_REAL, ids=name)
def test_arguments_are_the_same_every_time(program: Program) -> None:
    first, second = (tensors(program, ODD, torch.bfloat16) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("program", PROGRAMS_REAL, ids=name)
def test_large_is_a_million_elements(program: Program) -> None:
    with torch.device("meta"):
        largest = max(t.numel() for t in tensors(program, LARGE))
    assert LARGE in program.sizes and largest >= 1_000_000


def test_channels_last_stays() -> None:
    program = BY_NAME["batch_norm_channels_last"]
    out = fk.explore(program.fn, *program.make(ODD, torch.float32)).run()
    assert isinstance(out, torch.Tensor) and out.is_contiguous(memory_format=torch.channels_last)


def test_exploring_leaves_running_statistics() -> None:
    program = BY_NAME["batch_norm"]
    module, x = program.make(ODD, torch.float32)
    assert isinstance(module, torch.nn.BatchNorm2d) and isinstance(x, torch.Tensor)
    before = [(t.clone(), t._version) for t in module.buffers()]
    explored = fk.explore(program.fn, module, x)
    explored.check()
    assert all(torch.equal(t, old) and t._version == v for t, (old, v) in zip(module.buffers(), before, strict=True))


def test_one_callable_is_right_for_other_aliasing() -> None:
    base = torch.linspace(-1, 1, 170)
    x, residual, *affine = BY_NAME["residual_layer_norm"].make(ODD, torch.float32)
    a, b = BY_NAME["transposed_add"].make(ODD, torch.float32)
    assert isinstance(a, torch.Tensor)
    early, late = base[:91], base[5:96]
    calls = {
        "residual_layer_norm": [(x, residual), (x, x), (early.view(7, 13), late.view(7, 13))],
        "transposed_add": [(a, b), (a, a.t()), (early.view(7, 13), late.view(13, 7))],
    }
    for program, pairs in calls.items():
        fn, more = BY_NAME[program].fn, affine if program == "residual_layer_norm" else ()
        compiled = fk.jit(fn)
        for pair in pairs:
            report = differential(fn, compiled, (*pair, *more))
            assert report.ok, report
