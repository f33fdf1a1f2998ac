"""108 to 124: strides of fresh outputs are eager's, replay of loops, and what launches nothing."""

from __future__ import annotations

from itertools import product

import torch

import fusekit as fk
from fusekit.domains import LoopDomain, ReorderAxes, SplitBy
from tests.behaviours.seeing import data, launched, moves_least, see, share, start_alike


def order(t: torch.Tensor) -> tuple[int, ...]:
    """Axes from the outermost in memory to the innermost; those of one element where they stand."""
    return tuple(sorted(range(t.dim()), key=lambda k: -t.stride(k)))


def last(*shape: int) -> torch.Tensor:
    """Channels last in memory."""
    return data(*shape).to(memory_format=torch.channels_last)


def test_b108_a_unary_op_keeps_channels_last() -> None:
    seen = see(lambda x: x.neg(), last(2, 3, 5, 7), kernels=1)
    assert order(seen.out) == (0, 2, 3, 1) and moves_least(seen)


def test_b109_with_a_number_on_either_side() -> None:
    for fn in (lambda x: x + 2, lambda x: 2 - x, lambda x: torch.tensor(2.0) * x):
        seen = see(fn, last(2, 3, 5, 7), kernels=1)
        assert order(seen.out) == (0, 2, 3, 1)


def test_b110_the_operand_with_more_axes_decides() -> None:
    x, y = data(3, 1, 5), data(7, 3, 5, seed=1).permute(1, 0, 2)
    for fn in (lambda x, y: x + y, lambda x, y: y + x):
        seen = see(fn, x, y, kernels=1)
        assert order(seen.out) == (1, 0, 2)


def test_b111_axes_of_one_element_decide_nothing() -> None:
    x = data(2, 7, 5, 1).permute(0, 3, 2, 1)
    seen = see(
        lambda x, y: x + y, x, torch.ones(2, 3, 5, 7).permute(0, 3, 2, 1).contiguous().permute(0, 3, 2, 1), kernels=1
    )
    assert order(seen.out) == (0, 3, 2, 1)


def test_b112_new_axes_of_a_broadcast() -> None:
    """They are views: the order under them stays."""
    x = last(2, 3, 5, 7)
    seen = see(lambda x: x.neg()[:, None, :, :, None], x, kernels=1, alias=1)
    assert seen.out.squeeze().stride() == x.stride() and moves_least(seen)


def test_b113_a_factory_decides_nothing() -> None:
    for fn in (lambda x: x + torch.ones(2, 3, 5, 7), lambda x: torch.zeros_like(x) + x):
        assert order(see(fn, last(2, 3, 5, 7), kernels=1).out) == (0, 2, 3, 1)


def test_b114_where_agrees() -> None:
    x, y = last(2, 3, 5, 7), last(2, 3, 5, 7).neg()
    seen = see(lambda x, y: torch.where(x > 0, x, y), x, y, kernels=1)
    assert order(seen.out) == (0, 2, 3, 1)


def test_b115_a_reduction_of_permuted_axes() -> None:
    x = data(5, 2, 7, 3).permute(1, 3, 0, 2)
    for fn in (lambda x: x.sum(1), lambda x: x.sum(1, keepdim=True), lambda x: x.amax((0, 2)), lambda x: x.var(3)):
        seen = see(fn, x, kernels=1)
        assert seen.out.stride() == fn(x).stride()


def test_b116_relu_of_channels_last() -> None:
    seen = see(lambda x: x.relu(), last(2, 33, 5, 7), kernels=1)
    assert seen.out.is_contiguous(memory_format=torch.channels_last)


def test_b117_attention_lays_out_as_its_query() -> None:
    """Output in the order of the query's projection, log-sum-exp rows dense in [batch, heads, length] or as eager has
    them; the views after it are free."""

    def f(q, k, v):
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in (q, k, v))
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
        return out, lse, out.transpose(1, 2).flatten(2)

    args = tuple(torch.randn(2, 5, 32) for _ in range(3))
    seen = see(f, *args, kernels=0, calls=1)
    want = f(*args)
    assert [t.stride() for t in seen.outs] == [t.stride() for t in want]
    assert order(seen.outs[0]) == (0, 2, 1, 3) and share(seen.outs[0], seen.outs[2])


def test_b118_loops_replayed_on_another_domain() -> None:
    """A split of a folded axis stays with it; a tensor without that axis does not see it; one chain on two domains of
    the same shape gives the same index."""
    chain = [SplitBy(1, 4), ReorderAxes((0, 2, 1))]
    loops = LoopDomain.of((6, 8), reduced=(1,)).apply(chain)
    assert [loops.payload(k).kind.name for k in range(3)] == ["ITERATION", "REDUCTION", "REDUCTION"]
    row, column = loops.index()
    assert {v.name for v in row.free}.isdisjoint({v.name for v in column.free})
    assert len(column.free) == 2 and len(row.free) == 1
    again = LoopDomain.of((6, 8), reduced=(1,)).apply(chain)
    assert loops.index() == again.index() and loops.extents == again.extents == (6, 4, 2)
    seen = {
        (row.evaluate(at), column.evaluate(at))
        for at in (
            dict(zip((next(iter(f.free)).name for f in loops.variables().values()), v, strict=True))
            for v in product(*map(range, loops.extents))
        )
    }
    assert seen == set(product(range(6), range(8)))


def test_b119_views_above_a_concatenation() -> None:
    def f(a, b):
        return torch.cat([x.view(6, 35).permute(1, 0).neg() for x in (a, b)], 1)

    seen = see(f, data(2, 3, 35), data(2, 3, 35, seed=1), kernels=1)
    assert seen.out.shape == (35, 12) and moves_least(seen)


def test_b120_a_sum_of_one_element() -> None:
    """Upstream rebuilds it as a view; eager's result is memory of its own."""
    seen = see(lambda x: x.sum(), data(1, 1, 1), kernels=1)
    assert not share(seen.args[0], seen.out)


def test_b121_a_sum_of_nothing() -> None:
    seen = see(lambda x: (x.sum(1), x.sum()), torch.empty(7, 0), kernels=1)
    assert torch.equal(seen.outs[0], torch.zeros(7)) and seen.outs[1].item() == 0
    assert see(lambda x: x.sum(1), torch.empty(0, 7), kernels=0).out.shape == (0,)


def test_b122_an_add_without_dimensions() -> None:
    seen = see(lambda a, b: a + b, torch.tensor(2.5), torch.tensor(3.0), kernels=1)
    assert seen.out.item() == 5.5


def test_b123_a_view_launches_nothing() -> None:
    seen = see(lambda x: x.view(-1), data(7, 33), kernels=0, alias=1)
    assert start_alike(seen.args[0], seen.out) and launched(seen) == []


def test_b124_a_sum_over_an_expanded_axis() -> None:
    seen = see(lambda x: x.expand(7, 5, 33).sum(1), data(7, 1, 33), kernels=1)
    assert torch.equal(seen.out, data(7, 33) * 5)
    assert fk.explore(lambda x: x.expand(1 << 20).sum(), torch.ones(1)).run().item() == 1 << 20
