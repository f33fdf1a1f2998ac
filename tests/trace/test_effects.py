"""Nothing that a function can reach changes while it is recorded."""

import random

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fusekit.errors import UnsupportedError
from fusekit.trace import record
from tests.trace.replay import photograph

WEIGHT = torch.ones(3)
SQUARE = torch.ones(3, 2)
STATE = {"k": torch.ones(3), "n": 0}
SEEN: list[object] = []
COUNT = 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("total", torch.zeros(3))
        self.plain = torch.ones(3)
        self.calls = 0

    def forward(self, x):
        y = F.dropout(self.norm(self.layer(x)), 0.5, self.training)
        self.total += y.sum(0)
        self.plain.mul_(2)
        return y


class Counting(Net):
    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g


NET, COUNTING = Net(), Counting()
HOOKED = nn.Linear(3, 3)
HOOKED.register_forward_hook(lambda module, args, out: out * 2)


def captured_in_place(a):
    WEIGHT.add_(1)
    WEIGHT[0] = 5
    WEIGHT.copy_(a)
    return WEIGHT * 2


def captured_metadata(a):
    SQUARE.t_()
    return SQUARE.sum() + a


def through_data(a):
    WEIGHT.data.mul_(2)
    return WEIGHT.detach().mul_(2) + a


def in_a_dict(a):
    STATE["k"].add_(a)
    return STATE["k"] * 1


def argument_views(a):
    view = a[1:]
    view.add_(1)
    view.mul_(view.view(-1))
    return a, view.unsqueeze(0)


def random_draws(a):
    return F.dropout(a, 0.5) + torch.rand(3) + torch.randn_like(a) + torch.bernoulli(a.sigmoid())


def out_arguments(a):
    out = torch.empty(3)
    torch.exp(a, out=out)
    torch.add(a, out, out=WEIGHT)
    return out


def without_grad(a):
    with torch.no_grad():
        b = a * 2
        b[1:].mul_(3)
    return b.view(-1)


def autocast_inside(a):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (a.view(1, 3) @ a.view(3, 1)).float()


def masked(a):
    a[a > 0] = 0.0
    a += 1
    return a


def module_call(a):
    return NET(a.expand(4, 3))


def hooked_module(a):
    return HOOKED(a)


def marked_dirty(a):
    return Doubled.apply(a) + 1


def appends(a):
    SEEN.append(a * 2)
    return a + 1


def counts(a):
    global COUNT
    COUNT += 1
    return a + COUNT


def writes_a_dict(a):
    STATE["n"] += 1
    STATE["new"] = a
    return a


def sets_attributes(a):
    return COUNTING(a.expand(4, 3))


def rebinds(a):
    global WEIGHT
    WEIGHT = WEIGHT + a
    return WEIGHT


def seeds(a):
    torch.manual_seed(0)
    return torch.rand(3) + a


def python_random(a):
    return a * random.random()


def sets_data(a):
    WEIGHT.data = a
    return WEIGHT


def sets_grad(a):
    a.grad = torch.ones_like(a)
    return a


def wants_grad(a):
    a.requires_grad_()
    return a * 2


RECORDED = (
    captured_in_place, captured_metadata, through_data, in_a_dict, argument_views, random_draws, out_arguments,
    without_grad, autocast_inside, masked, module_call, hooked_module,
)  # fmt: skip
REFUSED = (
    marked_dirty, appends, counts, writes_a_dict, sets_attributes, rebinds, seeds, python_random, sets_data, sets_grad,
    wants_grad,
)  # fmt: skip


def reachable():
    modules = [t for m in (NET, COUNTING, HOOKED) for t in (*m.parameters(), *m.buffers())]
    return [WEIGHT, SQUARE, STATE["k"], NET.plain, COUNTING.plain, *modules]


def state():
    return list(SEEN), COUNT, dict(STATE), COUNTING.calls, id(WEIGHT)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("fn", [*RECORDED, *REFUSED], ids=lambda fn: fn.__name__)
def test_nothing_changes(fn, grad):
    a = torch.randn(3)
    before, python = photograph([a, *reachable()]), state()
    with torch.set_grad_enabled(grad):
        try:
            recording = record(fn, (a,))
        except UnsupportedError:
            recording = None
    assert photograph([a, *reachable()]) == before
    assert state() == python
    if not grad:
        assert (recording is not None) == (fn in RECORDED)


@pytest.mark.parametrize(
    ("fn", "named"),
    [
        (appends, "SEEN"),
        (counts, "'COUNT'"),
        (writes_a_dict, "'n'"),
        (sets_attributes, "'calls'"),
        (seeds, "generator"),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_effects_are_named(fn, named):
    with torch.no_grad(), pytest.raises(UnsupportedError, match=named):
        record(fn, (torch.zeros(3),))


def test_argument_containers_are_put_back():
    def f(ts):
        ts.append(ts[0] * 2)
        return ts[0]

    ts = [torch.zeros(2)]
    with pytest.raises(UnsupportedError, match="an argument"):
        record(f, (ts,))
    assert len(ts) == 1


def test_a_swallowed_refusal_is_still_raised():
    def f(a):
        try:
            return a * a.sum().item()
        except RuntimeError:
            return a

    with pytest.raises(UnsupportedError, match="needs tensor data"):
        record(f, (torch.ones(2),))


def test_an_error_of_the_user_comes_through():
    def f(a):
        a.add_(1)
        raise KeyError("mine")

    a = torch.zeros(2)
    with pytest.raises(KeyError, match="mine"):
        record(f, (a,))
    assert a.tolist() == [0, 0] and a._version == 0


class Counter:
    __slots__ = ("count",)

    def __init__(self):
        self.count = 1


COUNTER, ARRAY, RAW, HELD = Counter(), numpy.ones(2), bytearray(b"ab"), torch.ones(2)


def count_up(x):
    COUNTER.count += 1
    return x * COUNTER.count


def write_array(x):
    ARRAY[0] += 1
    return x * 1


def write_bytes(x):
    RAW.append(RAW[0])
    return x * 1


def mark_argument(x):
    x.note = 1
    return x * 1


def mark_capture(x):
    HELD.note = 1
    return x * HELD


@pytest.mark.parametrize(
    ("fn", "what"),
    [
        (count_up, "count changed"),
        (write_array, "ndarray changed"),
        (write_bytes, "bytearray changed"),
        (mark_argument, "'note' changed"),
        (mark_capture, "'note' changed"),
    ],
)
def test_objects_of_any_kind_are_put_back(fn, what):
    x = torch.ones(2)
    with pytest.raises(UnsupportedError, match=what):
        record(fn, (x,))
    assert COUNTER.count == 1 and ARRAY.tolist() == [1, 1] and RAW == b"ab"
    assert not hasattr(x, "note") and not hasattr(HELD, "note")


def test_an_attribute_of_an_argument_tensor_is_refused():
    x = torch.ones(2)
    x.scale = 3
    with pytest.raises(UnsupportedError, match="scale"):
        record(lambda x: x * x.scale, (x,))
    record(lambda x: x * 2, (x,))
