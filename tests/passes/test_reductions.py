"""Reductions as values: the functional graph against eager over dtypes, dimensions, sizes, layouts and aliases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from fusekit.ir import Graph
from tests.passes.against_eager import agree, functional, targets

FLOATS = (torch.float32, torch.bfloat16, torch.float64)
DTYPES = (*FLOATS, torch.int64, torch.bool)
DIMS: tuple[object, ...] = (0, 1, -1, (0, 2), (0, 1, 2))


def data(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Small numbers, some alike (ties), of either sign."""
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randint(-6, 7, shape, generator=generator)
    if dtype == torch.bool:
        return raw > 0
    return raw.to(dtype) / 4 if dtype.is_floating_point else raw.to(dtype)


def layouts(shape: tuple[int, ...], dtype: torch.dtype) -> Iterator[torch.Tensor]:
    """Contiguous, transposed, every other element, expanded."""
    yield data(shape, dtype)
    yield data(shape[::-1], dtype).permute(*range(len(shape) - 1, -1, -1))
    yield data((*shape[:-1], shape[-1] * 2), dtype)[..., ::2]
    yield data((1, *shape[1:]), dtype).expand(shape)


def over(name: str, **options: object) -> Callable[[object], Callable[[torch.Tensor], object]]:
    return lambda dim: lambda x: getattr(torch, name)(x, dim=dim, **options)


@pytest.mark.parametrize("name", ["sum", "amax", "amin"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_and_extremes_over_dimensions(name: str, dtype: torch.dtype) -> None:
    for dim in DIMS:
        for keep in (False, True):
            agree(lambda x, dim=dim, keep=keep: getattr(torch, name)(x, dim=dim, keepdim=keep), data((3, 5, 4), dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_means_and_spreads(dtype: torch.dtype) -> None:
    for dim in DIMS:
        agree(
            lambda x, dim=dim: (
                x.mean(dim),
                x.var(dim),
                x.std(dim, keepdim=True),
                torch.var_mean(x, dim, correction=0),
            ),
            data((3, 5, 4), dtype),
        )
    agree(lambda x: (x.mean(), x.var(), x.std(correction=2), torch.std_mean(x, correction=0)), data((7,), dtype))
    agree(lambda x: (x.var(0), x.std(1, correction=9)), data((1, 4), dtype))  # 0 / 0 and x / 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_reductions(dtype: torch.dtype) -> None:
    agree(lambda x: (x.sum(), x.max(), x.min(), x.any(), x.all()), data((3, 5), dtype))
    if dtype != torch.bool:
        agree(
            lambda x: (x.argmax(), x.argmin(), x.aminmax(), x.count_nonzero(), x.count_nonzero(1)), data((3, 5), dtype)
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_indices_of_extremes(dtype: torch.dtype) -> None:
    for dim in (0, 1, -1):
        agree(
            lambda x, d=dim: (x.max(d), x.min(d, keepdim=True), x.argmax(d), x.argmin(d, True)), data((4, 6, 3), dtype)
        )


def test_nans_and_ties_as_torch() -> None:
    x = data((4, 6), torch.float32)
    x[1, 2] = x[1, 4] = x[3, 0] = float("nan")
    x[0, :] = 2.0
    agree(lambda x: (x.max(1), x.min(0), x.argmax(), x.argmin(1), x.amax(1), x.sum(1), x.any(1), x.max()), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_products(dtype: torch.dtype) -> None:
    agree(lambda x: (x.prod(), x.prod(1), x.prod(0, keepdim=True)), data((3, 5), dtype))


def test_products_of_halves_stay_library_calls() -> None:
    """Eager rounds each step of some of its loops."""
    agree(lambda x: x.prod(0), data((3, 5), torch.bfloat16), calls=1)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.uint8])
def test_tests(dtype: torch.dtype) -> None:
    agree(
        lambda x: (x.any(1), x.all(0, keepdim=True), torch.any(x, dim=(0, 1)), torch.all(x, dim=(0,))),
        data((3, 5), dtype).abs()
        if dtype not in (torch.bool, torch.uint8)
        else data((3, 5), torch.int64).abs().to(dtype),
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_norms_of_vectors(dtype: torch.dtype) -> None:
    norm = torch.linalg.vector_norm
    agree(
        lambda x: (x.norm(), norm(x, 1, 1), norm(x, float("inf"), 0, True), norm(x, -float("inf"))), data((4, 6), dtype)
    )
    agree(lambda x: norm(x, 2, 1), torch.tensor([[-1e30], [1e-30]], dtype=dtype))
    agree(lambda x: norm(x, 3, 1), data((4, 6), dtype), calls=1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_log_sum_exp(dtype: torch.dtype) -> None:
    x = data((4, 6), dtype)
    x[1] = float("-inf")
    x[2, 3] = float("inf")
    agree(lambda x: (x.logsumexp(1), x.logsumexp((0, 1), keepdim=True)), x)


def test_the_dtype_that_is_asked_for() -> None:
    x = data((3, 5), torch.bfloat16)
    agree(
        lambda x: (x.sum(1, dtype=torch.float32), x.mean(dtype=torch.float64), x.float().sum(0, dtype=torch.bfloat16)),
        x,
    )
    agree(lambda x: (x.sum(dtype=torch.int32), x.sum(0, dtype=torch.float32), x.prod(1, dtype=torch.float64)), x.long())
    agree(lambda x: (torch.linalg.vector_norm(x, dtype=torch.float32), x.sum(0)), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_layouts(dtype: torch.dtype) -> None:
    for x in layouts((4, 3, 5), dtype):
        agree(lambda x: (x.sum(0), x.amax((1, 2)), x.max(2), x.sum(), x.argmax()), x)


def test_channels_last() -> None:
    x = data((2, 3, 4, 5), torch.float32).to(memory_format=torch.channels_last)
    agree(lambda x: (x.sum((2, 3)), x.mean(1, keepdim=True), x.amax((0, 2, 3))), x)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (1, 1), (1, 7), (0,)])
def test_small_and_empty(shape: tuple[int, ...]) -> None:
    agree(
        lambda x: (x.sum(-1), x.sum(0), x.sum(), x.mean(0), x.any(-1), x.all(0), x.prod(), x.mean()),
        data(shape, torch.float32),
    )


def test_no_dimension() -> None:
    agree(
        lambda x: (x.sum(), x.sum(0), x.mean(-1), x.amax(), x.max(0), x.argmax(), x.any(), x.prod(), x.norm()),
        torch.tensor(3.0),
    )


def test_the_largest_of_nothing_is_eagers_error() -> None:
    with pytest.raises((IndexError, RuntimeError)):
        functional(lambda x: x.amax(1), data((3, 0), torch.float32))
    agree(lambda x: x.amax(1), data((0, 3), torch.float32))


def test_the_mean_of_integers_is_eagers_error() -> None:
    with pytest.raises(RuntimeError, match="dtype"):
        functional(lambda x: x.mean(), data((3, 3), torch.int64))


def test_cumsum_stays_a_library_call() -> None:
    agree(lambda x: x.cumsum(1).sum(), data((3, 3), torch.float32), calls=1)


# ---- aliases ------------------------------------------------------------------------------------------------------


def test_in_place_with_a_reduction_of_itself() -> None:
    agree(lambda x: x.sub_(x.mean(1, keepdim=True)), data((4, 6), torch.float32))
    agree(lambda x: x[1:].div_(x.sum(0) + 100), data((4, 6), torch.float32))
    agree(lambda x: x.t().copy_(x.sum(0).expand(4, 6).t()), data((4, 6), torch.float32))


def test_a_sum_of_a_written_slice() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x[:, 1:3].mul_(2)
        total = x.sum(1)
        x[0].copy_(total[:1].expand(6))
        return total + x.amax(0)[0]

    agree(program, data((4, 6), torch.float32))


def test_reductions_of_reductions() -> None:
    agree(lambda x: ((x - x.mean(0)).square().sum(1).softmax(0) * x.sum()).amax(0), data((4, 6), torch.float32))


def test_a_write_to_what_a_live_reduction_reads() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = x.sum(1)
        x.zero_()
        return y.cumsum(0).add_(total)

    agree(program, data((4, 6), torch.float32), data((4,), torch.float32), calls=1)


def test_out_forms_stay_library_calls() -> None:
    agree(lambda x, out: torch.sum(x, 1, out=out), data((4, 6), torch.float32), data((4,), torch.float32), calls=1)


def test_triangles() -> None:
    for k in (-9, -2, 0, 1, 9):
        agree(lambda x, k=k: (x.tril(k), x.triu(k), x[0].t().tril(k)), data((2, 4, 6), torch.float32))
    agree(lambda x: torch.ones(4, 4, dtype=torch.bool).triu(1).int() + x, data((4, 4), torch.int64))


def stores(graph: Graph) -> list[object]:
    return [graph.op(op).kwarg("because") for op in graph.ops() if graph.op(op).target == "fk.store"]


def test_a_reduction_inside_another_over_other_dimensions_is_written_first() -> None:
    """Each mean would be computed once a row."""
    x = data((8, 8), torch.float32)
    assert len(stores(agree(lambda x: (x - x.mean(0)).sum(1), x))) == 2
    assert len(stores(agree(lambda x: x.softmax(0).softmax(1), x))) == 2


def test_reductions_that_repeat_nothing_stay_together() -> None:
    x = data((8, 8), torch.float32)
    assert len(stores(agree(lambda x: x.softmax(1).softmax(1), x))) == 1
    assert len(stores(agree(lambda x: (x - x.mean(0)) / (x - x.mean(1, keepdim=True)).abs().amax(), x))) == 1
    assert len(stores(agree(lambda x: x.norm(dim=1).sum(), x))) == 1


def test_one_reduction_for_equal_ones() -> None:
    graph = functional(lambda x: (x.sum(1) + 1, x.sum(1) * 2), data((4, 6), torch.float32))
    assert targets(graph).count("fk.reduce") == 1


def test_on_by_default() -> None:
    from fusekit.passes import AliasGroups, Functionalize
    from fusekit.trace.record import record

    graph = record(lambda x: x.sum(1) + 1, (data((4, 6), torch.float32),)).graph
    for one in (AliasGroups(), Functionalize()):
        graph = one(graph).graph
    assert "aten.sum.dim_IntList" not in targets(graph) and "fk.reduce" in targets(graph)
