"""125 to 132: pads, concatenations and repeats beside other ops. Upstream moves ops about for it; what counts is that
one launch reads each byte once, and computes no element again that it need not."""

from __future__ import annotations

from math import prod

import torch
import torch.nn.functional as F

from tests.behaviours.seeing import Seen, data, moves_least, see, share


def computed(seen: Seen, op: str) -> int:
    """Elements that ops of this name compute in the last graph, whichever segment they are in."""
    graph = seen.x.graph
    found = [o for o in graph.ops() if graph.op(o).target.split(".")[1].rstrip("_") == op]
    assert found, f"no {op} in the graph"
    return sum(prod(graph.tensor(graph.results(o)[0]).shape) for o in found)


def test_b125_relu_and_add_before_a_concatenation() -> None:
    def f(a, b):
        return torch.cat([(a + b).relu(), b.relu()], 1)

    seen = see(f, data(7, 33), data(7, 33, seed=1), kernels=1)
    assert seen.out.shape == (7, 66) and moves_least(seen)


def test_b125_relu_and_add_before_a_pad() -> None:
    seen = see(lambda a, b: F.pad((a + b).relu(), (1, 2)), data(7, 33), data(7, 33, seed=1), kernels=1)
    assert seen.out.shape == (7, 36) and moves_least(seen)


def test_b126_a_broadcast_before_a_concatenation() -> None:
    """Along another axis, and along the axis that is joined; upstream stops there, with two segments."""

    def f(a, b):
        return torch.cat([a.unsqueeze(0).expand(4, 7, 33) + 1, b], 1)

    def along(a, b):
        return torch.cat([(a.unsqueeze(1) + 1).expand(7, 5, 33), b], 1)

    assert moves_least(see(f, data(7, 33), data(4, 2, 33, seed=1), kernels=1))
    assert moves_least(see(along, data(7, 33), data(7, 2, 33, seed=1), kernels=1))


def test_b127_a_value_padded_and_used_as_it_is() -> None:
    """Upstream moves the pad above an op only where all its uses are padded."""

    def covered(a):
        y = a.relu()
        return F.pad(y, (1, 1)), F.pad(y, (2, 0))

    def uncovered(a):
        y = a.relu()
        return F.pad(y, (1, 1)), y

    assert moves_least(see(covered, data(7, 33), kernels=1))
    assert moves_least(see(uncovered, data(7, 33), kernels=1))


def test_b128_pads_after_one_another() -> None:
    """Upstream makes one of two with equal values, and none of those with different ones, with the first returned, or
    with one that is negative."""
    for fn in (
        lambda x: F.pad(F.pad(x, (1, 2)), (3, 0), value=0.0),
        lambda x: F.pad(F.pad(x, (1, 2)), (3, 0), value=5.0),
        lambda x: F.pad(F.pad(x, (1, 2)), (-2, 3)),
        lambda x: F.pad(F.pad(x, (-1, -2)), (1, 2)),
    ):
        assert moves_least(see(fn, data(7, 33), kernels=1))

    def visible(x):
        y = F.pad(x, (1, 2))
        return y, F.pad(y, (3, 0))

    seen = see(visible, data(7, 33), kernels=1)
    assert not share(*seen.outs) and moves_least(seen)


def test_b129_a_split_joined_again() -> None:
    """Upstream gives the input back as an alias; eager gives memory of its own, so this is one copy."""
    in_order = see(lambda x: torch.cat(x.split(11, 1), 1), data(7, 33), kernels=1, copies=1)
    s = in_order.x.summary()
    assert s.kernels + s.copies == 1 and not share(in_order.args[0], in_order.out) and moves_least(in_order)
    for fn in (
        lambda x: torch.cat(x.split(11, 1)[::-1], 1),
        lambda x: torch.cat([x[:, 1:12], x[:, 12:30]], 1),
        lambda x: torch.cat(x.split(11, 1)[1:], 1),
    ):
        assert moves_least(see(fn, data(7, 33), kernels=1, copies=0))


def test_b129_a_split_joined_again_has_no_select() -> None:
    """In order it is the input: no element asks which part it comes from."""
    seen = see(lambda x: torch.cat(x.split(11, 1), 1) * 2, data(7, 33), kernels=1)
    targets = [seen.x.graph.op(op).target for op in seen.x.graph.ops()]
    assert "fk.overlay" not in targets and targets.count("fk.load") == 1


def test_b130_permutes_between_split_and_join() -> None:
    def alike(x):
        return torch.cat([part.permute(1, 0) for part in x.split(11, 1)], 0)

    def mixed(x):
        a, b, c = x.split(7, 1)
        return torch.cat([a.permute(1, 0), b, c.permute(1, 0)], 0)

    def wrong_axis(x):
        return torch.cat([part.permute(1, 0) for part in x.split(11, 1)], 1)

    def other_ops(x):
        a, b = x[:, :22].split(11, 1)
        return torch.cat([a.sin(), b.cos()], 1)

    for fn, shape in ((alike, (7, 33)), (mixed, (7, 21)), (wrong_axis, (7, 33)), (other_ops, (7, 33))):
        assert moves_least(see(fn, data(*shape), kernels=1))


def test_b131_cancelled_but_in_another_order() -> None:
    """One permuting launch, and no alias."""
    seen = see(lambda x: torch.cat(x.split(11, 1), 1).t().contiguous(), data(7, 33), kernels=1)
    assert not share(seen.args[0], seen.out) and seen.out.stride() == (7, 1) and moves_least(seen)


def test_b132_a_repeat_before_a_sine() -> None:
    """The sine is of the small tensor."""
    seen = see(lambda x: x.repeat(3, 1).sin(), data(7, 33), kernels=1)
    assert computed(seen, "sin") == 7 * 33


def test_b132_a_repeat_of_slices() -> None:
    def rotated(x):
        half = torch.cat([-x[:, 16:], x[:, :16]], 1)
        return (x + half).repeat(1, 2)

    seen = see(rotated, data(7, 32), kernels=1)
    assert seen.out.shape == (7, 64) and moves_least(seen)
