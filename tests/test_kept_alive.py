"""What a callable keeps: nothing of its callers', and no more plans, kernels and recordings than it may."""

import dataclasses
import gc
import sys
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch

import fusekit as fk
import fusekit.jit
from fusekit.run import compile as compiler

jit_room = sys.modules["fusekit.jit"]
Refs = list[weakref.ref]
WAYS: dict[str, Callable[[], Iterator[torch.Tensor]]] = {}
AGAIN, TIMES = 6, 3


def way(function: Callable[[], Iterator[torch.Tensor]]) -> Callable[[], Iterator[torch.Tensor]]:
    """A use that gives tensors, each of which nobody should hold any more when the next one comes."""
    WAYS[function.__name__] = function
    return function


def _new(k: int = 0) -> torch.Tensor:
    return torch.randn(4 + k)


@way
def new_tensors_and_strings() -> Iterator[torch.Tensor]:
    g = fk.jit(lambda a, s: a * 2 + 1)
    for k in range(AGAIN):
        a = _new()
        for _ in range(TIMES):
            g(a, str(k))
        yield a


@way
def new_numbers_and_shapes() -> Iterator[torch.Tensor]:
    g = fk.jit(lambda a, k: a * k + 1)
    for k in range(AGAIN):
        a = _new(k)
        g(a, k), g(a, k + 1), g(a, k + 0.5)
        yield a


@way
def in_place_and_overlapping() -> Iterator[torch.Tensor]:
    g = fk.jit(lambda a, b: a.add_(b))
    for k in range(AGAIN):
        a = _new(k)
        for _ in range(TIMES):
            g(a, a), g(a[:2], a[2:4])
        yield a


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(_new())
        self.sub = torch.nn.Linear(4, 4)
        self.parent = [self]  # a cycle

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return self.sub(a) * self.w


@way
def parameters_that_are_replaced() -> Iterator[torch.Tensor]:
    net = Net()
    g = fk.jit(net)
    for _ in range(AGAIN):
        for _ in range(TIMES):
            g(_new())
        old, net.w = net.w, torch.nn.Parameter(_new())
        yield old


@way
def modules_that_are_replaced() -> Iterator[torch.Tensor]:
    net = Net()
    g = fk.jit(net)
    for _ in range(AGAIN):
        for _ in range(TIMES):
            g(_new())
        old, net.sub = net.sub.weight, torch.nn.Linear(4, 4)
        yield old


@way
def modules_as_arguments() -> Iterator[torch.Tensor]:
    g = fk.jit(lambda net, a: net(a))
    for _ in range(AGAIN):
        net = Net()
        for _ in range(TIMES):
            g(net, _new())
        yield net.w
        del net


class Holder:
    def __init__(self) -> None:
        self.t, self.some, self.me = _new(), {"x": _new()}, self

    @fk.jit
    def times(self, a: torch.Tensor) -> torch.Tensor:
        return self.t * a + self.some["x"]


@way
def objects_as_arguments() -> Iterator[torch.Tensor]:
    g = fk.jit(lambda o, a: o.t * a + o.some["x"])
    for k in range(AGAIN):
        o = Holder()
        for _ in range(TIMES):
            g(o, _new())
        yield o.t if k % 2 else o.some["x"]
        del o


@way
def methods() -> Iterator[torch.Tensor]:
    for _ in range(AGAIN):
        o = Holder()
        for _ in range(TIMES):
            o.times(_new())
        yield o.t
        del o


@way
def closures_as_arguments() -> Iterator[torch.Tensor]:
    def times(t: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda a: a * t

    g = fk.jit(lambda f, a: f(a))
    for _ in range(AGAIN):
        t = _new()
        f = times(t)
        for _ in range(TIMES):
            g(f, _new())
        yield t
        del f


@way
def closure_cells() -> Iterator[torch.Tensor]:
    held = _new()
    g = fk.jit(lambda a: a * held)
    for _ in range(AGAIN):
        for _ in range(TIMES):
            g(_new())
        old, held = held, _new()
        yield old


@way
def containers_as_arguments() -> Iterator[torch.Tensor]:
    g = fk.jit(lambda d, some: d["x"] * some[0])
    for _ in range(AGAIN):
        d, some = {"x": _new()}, [_new()]
        for _ in range(TIMES):
            g(d, some)
        yield d["x"]
        del d, some


@pytest.mark.parametrize("name", WAYS)
def test_nothing_of_the_callers_is_kept_alive(name: str) -> None:
    """While the callable lives: the use waits at its last tensor, which it still holds itself."""
    with torch.no_grad():
        uses = WAYS[name]()
        refs: Refs = [weakref.ref(next(uses)) for _ in range(AGAIN)]
        gc.collect()
        assert [ref() is not None for ref in refs[:-1]] == [False] * (AGAIN - 1)
        uses.close()


@dataclasses.dataclass(slots=True)
class Slots:
    t: torch.Tensor


def test_of_objects_without_weak_references_the_last_is_kept() -> None:
    g = fk.jit(lambda s, a: s.t * a)

    def use() -> weakref.ref:
        s = Slots(_new())
        right = [torch.equal(g(s, torch.ones(4)), s.t) for _ in range(TIMES)]
        assert all(right)
        return weakref.ref(s.t)

    refs = [use() for _ in range(AGAIN)]
    assert sum(ref() is not None for ref in refs) <= 1


def test_another_object_at_the_same_address_is_another_object() -> None:
    """A key names objects by what no other one ever has: an address comes again."""
    g = fk.jit(lambda s, o, a: a[s] * (2 if type(o) is Holder else 3) + len(vars(o)))
    for k in range(40):
        o = Holder() if k % 3 else Net()
        o.more = dict.fromkeys(range(k % 2), 0)
        s = slice(0, k % 4)
        a = torch.ones(4)
        assert torch.equal(g(s, o, a), a[s] * (2 if type(o) is Holder else 3) + len(vars(o)))
        del o, s


class Scale:
    __slots__ = ("by", "t")

    def __call__(self, a: torch.Tensor) -> torch.Tensor:
        return a * self.by + self.t


def test_a_callable_without_weak_references_is_guarded() -> None:
    scale = Scale()
    scale.by, scale.t = 2, torch.ones(3)
    g = fk.jit(scale)
    for k in range(6):
        scale.by, scale.t = k // 2, torch.full((3,), float(k))
        assert torch.equal(g(torch.ones(3)), scale(torch.ones(3)))


def test_an_object_that_lives_is_found_again_after_others_died() -> None:
    g, o = fk.jit(lambda o, a: o.t * a), Holder()
    for _ in range(4):
        g(Holder(), torch.ones(4))
    for _ in range(3):
        g(o, torch.ones(4))
    before = g.cache_info().recordings
    for _ in range(5):
        g(o, torch.ones(4))
    assert g.cache_info().recordings == before


def test_a_users_exploration_holds_its_arguments() -> None:
    x = fk.explore(lambda a: a * 2, torch.ones(3))
    gc.collect()
    assert x.run().tolist() == [2, 2, 2]


def test_plans_and_patterns_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_room, "PLANS", 3)
    monkeypatch.setattr(jit_room, "LAYOUTS", 4)
    g = fk.jit(lambda a: a * 7 + 5)
    kernels = len(compiler._COMPILED)
    for k in range(1, 9):
        g(torch.ones(k, 2 + k))
    gc.collect()
    assert g.cache_info().plans == 3
    assert len(g._patterns) == 4
    assert len(compiler._COMPILED) - kernels <= 3  # a kernel goes with its plan


@pytest.mark.parametrize("how", ["the callable dies", "clear_cache"])
def test_kernels_are_dropped(how: str, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("FUSEKIT_CACHE", str(tmp_path))
    g = fk.jit(lambda a: a * 11 + 13)
    g(torch.ones(3)), g(torch.ones(3))
    mine = [weakref.ref(function) for function in compiler._COMPILED.values()]
    kept = [weakref.ref(plan) for plans in g._kept.values() for plan in plans]
    if how == "clear_cache":
        fk.clear_cache()
        assert g.cache_info().plans == 0 and not list(tmp_path.glob("cpu-*"))
        assert torch.equal(g(torch.ones(3)), torch.ones(3) * 24)
        assert g.cache_info().recordings == 2
    else:
        del g
    gc.collect()
    assert mine and not any(ref() is not None for ref in kept)
