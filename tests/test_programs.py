"""The demo's programs: right at every step and as kernels, in all sizes, with the promised launches; exploring changes
nothing; calling again with other aliasing is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fusekit as fk
from fusekit.demo import SIZES, row_of
from fusekit.programs import PROGRAMS, Program
from fusekit.testing import differential

NINE = [p for p in PROGRAMS if p.name.startswith("thread_")]
SMALL = (6, 5)


def ids(program: Program) -> str:
    return program.name


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("program", PROGRAMS, ids=ids)
def test_every_step_is_what_eager_is(program: Program) -> None:
    x = fk.explore(program.fn, *program.make(SMALL, torch.float32))
    for name, report in x.check_steps().items():
        assert report.ok, f"after {name}\n{report}"
    for step in x.steps:
        assert fk.parse(x.text(step.name)) == step.graph
    assert x.check().ok, x.check()


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=ids)
def test_sizes(program: Program, size: tuple[int, int]) -> None:
    row = row_of(program, size, torch.float32)
    assert row.ok, row.cells


@pytest.mark.parametrize("program", PROGRAMS, ids=ids)
def test_bfloat16(program: Program) -> None:
    row = row_of(program, (33, 65), torch.bfloat16)
    assert row.ok, row.cells


@pytest.mark.parametrize("program", NINE, ids=ids)
def test_the_nine_are_one_kernel_each(program: Program) -> None:
    s = fk.explore(program.fn, *program.make((1024, 1031), torch.float32)).summary()
    assert (s.kernels, s.copies, s.extern_calls) == (1, 0, 0)
    assert s.bytes_moved == s.bytes_least


def aliasings(rows: int, columns: int) -> list[Callable[[], tuple[torch.Tensor, torch.Tensor]]]:
    """The element early, in the middle, late; nothing shared; the whole tensor twice; a row."""

    def base() -> torch.Tensor:
        return torch.linspace(-1, 1, rows * columns).reshape(rows, columns)

    def element(i: int, j: int) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
        def make() -> tuple[torch.Tensor, torch.Tensor]:
            a = base()
            return a, a[i, j]

        return make

    return [
        element(0, 0),
        element(rows // 2, columns // 2),
        element(rows - 1, columns - 1),
        lambda: (base(), torch.tensor(0.25)),
        lambda: (lambda a: (a, a))(base()),
        lambda: (lambda a: (a, a[1]))(base()),
        element(0, 0),
    ]


@pytest.mark.parametrize("program", NINE, ids=ids)
def test_one_callable_is_right_for_every_aliasing(program: Program) -> None:
    compiled = fk.jit(program.fn)
    for make in aliasings(37, 41):
        report = differential(program.fn, compiled, make())
        assert report.ok, report


@pytest.mark.parametrize("program", PROGRAMS, ids=ids)
def test_exploring_changes_nothing(program: Program) -> None:
    args = program.make(SMALL, torch.float32)
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    before = [(t.clone(), t._version, t.data_ptr(), t.shape, t.stride()) for t in tensors]
    x = fk.explore(program.fn, *args)
    x.check()
    x.run()
    for t, (old, version, address, shape, stride) in zip(tensors, before, strict=True):
        assert torch.equal(t, old)
        assert (t._version, t.data_ptr(), t.shape, t.stride()) == (version, address, shape, stride)


def test_two_hundred_cache_writes_share_plans() -> None:
    write = next(p.fn for p in PROGRAMS if p.name == "kv_cache_write")
    compiled = fk.jit(write)
    mine, theirs = torch.zeros(2, 200, 8), torch.zeros(2, 200, 8)
    for position in range(200):
        new = torch.full((2, 1, 8), float(position + 1))
        assert torch.equal(compiled(mine, new, position), write(theirs, new, position))
        assert torch.equal(mine, theirs)
    assert compiled.cache_info().plans <= 3


def test_two_hundred_optimizer_steps_share_plans() -> None:
    program = next(p for p in PROGRAMS if p.name == "adamw")
    compiled = fk.jit(program.fn)
    mine, theirs = program.make((7, 9), torch.float32)[:4], program.make((7, 9), torch.float32)[:4]
    for step in range(1, 201):
        compiled(*mine, step)
        program.fn(*theirs, step)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    assert compiled.cache_info().plans <= 3
