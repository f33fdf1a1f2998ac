"""Captures are found again by path at each call, and what Python reads is guarded."""

import functools

import pytest
import torch
from torch import nn

from fusekit.errors import UnsupportedError
from fusekit.trace import Capture, Key, Looked, Recording, record
from tests.trace.replay import run_graph

SCALE = 2.0
TABLE = {"a": torch.ones(2), "b": torch.zeros(2)}
SHARED = [torch.ones(3)]


@pytest.fixture(autouse=True)
def _inference():
    with torch.no_grad():
        yield


class Jit:
    """Recordings by key, nothing shared: the least that a jit must do."""

    def __init__(self, fn):
        self.fn, self.key, self.known, self.recorded = fn, Key(), {}, 0

    def find(self, args, kwargs) -> Recording:
        looked: Looked = self.key.look(args, kwargs)
        if looked.key not in self.known:
            recording = record(self.fn, args, kwargs)
            self.recorded += 1
            self.key.learn(recording)
            looked = self.key.look(args, kwargs)
            self.known[looked.key] = recording
        return self.known[looked.key]

    def __call__(self, *args, **kwargs):
        return run_graph(self.find(args, kwargs), args, kwargs)


def agree(jit, *args):
    mine = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    return torch.equal(jit(*args), jit.fn(*mine))


def test_paths_are_what_a_person_would_write():
    net = nn.Sequential(nn.Linear(2, 2))
    recording = record(lambda x: net(x) * TABLE["a"], (torch.ones(2),))
    paths = [source.entry.path for source in recording.inputs if isinstance(source, Capture)]
    assert paths == ["net.0.weight", "net.0.bias", "TABLE['a']"]


def test_a_global_number(monkeypatch):
    jit = Jit(lambda x: x * SCALE)
    assert agree(jit, torch.ones(2)) and agree(jit, torch.ones(2)) and jit.recorded == 1
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert agree(jit, torch.ones(2)) and jit.recorded == 2


def test_a_number_in_a_dict_of_a_helper():
    config = {"s": 2.0}

    def helper(x):
        return x * config["s"]

    jit = Jit(lambda x: helper(x) + 1)
    assert agree(jit, torch.ones(2))
    config["s"] = -0.0
    assert agree(jit, torch.ones(2))
    config["s"] = 0.0
    assert torch.equal(torch.signbit(jit(-torch.ones(2)) - 1), torch.signbit(-torch.zeros(2)).logical_not())


def test_attributes_properties_and_methods():
    class Holder:
        def __init__(self):
            self._v = 2.0
            self.t = torch.ones(2)

        @property
        def v(self):
            return self._v

        def scaled(self, x):
            return x * self.v + self.t

    holder = Holder()
    for jit in (Jit(holder.scaled), Jit(lambda x: holder.scaled(x)), Jit(functools.partial(Holder.scaled, holder))):
        assert agree(jit, torch.ones(2))
        holder._v += 1
        assert agree(jit, torch.ones(2))
        holder.t = holder.t + 1
        assert agree(jit, torch.ones(2))


def test_a_key_chosen_by_a_list():
    chosen = ["a"]
    jit = Jit(lambda x: x + TABLE[chosen[0]])
    assert agree(jit, torch.ones(2))
    chosen[0] = "b"
    assert agree(jit, torch.ones(2))


def test_modules_change():
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.0), nn.LayerNorm(3))
    jit, x = Jit(net), torch.randn(2, 3)
    changes = (
        lambda: net.eval(),
        lambda: setattr(net[2], "eps", 1e-1),
        lambda: setattr(net[0], "weight", nn.Parameter(torch.zeros(3, 3))),
        lambda: setattr(net, "0", nn.Linear(3, 3, bias=False)),
        lambda: net.append(nn.ReLU()),
        lambda: net[0].register_forward_hook(lambda module, args, out: out * 2),
    )
    assert agree(jit, x) and agree(jit, x) and jit.recorded == 1
    for change in changes:
        change()
        assert agree(jit, x)


def test_tied_weights_untied_later():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(5, 4)
            self.h = nn.Linear(4, 5, bias=False)
            self.h.weight = self.e.weight

        def forward(self, i):
            return self.h(self.e(i))

    net = Tied()
    jit, i = Jit(net), torch.tensor([1, 2])
    assert agree(jit, i)
    net.h.weight = nn.Parameter(torch.randn(5, 4))
    assert agree(jit, i)


def test_an_argument_that_is_also_a_capture():
    def f(x):
        SHARED[0].add_(1)
        return x * SHARED[0]

    jit = Jit(f)
    for x in (SHARED[0], torch.ones(3), SHARED[0][:], torch.ones(3)):
        want_w = SHARED[0] + 1
        want = want_w * (want_w if x.data_ptr() == SHARED[0].data_ptr() else x)
        assert torch.equal(jit(x), want) and torch.equal(SHARED[0], want_w)
    SHARED.insert(0, torch.zeros(3))
    assert torch.equal(jit(torch.ones(3)), torch.ones(3))
    del SHARED[0]


def test_identity_of_arguments_is_seen():
    jit = Jit(lambda a, b: (a.add_(1), b.mul_(2), a is b))
    q = torch.ones(2)
    assert jit(q, torch.ones(2))[2] is False
    assert jit(q, q)[2] is True
    assert q.tolist() == [6.0, 6.0]


def test_ambient_state():
    jit = Jit(lambda a: a @ a)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert jit(torch.ones(2, 2)).dtype == torch.bfloat16
    assert jit(torch.ones(2, 2)).dtype == torch.float32


def test_keyword_and_nested_arguments():
    jit = Jit(lambda a, k=2.0, *, o=None: a * k if o is None else a * o["s"] + o["t"][0])
    a = torch.ones(2)
    for kwargs in ({}, {"k": 5}, {"o": {"s": 3, "t": (a,)}}, {"o": {"s": 4, "t": (a,)}}):
        assert torch.equal(jit(a, **kwargs), jit.fn(a, **kwargs))


def test_a_name_made_at_run_time():
    class Holder:
        _v = 2.0

    holder = Holder()
    holder._v = 3.0
    jit = Jit(lambda x: x * getattr(holder, "_" + "v"))
    assert agree(jit, torch.ones(2))
    holder._v = 4.0
    assert agree(jit, torch.ones(2))


def test_objects_called_without_a_name():
    class Scale:
        def __init__(self):
            self.by = torch.full((2,), 2.0)

        def __call__(self, x):
            return x * self.by * SCALE

    scale = Scale()
    jit = Jit(lambda x: scale(x))
    assert agree(jit, torch.ones(2))
    scale.by = torch.full((2,), 3.0)
    assert agree(jit, torch.ones(2))


def test_captured_views_meet_as_eager():
    base = torch.zeros(4)
    view = base[1:3]

    def f(x):
        view.add_(x)
        return base * 1

    jit = Jit(f)
    assert jit(torch.ones(2)).tolist() == [0, 1, 1, 0]
    assert jit(torch.ones(2)).tolist() == [0, 2, 2, 0]


def test_a_captured_iterator_is_refused():
    items = iter([1.0, 2.0])
    with pytest.raises(UnsupportedError, match="items is an iterator"):
        record(lambda x: x * next(items), (torch.ones(1),))


def test_a_capture_that_is_only_returned():
    assert Jit(lambda x: (x, TABLE["a"]))(torch.ones(1))[1] is TABLE["a"]


def test_an_optimiser_step():
    def make():
        torch.manual_seed(0)
        parameters = [nn.Parameter(torch.rand(3)) for _ in range(2)]
        for p in parameters:
            p.grad = torch.rand(3)
        optimiser = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
        optimiser.step()  # makes its state
        return parameters, optimiser

    (want, eager), (got, ours) = make(), make()
    eager.step()
    recording = record(lambda: ours.step() and None)
    paths = [source.entry.path for source in recording.inputs if isinstance(source, Capture)]
    assert "ours.state[Parameter 0]['momentum_buffer']" in paths and sum(p.endswith(".grad") for p in paths) == 2
    run_graph(recording, ())
    assert all(map(torch.equal, want, got))
