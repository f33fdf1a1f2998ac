"""70 to 91: what runs together. Counts are the most that may be launched; a cut forces a boundary."""

from __future__ import annotations

import torch

import fusekit as fk
from tests.behaviours.seeing import data, launched, moves_least, see, share

HALF = torch.bfloat16


def targets(seen, segment: int) -> list[str]:
    """Ops of the segment with this number among those with a kernel."""
    return [seen.x.graph.op(op).target for op in launched(seen)[segment].ops]


def casts(seen) -> int:
    return sum(name in ("fk.cast", "aten._to_copy.default") for name in targets(seen, 0))


def test_b070_two_adds_that_share_nothing() -> None:
    seen = see(lambda a, b: (a + 1, b + 1), data(7, 33), data(70), kernels=2)
    assert moves_least(seen)


def test_b071_one_input_under_two_ranks() -> None:
    def f(x, y, z):
        return x + y, x.unsqueeze(0) + z

    seen = see(f, data(3, 7, 33), data(3, 7, 33, seed=1), data(5, 3, 7, 33, seed=2), kernels=2)
    assert not share(*seen.outs)


def test_b072_a_cut_between_two_ops() -> None:
    seen = see(lambda x: fk.cut(x.relu()).neg(), data(7, 33), kernels=2, forced=True)
    assert targets(seen, 1) == ["fk.load", "aten.neg.default", "fk.store"]
    assert "fk.cut" in str(seen.x.why("$0", "$1"))


def test_b073_a_cut_output_with_users() -> None:
    def f(x):
        y = fk.cut(x + 1)
        return y, y * 2

    seen = see(f, data(7, 33), kernels=2, forced=True)
    assert not share(*seen.outs)


def test_b074_a_softmax_cut_before_the_division() -> None:
    def f(x):
        e = x.exp()
        return e / fk.cut(e.sum(1, keepdim=True))

    see(f, data(7, 33), kernels=2, forced=True)


def test_b075_a_boundary_with_gaps_then_a_view() -> None:
    def f(x):
        y = torch.empty(8, 40)[:7, :33]
        y.copy_(x * 2)
        return fk.cut(y).unflatten(1, (3, 11)) + 1

    seen = see(f, data(7, 33), kernels=2, forced=True)
    assert torch.equal(seen.out, (data(7, 33) * 2).unflatten(1, (3, 11)) + 1)


def test_b076_a_cut_at_the_end_costs_nothing() -> None:
    seen = see(lambda a, b: fk.cut(a.relu().neg() + b.abs().sqrt()), data(7, 33), data(7, 33), kernels=1, forced=True)
    assert moves_least(seen)


def test_b077_unary_chains_to_outputs() -> None:
    """Upstream may not forward them: there is no consumer, and groups would be left empty (#1813)."""
    seen = see(lambda a: (a.relu().neg(), a.abs().neg().exp()), data(7, 33), kernels=1)
    assert moves_least(seen)


def test_b078_a_unary_op_then_a_slice() -> None:
    """Upstream leaves the first op out where its scheduler refuses the pair; here it reads just the slice."""
    seen = see(lambda x: x.neg()[:, 3:9] + 1, data(7, 33), kernels=1)
    assert moves_least(seen)


def test_b079_one_op_under_two_sums() -> None:
    """Upstream runs it once in either segment. Never is it written to memory."""

    def f(x):
        n = x.neg()
        return n.sum(0), n.sum(1)

    seen = see(f, data(37, 33), kernels=2)
    assert all(len(s.writes) == 1 for s in launched(seen)) or len(launched(seen)) == 1
    assert seen.x.summary().bytes_moved <= 2 * 37 * 33 * 4 + (37 + 33) * 4


def test_b080_a_value_added_to_itself() -> None:
    """Upstream met the two uses as two merges (#1970)."""

    def f(x):
        t = x.neg()
        return t + t

    seen = see(f, data(7, 33), kernels=1)
    assert targets(seen, 0).count("fk.load") == 1 and moves_least(seen)


def test_b081_three_sums_after_one_another() -> None:
    """Upstream needs three segments; what is summed is two axes of an input in another order."""

    def f(x):
        return x.sum(0).sum(0) + x.sum((0, 1))

    seen = see(f, data(33, 7, 5).permute(1, 2, 0), kernels=3)
    for segment in launched(seen):
        shapes = [seen.x.graph.tensor(t).shape for t in segment.reads]
        assert all(1 not in shape for shape in shapes), "a folded axis crosses no boundary"


def test_b082_the_written_argument_was_cut() -> None:
    def f(x):
        y = fk.cut(x + 1)
        x.copy_(y)
        return y * 2

    seen = see(f, data(7, 33), kernels=2, forced=True)
    assert torch.equal(seen.args[0], data(7, 33) + 1) and torch.equal(seen.out, (data(7, 33) + 1) * 2)


def test_b083_two_cuts_of_one_value() -> None:
    def f(x):
        y = x + 1
        return fk.cut(y) + fk.cut(y)

    see(f, data(7, 33), kernels=2, forced=True)


def test_b084_a_returned_value_cut_and_used() -> None:
    """Upstream forwarded it into a segment that launches nothing (#2658)."""

    def f(x):
        y = x.relu()
        return y, fk.cut(y) + 1, y * 2

    seen = see(f, data(7, 33), kernels=2, forced=True)
    assert not share(*seen.outs)


def test_b085_a_cast_under_sums_over_two_axes() -> None:
    """Upstream makes three segments; each kernel here reads the half precision, once."""

    def f(x):
        y = x.float()
        return y.sum(0), y.sum(1)

    seen = see(f, data(37, 33, dtype=HALF), kernels=2)
    assert seen.x.summary().bytes_moved <= 2 * 37 * 33 * 2 + (37 + 33) * 4


def test_b086_a_squeeze_and_a_cast_under_sums_over_two_axes() -> None:
    """Upstream makes three segments."""

    def f(x):
        y = x.squeeze(1).float()
        return y.sum(0), y.sum(1)

    seen = see(f, data(37, 1, 33, dtype=HALF), kernels=2)
    assert seen.x.summary().bytes_moved <= 2 * 37 * 33 * 2 + (37 + 33) * 4


def test_b087_a_cast_under_two_sums_over_one_axis() -> None:
    """Upstream makes two segments with one cast; here one kernel reads it once."""

    def f(x):
        y = x.float()
        return y.sum(1), (y + 1).sum(1)

    seen = see(f, data(37, 33, dtype=HALF), kernels=1)
    assert casts(seen) == 1 and moves_least(seen)


def test_b088_a_squeeze_and_a_cast_under_two_sums_over_one_axis() -> None:
    """Upstream makes two segments with one cast and one squeeze."""

    def f(x):
        y = x.squeeze(1).float()
        return y.sum(1), (y + 1).sum(1)

    seen = see(f, data(37, 1, 33, dtype=HALF), kernels=1)
    assert casts(seen) == 1 and moves_least(seen)


def test_b089_a_constant_on_both_sides_of_a_cut() -> None:
    """Each kernel has its own; none is in memory."""

    def f(x):
        full = torch.full((7, 33), 3.0)
        return fk.cut(x + full) * full

    seen = see(f, data(7, 33), kernels=2, forced=True)
    assert [targets(seen, k).count("fk.fill") for k in (0, 1)] == [1, 1]
    assert seen.x.summary().bytes_moved == 4 * 7 * 33 * 4


def test_b090_a_view_with_the_extents_of_another_input() -> None:
    """Upstream makes three segments."""
    seen = see(lambda x, y: x.relu().view(y.shape) + y, data(7, 30), data(35, 6, seed=1), kernels=1)
    assert moves_least(seen)


# ---- issues of the upstream segmenter


def test_i3829_siblings_of_one_input() -> None:
    """Upstream never merges siblings: three segments."""
    seen = see(lambda x: (x.sin(), x.cos(), fk.cut(x)), data(7, 33), kernels=1)
    assert seen.outs[2] is seen.args[0] and moves_least(seen)


def test_i3096_a_cut_adds_one_launch() -> None:
    """Upstream gives up its attempt at the whole program at the first hint, and ends with more segments than asked."""

    def f(a, b, boundary):
        y = (a.relu() + b).softmax(1)
        y = fk.cut(y) if boundary else y
        return (y * 2 - b).sum(1), y.neg()

    args = data(7, 33), data(7, 33, seed=1)
    without, cut = see(f, *args, False, kernels=1), see(f, *args, True, kernels=2, forced=True)
    assert len(without.outs) == len(cut.outs)


def test_i3251_an_in_place_write_beside_a_broadcast() -> None:
    """Upstream gives the write a segment of its own, three in all; one kernel does."""

    def f(x, y):
        x.add_(1)
        return y * x.sum(1, keepdim=True)

    seen = see(f, data(37, 33), data(37, 5, seed=1), kernels=2)
    assert torch.equal(seen.args[0], data(37, 33) + 1)
