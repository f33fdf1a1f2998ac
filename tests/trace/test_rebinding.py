"""Whatever the function read through Python is in the key: changing it at any level changes the key, or is refused."""

import argparse
import array
import contextvars
import dataclasses
import functools
import operator
import os
import random
import threading
import types

import numpy as np
import pytest
import torch

from fusekit.errors import UnsupportedError
from fusekit.trace import Key, predicate_of, record

X = torch.ones(4)


class Plain:
    shared = 1

    def __init__(self, k=1):
        self.k = k

    def times(self, x):
        return x * self.k

    @property
    def seen(self):
        return self.k

    @staticmethod
    def constant():
        return 1


class Derived(Plain):
    pass


class Slotted:
    __slots__ = ("__dict__", "k")

    def __init__(self, k=1):
        self.k = k


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: int = 1


class Layer(torch.nn.Module):
    eps = 1

    def __init__(self):
        super().__init__()
        self.cfg, self.items, self.table = Plain(), [1], {"k": 1}
        self.cached = None

    def forward(self, x):
        return x * self.cfg.k * self.items[0] * self.table["k"] * self.eps


cfg, held, table = Plain(), [Plain()], {"o": Plain()}
window, some, names = range(2), slice(0, 1), frozenset((1,))
scalar, numbers, raw, packed = np.float32(1), np.ones(2, np.float32), bytearray(b"a"), array.array("i", [1])
members, order, maybe = {1, 2}, {"a": 1, "b": 2}, torch.ones(4)
space, options = types.SimpleNamespace(k=1, o=Plain()), argparse.Namespace(k=1)
slotted, frozen, derived, layer = Slotted(), Frozen(), Derived(), Layer()
proxied = types.MappingProxyType(table)


def scaled(x, k=1, *, by=1):
    return x * k * by


def twice(x):
    return x * 2


def differs(fn, change, *args):
    """Does ``change`` change what both kinds of key say? It does for every change of what ``fn`` read."""
    args = args or (X,)
    with torch.no_grad():
        recording, key = record(fn, args), Key()
        key.learn(recording)
        predicate = predicate_of(key, recording, args, {})
        before = key.look(args, {}).key
        assert before == key.look(args, {}).key
        assert predicate is None or predicate(args) is not None
        change()
        return before != key.look(args, {}).key and (predicate is None or predicate(args) is None)


def swap_code(fn):
    def other(x, k=1, *, by=1):
        return x

    fn.__code__ = other.__code__


def reorder():
    order["a"] = order.pop("a")


CHANGES = {
    "global object": (lambda x: x * cfg.k, lambda m: m.setitem(globals(), "cfg", Plain(6))),
    "attribute of an object": (lambda x: x * cfg.k, lambda m: m.setattr(cfg, "k", 6)),
    "item of a list": (lambda x: x * held[0].k, lambda m: operator.setitem(held, 0, Plain(6))),
    "item of a dict": (lambda x: x * table["o"].k, lambda m: m.setitem(table, "o", Plain(6))),
    "item through a proxy": (lambda x: x * proxied["o"].k, lambda m: m.setitem(table, "o", Plain(6))),
    "module attribute": (layer, lambda m: m.setattr(layer, "cfg", Plain(6))),
    "module list": (layer, lambda m: m.setattr(layer, "items", [1])),
    "module dict": (layer, lambda m: m.setattr(layer, "table", {"k": 1})),
    "class attribute shadowed": (layer, lambda m: m.setattr(layer, "eps", 6)),
    "forward patched": (layer, lambda m: m.setattr(layer, "forward", lambda x: x)),
    "attribute of a class shadowed": (lambda x: x * derived.shared, lambda m: m.setattr(Derived, "shared", 6)),
    "class of an object": (lambda x: x * derived.shared, lambda m: m.setattr(derived, "__class__", Plain)),
    "method replaced": (lambda x: cfg.times(x), lambda m: m.setattr(Plain, "times", lambda s, x: x)),
    "method shadowed": (lambda x: cfg.times(x), lambda m: m.setattr(cfg, "times", lambda x: x)),
    "property replaced": (lambda x: x * cfg.seen, lambda m: m.setattr(Plain, "seen", property(lambda s: 6))),
    "static method": (lambda x: x * Plain.constant(), lambda m: m.setattr(Plain, "constant", staticmethod(int))),
    "getattr": (lambda x: x * getattr(cfg, "zz", 1), lambda m: m.setattr(cfg, "zz", 6, raising=False)),
    "hasattr": (lambda x: x * (6 if hasattr(cfg, "zz") else 1), lambda m: m.setattr(cfg, "zz", 6, raising=False)),
    "hasattr of a class": (lambda x: x * hasattr(Plain, "z"), lambda m: m.setattr(Plain, "z", 6, raising=False)),
    "namespace": (lambda x: x * space.k, lambda m: m.setattr(space, "k", 6)),
    "object in a namespace": (lambda x: x * space.o.k, lambda m: m.setattr(space.o, "k", 6)),
    "argparse": (lambda x: x * options.k, lambda m: m.setattr(options, "k", 6)),
    "range": (lambda x: x * len(window), lambda m: m.setitem(globals(), "window", range(6))),
    "slice": (lambda x: x[some] * 1, lambda m: m.setitem(globals(), "some", slice(1, 2))),
    "frozenset": (lambda x: x * len(names), lambda m: m.setitem(globals(), "names", frozenset((1, 2)))),
    "NumPy scalar": (lambda x: x * float(scalar), lambda m: m.setitem(globals(), "scalar", np.float32(6))),
    "NumPy array": (lambda x: x * float(numbers[0]), lambda m: operator.setitem(numbers, 0, 6)),
    "bytearray": (lambda x: x * raw[0], lambda m: operator.setitem(raw, 0, 6)),
    "array": (lambda x: x * packed[0], lambda m: operator.setitem(packed, 0, 6)),
    "set": (lambda x: x * sum(members), lambda m: members.add(9)),
    "order of a dict": (lambda x: x * next(iter(order.values())), lambda m: reorder()),
    "key of a dict": (lambda x: x * order.get("z", 1), lambda m: m.setitem(order, "z", 6)),
    "slot": (lambda x: x * slotted.k, lambda m: m.setattr(slotted, "k", 6)),
    "frozen dataclass": (lambda x: x * frozen.k, lambda m: m.setitem(globals(), "frozen", Frozen(6))),
    "defaults": (lambda x: scaled(x), lambda m: m.setattr(scaled, "__defaults__", (6,))),
    "keyword defaults": (lambda x: scaled(x), lambda m: m.setattr(scaled, "__kwdefaults__", {"by": 6})),
    "code": (lambda x: twice(x), lambda m: m.setattr(twice, "__code__", (lambda x: x).__code__)),
    "builtin shadowed": (lambda x: x * len(held), lambda m: m.setitem(globals(), "len", lambda _: 6)),
    "a tensor that only was there": (lambda x: x * (maybe is None), lambda m: m.setitem(globals(), "maybe", None)),
    "environment": (lambda x: x * len(os.environ.get("FK_T", "")), lambda m: m.setenv("FK_T", "six")),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_at_any_level_is_seen(name, monkeypatch):
    fn, change = CHANGES[name]
    assert differs(fn, lambda: change(monkeypatch))


def test_what_the_function_did_not_read_is_free(monkeypatch):
    assert not differs(lambda x: x * cfg.k, lambda: monkeypatch.setattr(layer, "cfg", Plain(6)))
    assert not differs(lambda x: x * 2, lambda: monkeypatch.setattr(cfg, "k", 6))


def test_places_of_objects_that_are_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr("fusekit.trace.guards._MOST_PLACES", 8)
    key, seen = Key(), set()
    for k in range(40):
        monkeypatch.setitem(globals(), "cfg", Plain(k))
        key.learn(record(lambda x: x * cfg.k, (X,)))
        seen.add(key.look((X,), {}).key)
    assert len(seen) == 40 and len(key.values) < 80


local, variable = threading.local(), contextvars.ContextVar("variable", default=1)
local.k = 1
die, generator = random.Random(0), np.random.default_rng(0)
objects, large = np.array([None, 1]), np.ones(1 << 20)


@functools.lru_cache
def cached(n):
    return torch.ones(n)


UNGUARDED = {
    "threading.local": lambda x: x * local.k,
    "ContextVar": lambda x: x * variable.get(),
    "globals()": lambda x: x * globals()["cfg"].k,
    "random state": lambda x: x * die.random(),
    "its random state": lambda x: x * float(generator.random()),
    "array": lambda x: x * objects[1],
    "bytes": lambda x: x * float(large[0]),
    "cache": lambda x: x * cached(4),
}


@pytest.mark.parametrize("name", UNGUARDED)
def test_what_no_key_can_compare_is_refused_by_name(name):
    states = die.getstate(), generator.bit_generator.state
    with pytest.raises(UnsupportedError, match=name.replace("(", r"\(").replace(")", r"\)")) as caught:
        record(UNGUARDED[name], (X,))
    assert "test_rebinding.py" in str(caught.value)
    assert states == (die.getstate(), generator.bit_generator.state) and cached.cache_info().currsize == 0
