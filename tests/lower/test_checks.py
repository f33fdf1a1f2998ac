"""Indices are looked at by the kernel that uses them: no library call, nothing stored before, eager's errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import fusekit as fk
from fusekit.lower.program import For, Load, Stop, Store
from fusekit.lower.uses import walk

Call = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]


def table(*shape: int) -> torch.Tensor:
    return torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape)


def calls() -> dict[str, Call]:
    """Name -> (function, good arguments, bad arguments): the bad index comes last."""
    rows = torch.arange(300) % 7
    bad = rows.clone()
    bad[-1] = 7
    low = rows.clone()
    low[130] = -1
    wide, wider = rows.view(20, 15), bad.view(20, 15)
    return {
        "embedding": (F.embedding, (rows, table(7, 5)), (bad, table(7, 5))),
        "embedding of a transposed index": (F.embedding, (wide.t(), table(7, 3)), (wider.t(), table(7, 3))),
        "index_select": (lambda x, i: x.index_select(0, i), (table(7, 4), rows), (table(7, 4), low)),
        "index": (lambda x, i: x[i], (table(7, 4), rows - 7), (table(7, 4), rows - 8)),
        "gather": (lambda x, i: x.gather(1, i), (table(20, 7), wide), (table(20, 7), wider)),
        "nll": (F.nll_loss, (table(300, 7), rows), (table(300, 7), low)),
        "cross entropy": (F.cross_entropy, (table(300, 7), rows), (table(300, 7), bad)),
        "int32": (F.embedding, (rows.int(), table(7, 5)), (bad.int(), table(7, 5))),
    }


@pytest.mark.parametrize("backend", ["cpu", "sim"])
@pytest.mark.parametrize("name", calls())
def test_one_kernel_and_eagers_error(name: str, backend: str) -> None:
    fn, good, bad = calls()[name]
    x = fk.explore(fn, *good, options=fk.Options(backend=backend))
    s = x.summary()
    assert (s.kernels, s.extern_calls) == (1, 0)
    assert x.check().ok, x.check()
    with pytest.raises((IndexError, RuntimeError)) as theirs:
        fn(*bad)
    with pytest.raises(theirs.type) as ours:
        x.run(*bad)
    assert type(ours.value) is type(theirs.value) and str(ours.value)


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
@pytest.mark.parametrize("name", calls())
def test_nothing_is_stored_before_the_look(name: str, backend: str) -> None:
    fn, good, _ = calls()[name]
    (kernel,) = fk.explore(fn, *good, options=fk.Options(backend=backend)).kernels
    body = kernel.program.body
    (stop,) = [k for k, s in enumerate(body) if isinstance(s, Stop)]
    assert not any(isinstance(s, Store) for s in walk(body[:stop]))


@pytest.mark.parametrize("name", calls())
def test_a_gpu_asserts_as_eager_does_and_looks_up_in_bounds(name: str) -> None:
    """A thread may look up before another has found its index bad."""
    fn, good, _ = calls()[name]
    (kernel,) = fk.explore(fn, *good, options=fk.Options(backend="cuda")).kernels
    assert "__assertfail" in kernel.ptx
    given = {axis.var for axis in kernel.program.axes}
    loops = {s.var for s in walk(kernel.program.body) if isinstance(s, For)}
    loads = [s for s in walk(kernel.program.body) if isinstance(s, Load)]
    looked_up = [s for s in loads if s.address.free - given - loops - {kernel.program.lanes}]
    assert looked_up and all(s.clamp for s in looked_up)


def test_what_eager_wrote_before_is_written_and_nothing_after() -> None:
    def fn(index: torch.Tensor, weight: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        z.add_(1)
        out = F.embedding(index, weight)
        z.mul_(2)
        return out

    good, bad, weight = torch.tensor([[0, 3], [1, 1]]), torch.tensor([[0, 4], [1, 1]]), table(4, 5)
    for one in (fn, fk.jit(fn)):
        z = torch.zeros(9)
        one(good, weight, z)
        assert torch.equal(z, torch.full((9,), 2.0))
        with pytest.raises(IndexError):
            one(bad, weight, z)
        assert torch.equal(z, torch.full((9,), 3.0))


def test_two_looks_in_one_kernel_raise_the_first_error() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return x[a] + x.index_select(0, b)

    compiled, x = fk.jit(fn), table(5, 6)
    ok, bad = torch.tensor([0, 4, 2]), torch.tensor([0, 5, 2])
    assert torch.equal(compiled(ok, ok, x), fn(ok, ok, x))
    assert compiled.last_run.extern_calls == 0
    for args in ((bad, ok), (ok, bad), (bad, bad)):
        with pytest.raises(IndexError) as theirs:
            fn(*args, x)
        with pytest.raises(IndexError) as ours:
            compiled(*args, x)
        assert ("out of bounds" in str(ours.value)) == ("out of bounds" in str(theirs.value))


def test_a_look_without_a_kernel_after_it_is_a_call() -> None:
    def fn(index: torch.Tensor, weight: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        F.embedding(index, weight)
        return a @ a

    compiled, weight, a = fk.jit(fn), table(4, 5), table(3, 3)
    compiled(torch.tensor([1, 2]), weight, a)
    with pytest.raises(IndexError):
        compiled(torch.tensor([1, 4]), weight, a)


def test_indices_that_the_kernel_overwrites() -> None:
    def fn(index: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        out = F.embedding(index, weight)
        index.add_(1)
        return out

    compiled, weight = fk.jit(fn), table(4, 5)
    index = torch.tensor([0, 1])
    for _ in range(3):
        expected = F.embedding(index, weight)
        assert torch.equal(compiled(index, weight), expected)
    assert index.tolist() == [3, 4]
    with pytest.raises(IndexError):
        compiled(index, weight)
    assert index.tolist() == [3, 4]


def test_no_index_no_look() -> None:
    compiled, weight = fk.jit(F.embedding), table(4, 5)
    assert compiled(torch.zeros(0, dtype=torch.int64), weight).shape == (0, 5)
