"""Reductions as kernels: passes over loops, accumulators, what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fusekit.dtypes import F32
from fusekit.ir import Graph
from fusekit.lower import Kernel, lower_segment
from fusekit.passes import AliasGroups, Functionalize, SegmentOps
from fusekit.schedule import Schedule, parse_schedule
from fusekit.trace import record
from tests.lower.sketch import Sketch, check


def segmented(fn: Callable[..., object], *args: torch.Tensor) -> Graph:
    with torch.no_grad():
        graph = record(fn, args).graph
    for one in (AliasGroups(), Functionalize(), SegmentOps()):
        graph = one(graph).graph
    return graph


def kernels(fn: Callable[..., object], *args: torch.Tensor, schedule: Schedule | None = None) -> list[Kernel]:
    graph = segmented(fn, *args)
    segments = [s for s in graph.segments() if graph.segment(s).scheduler == "pointwise"]
    return [lower_segment(graph, segment, schedule=schedule) for segment in segments]


X = torch.randn(6, 8)


def test_softmax_is_three_passes_over_the_columns_and_one_over_what_is_kept() -> None:
    (kernel,) = kernels(lambda x: torch.softmax(x, -1), X)
    assert kernel.source.count("for i0 in range(6)") == 1
    assert kernel.source.count("for i1 in range(8)") == 4  # the wide sum has a loop of its own
    assert kernel.source.count("exp(") == 1, "the second pass keeps what the third needs"


def test_softmax_in_place_copies_nothing() -> None:
    (kernel,) = kernels(lambda x: x.copy_(torch.softmax(x, -1)), X)
    assert (kernel.order, kernel.copies) == ("any", 0)
    assert {race.verdict.value for race in kernel.races} <= {"never", "same iteration", "across iterations"}


def test_every_column_has_an_accumulator() -> None:
    (kernel,) = kernels(lambda x: x.sum(0), X)
    assert "sum_so_far = np.empty(8, np.float64)" in kernel.source
    assert kernel.source.index("for i0 in range(6)") < kernel.source.rindex("for i1 in range(8)")


def test_a_reduction_of_reductions_is_one_nest() -> None:
    (kernel,) = kernels(lambda x: torch.logsumexp(x, 1).mean(), X)
    assert kernel.source.count("for i0 in range(6)") == 1


def test_what_another_pass_would_have_to_make_again_is_split() -> None:
    assert len(kernels(lambda x: ((x - x.mean(1, keepdim=True)) / x.sum()).sum(0), X)) > 1


def test_a_loop_that_mixes_what_is_kept_and_folded_is_refused() -> None:
    graph = segmented(lambda x: x.sum(1), X)
    schedule = parse_schedule("split(0, 3).parallelize(BIDx, SERIAL, SERIAL)")
    assert lower_segment(graph, graph.segments()[0], schedule=schedule).source
    assert len(kernels(lambda x: (x - x.sum(1, keepdim=True)).flip(0), X, schedule=Schedule())) == 2


def test_a_schedule_of_a_gpu_runs_as_loops() -> None:
    (kernel,) = kernels(
        lambda x: torch.softmax(x, -1), X,
        schedule=parse_schedule("split(1, 4).split(1, 2).parallelize(BIDx, UNROLL, TIDx, VECTORIZE)"),
    )  # fmt: skip
    assert "for i2 in range(4)" in kernel.source


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"])
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_every_fold_against_the_interpreter(kind: str, dims: tuple[int, ...]) -> None:
    from fusekit.dtypes import BOOL, I64

    s = Sketch()
    x = s.fresh((3, 5), BOOL if kind in ("any", "all") else F32, "x")
    shape = tuple(n for k, n in enumerate((3, 5)) if k not in dims)
    dtype = {"any": BOOL, "all": BOOL, "argmax": I64, "argmin": I64}.get(kind, F32)
    found = s.op("fk.reduce", [s.load(x)], shape, dtype, kind=kind, dims=dims)
    s.store(found, s.fresh(shape, dtype))
    check(s.finish(), dtype=torch.bool if kind in ("any", "all") else torch.float32)


def test_a_long_sum_is_as_good_as_float64() -> None:
    import fusekit as fk

    x = torch.rand(1 << 20) + 100
    exact = x.double().sum()
    assert abs(fk.jit(lambda x: x.sum())(x) - exact) <= 1e-7 * exact
