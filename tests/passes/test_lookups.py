"""Look-ups by an index tensor: their values, and the errors that data decide."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from fusekit.testing.stages import interpreted
from tests.passes.against_eager import PASSES, agree, functional, message, raises_alike, targets


def table(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("index", [torch.int64, torch.int32])
def test_look_ups(dtype: torch.dtype, index: torch.dtype) -> None:
    x, at = table(4, 6, dtype=dtype), torch.tensor([3, 0, 3, 1], dtype=index)
    agree(lambda x, i: F.embedding(i.reshape(2, 2), x), x, at)
    agree(
        lambda x, i: (
            x.index_select(0, i),
            x.index_select(1, i),
            x.t().index_select(-1, i),
            x[0].index_select(0, i[0]),
        ),
        x,
        at,
    )
    agree(lambda x, i: (x[:, i], x[i.reshape(2, 2)], x[:, i - 4], x[..., i[:1]]), x, at)


def test_gather() -> None:
    x, at = table(4, 6), torch.tensor([[3, 0], [1, 1]])
    agree(lambda x, i: (x.gather(0, i), x.gather(1, i), x.t().gather(-1, i), x.gather(1, i[:, :1].expand(2, 3))), x, at)
    agree(lambda x, i: x.gather(1, i), x, torch.empty(0, 3, dtype=torch.int64))


def test_sizes() -> None:
    none = torch.empty(0, dtype=torch.int64)
    agree(lambda x, i: (F.embedding(i, x), x.index_select(1, i), x[i]), table(4, 6), none)
    agree(lambda x, i: x[:, i], table(0, 6), torch.tensor([1, 2]))
    agree(lambda x, i: F.embedding(i, x), table(4, 6), torch.tensor(2))


def test_two_index_tensors_stay_a_library_call() -> None:
    agree(lambda x, i: x[i, i], table(4, 6), torch.tensor([1, 2]), calls=1)
    agree(lambda x: x.gather(0, torch.zeros((), dtype=torch.int64)), torch.tensor(2.0), calls=1)


def test_positions_that_the_program_made_need_no_check() -> None:
    graph = agree(lambda e: F.embedding(torch.arange(3)[None], e) + e[torch.arange(1, 4)], table(5, 2))
    assert "fk.check_index" not in targets(graph)
    assert targets(functional(lambda e: F.embedding(torch.arange(3), e), table(3, 2))).count("fk.check_index") == 0


def test_indices_that_were_computed() -> None:
    agree(lambda x, i: x.index_select(0, (i * 2).clamp(max=3)) + x[0], table(4, 6), torch.tensor([1, 2]))

    def program(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        i.add_(1)
        found = x[i]
        i.zero_()
        return found + x[i]

    agree(program, table(4, 6), torch.tensor([1, 2]))


def test_a_table_that_is_written() -> None:
    def program(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        before = x[i]
        x[1].mul_(10)
        return before - F.embedding(i, x)

    agree(program, table(4, 6), torch.tensor([1, 2, 1]))
    agree(lambda x, i: x.copy_(x[i]), table(4, 6), torch.tensor([3, 2, 1, 0]))


def test_an_embedding_and_a_norm() -> None:
    def program(i: torch.Tensor, tokens: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        x = F.embedding(i, tokens) + F.embedding(torch.arange(3), places)
        return F.layer_norm(x, (4,))

    agree(program, torch.tensor([[5, 1, 0], [2, 2, 3]]), table(6, 4) / 7, table(3, 4) / 5)


# ---- errors -------------------------------------------------------------------------------------------------------

at = torch.tensor
BAD: dict[str, tuple[Callable[..., object], torch.Tensor]] = {
    "embedding": (lambda x, i: F.embedding(i, x), at([1, 4])),
    "embedding, negative": (lambda x, i: F.embedding(i, x), at([[1, -1]], dtype=torch.int32)),
    "index_select 0": (lambda x, i: x.index_select(0, i), at([0, -1])),
    "index_select 1": (lambda x, i: x.index_select(1, i), at([9, 8])),
    "index_select of a vector": (lambda x, i: x[0].index_select(0, i), at(9)),
    "index": (lambda x, i: x[:, i], at([9, 8])),
    "index, negative": (lambda x, i: x[i], at([0, -5])),
    "gather": (lambda x, i: x.gather(1, i), at([[9, 1]])),
    "gather, negative": (lambda x, i: x.gather(0, i), at([[-1]])),
    "nll_loss": (lambda x, i: F.nll_loss(x, i), at([0, 1, 6, 2])),
    "nll_loss, negative": (lambda x, i: F.nll_loss(x, i, reduction="none"), at([0, 1, 2, -1])),
    "nll_loss, large": (lambda x, i: F.nll_loss(x, i, reduction="sum"), at([0, 1, 2, 1 << 40])),
    "nll_loss of a vector": (lambda x, i: F.nll_loss(x[0], i), at(7)),
    "cross entropy": (lambda x, i: F.cross_entropy(x, i), at([0, 1, 6, 2])),
    "nll_loss2d": (lambda x, i: F.nll_loss(x.reshape(1, 4, 2, 3), i), at([[[0, 1, 2], [3, 3, 4]]])),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_indices_raise_what_eager_raises(case: str) -> None:
    fn, index = BAD[case]
    eager = message(fn, table(4, 6), index)
    assert eager != "nothing"
    assert message(interpreted(fn, PASSES), table(4, 6), index) == eager
    assert "fk.check_index" in targets(functional(fn, table(4, 6), torch.zeros_like(index)))


@pytest.mark.parametrize("case", list(BAD))
def test_errors_leave_eagers_memory(case: str) -> None:
    """Earlier writes of arguments are made, later ones are not, also through other names of the memory."""
    fn, index = BAD[case]

    def program(a: torch.Tensor, x: torch.Tensor, i: torch.Tensor) -> object:
        a.add_(1)
        x[0, :2].mul_(a[0, 0])
        copy = a.exp()
        found = fn(x, i)
        a.mul_(2)
        x.zero_()
        return found, copy

    raises_alike(program, table(4, 6), table(4, 6), index)
    shared = table(5, 6)
    raises_alike(program, shared[1:], shared[:4], index)
    agree(program, shared[1:], shared[:4], torch.zeros_like(index))


def test_an_error_after_another_check() -> None:
    def program(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        first = x[i]
        x.add_(first.sum())
        second = x[j]
        x.zero_()
        return second

    raises_alike(program, table(4, 6), at([0, 1]), at([7]))
    raises_alike(program, table(4, 6), at([7]), at([0]))
    agree(program, table(4, 6), at([0, 1]), at([3]))


def test_bad_indices_that_the_program_writes() -> None:
    def program(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        i.add_(3)
        x.neg_()
        found = x[i]
        i.zero_()
        return found

    raises_alike(program, table(4, 6), at([0, 1]))
    agree(program, table(4, 6), at([0, 0]))
