"""Results of every kind that holds tensors: at each call eager's, made anew, or refused by name."""

import array
import collections
import functools
import types
import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils._pytree import register_pytree_node

import fusekit as fk
from fusekit.errors import UnsupportedError


@dataclass
class Plain:
    x: torch.Tensor
    n: int = 3


@dataclass(frozen=True)
class Frozen:
    x: torch.Tensor
    parts: tuple


@dataclass(slots=True)
class Slotted:
    x: torch.Tensor
    later: Any = field(init=False)


@dataclass(frozen=True, slots=True)
class FrozenSlotted:
    x: torch.Tensor


class Pair(NamedTuple):
    x: torch.Tensor
    name: str


class Thing:
    kind = "thing"

    def __init__(self, x):
        self.x, self.seen = x, [x, 1]

    def twice(self):
        return self.x * 2


class Slots(Thing):
    __slots__ = ("__y", "z")

    def __init__(self, x):
        super().__init__(x)
        self.__y = x + 1

    def y(self):
        return self.__y


class Bag(dict):
    pass


class Row(list):
    pass


class Point(tuple):
    pass


@dataclass
class Output(collections.OrderedDict):
    """As the outputs of well-known models: a mapping whose items are its fields, too."""

    x: torch.Tensor
    y: torch.Tensor

    def __post_init__(self):
        super().__setitem__("x", self.x)
        super().__setitem__("y", self.y)


class Registered:
    def __init__(self, x):
        self.x, self.extra = x, "kept"


register_pytree_node(Registered, lambda r: ([r.x], None), lambda parts, _: Registered(parts[0]))


def slotted(x):
    out = Slotted(x)
    out.later = [out, x]
    return out


def cyclic(x):
    items = [x]
    pair = (items, x)
    items.append(pair)
    items.append(items)
    return pair


def counter(x):
    count = 0

    def step():
        nonlocal count
        count += 1
        return x + count

    def total():
        return count

    return step, total


def tagged(kind, value, x):
    out = kind(value)
    out.tag = x
    return out


REBUILT = {
    "a dataclass": Plain,
    "a frozen dataclass": lambda x: Frozen(x, (x, Plain(x + 1))),
    "slots and a field that is no argument": slotted,
    "frozen with slots": FrozenSlotted,
    "a named tuple": lambda x: Pair(x, "n"),
    "an object": Thing,
    "an object with private slots": Slots,
    "nested objects": lambda x: Thing(Thing([Plain(x)])),
    "a namespace": lambda x: types.SimpleNamespace(x=x, y=[x]),
    "a set": lambda x: {x},
    "a frozenset": lambda x: frozenset([x, Frozen(x, ())]),
    "a deque": lambda x: collections.deque([x, x + 1], maxlen=3),
    "a defaultdict": lambda x: collections.defaultdict(list, {"a": [x]}),
    "a counter": lambda x: collections.Counter({x: 2}),
    "an ordered dict": lambda x: collections.OrderedDict(b=x, a=x + 1),
    "a dict of tensors": lambda x: {x: x + 1, "n": 2.5},
    "values": lambda x: {"a": x}.values(),
    "items": lambda x: collections.OrderedDict(a=x, b=x + 1).items(),
    "keys": lambda x: {x: 1}.keys(),
    "a proxy": lambda x: types.MappingProxyType({"a": x}),
    "a slice": lambda x: slice(x, None, 2),
    "a partial": lambda x: functools.partial(torch.add, x, alpha=2),
    "a bound method": lambda x: Thing(x).twice,
    "a closure": lambda x: lambda: x * 3,
    "defaults": lambda x: lambda y=x, *, z=[x]: (y, z),
    "closures over one cell": counter,
    "a model's output": lambda x: Output(x, x + 1),
    "a registered class": Registered,
    "a subclass of dict": lambda x: tagged(Bag, {"a": x}, x),
    "a subclass of list": lambda x: tagged(Row, [x], "tag"),
    "a subclass of tuple": lambda x: tagged(Point, (x,), [x]),
    "a user dict": lambda x: collections.UserDict(a=x),
    "a chain": lambda x: collections.ChainMap({"a": x}, {}),
    "torch's own": lambda x: x.max(0),
    "a cycle through a tuple": cyclic,
    "one object twice": lambda x: (lambda t: [t, {"t": t}, Plain(t)])(Thing(x)),
    "an array beside": lambda x: (x, np.arange(3), bytearray(b"ab"), array.array("i", [1])),
    "a dict of numbers beside": lambda x: (x, {"n": 1}, [], set()),
}


def same(a, b, seen=None):
    """Are two results alike: types, values, and who is who in them?"""
    seen = {} if seen is None else seen
    assert type(a) is type(b)
    if isinstance(a, (type, types.ModuleType, str, int, float, type(None))):
        assert a == b
        return
    if id(a) in seen:
        assert seen[id(a)][1] is b
        return
    seen[id(a)] = (a, b)
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b)
    elif isinstance(a, np.ndarray):
        assert np.array_equal(a, b)
    elif isinstance(a, types.FunctionType):
        assert a.__code__ is b.__code__ and a.__qualname__ == b.__qualname__
        same([a.__defaults__, a.__kwdefaults__, [c.cell_contents for c in a.__closure__ or ()]],
             [b.__defaults__, b.__kwdefaults__, [c.cell_contents for c in b.__closure__ or ()]], seen)  # fmt: skip
    elif isinstance(a, types.MethodType):
        assert a.__func__ is b.__func__
        same(a.__self__, b.__self__, seen)
    elif isinstance(a, functools.partial):
        same([a.args, a.keywords, vars(a)], [b.args, b.keywords, vars(b)], seen)
    elif isinstance(a, slice):
        same([a.start, a.stop, a.step], [b.start, b.stop, b.step], seen)
    else:
        if hasattr(a, "keys"):
            same([*a.keys()], [*b.keys()], seen)
            same([*a.values()], [*b.values()], seen)
        elif isinstance(a, collections.abc.Iterable):
            assert len(a) == len(b)
            for one, other in zip(a, b, strict=True):
                same(one, other, seen)
        if hasattr(a, "__dict__"):
            same(vars(a), vars(b), seen)
        for name in getattr(type(a), "__slots__", ()):
            name = f"_{type(a).__name__}{name}" if name.startswith("__") else name
            assert hasattr(a, name) == hasattr(b, name)
            if hasattr(a, name):
                same(getattr(a, name), getattr(b, name), seen)


@pytest.mark.parametrize("name", REBUILT)
def test_a_result_is_made_anew_at_each_call(name):
    def f(a):
        return REBUILT[name](a * 2 + 1)

    g = fk.jit(f)
    kept = []
    for k in range(4):
        a = torch.randn(5) + k
        out = g(a)
        same(f(a), out)
        assert all(out is not old for old in kept)
        kept.append(out)
    assert g.cache_info().recordings == 1


@pytest.mark.parametrize("name", REBUILT)
def test_a_check_looks_into_every_kind(name):
    x = fk.explore(lambda a: REBUILT[name](a * 2 + 1), torch.randn(5))
    report = x.check()
    assert report.ok, report


def test_a_check_sees_a_wrong_tensor_in_an_object():
    from fusekit.run.compare import compare
    from fusekit.run.observe import observe

    a = torch.ones(3)
    one, other = (observe(lambda a, k=k: Thing(Plain(a + k)), (a.clone(),)) for k in (1, 2))
    report = compare(one, other)
    assert [row.what for row in report.failures] == ["out.x.x"]


def test_a_registered_class_without_paths_is_an_argument():
    g = fk.jit(lambda r: r.x * 2)
    for k in range(2):
        assert torch.equal(g(Registered(torch.ones(2) + k)), torch.ones(2) * 2 + 2 * k)


GIVEN = {
    "a list": lambda xs, d: xs,
    "a dict in an object": lambda xs, d: Thing(d),
    "in a tuple": lambda xs, d: (xs, xs[0] + 1, d["a"]),
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_container_of_the_callers_comes_back_as_it_is(name):
    def f(xs, d):
        xs[0].add_(1)
        return GIVEN[name](xs, d)

    g = fk.jit(f)
    for k in range(3):
        xs, d = [torch.ones(2) + k], {"a": torch.zeros(2) + k}
        out = g(xs, d)
        assert torch.equal(xs[0], torch.ones(2) + k + 1)
        first = out if name == "a list" else out.x if "object" in name else out[0]
        assert first is (d if "object" in name else xs)
    x = fk.explore(f, [torch.ones(2)], {"a": torch.zeros(2)})
    assert x.check().ok, x.check()


HELD = {"n": 1, "xs": [torch.ones(2)]}


def test_what_was_there_before_comes_back_as_itself():
    def f(a):
        return a + 1, HELD, HELD["xs"]

    g = fk.jit(f)
    for _ in range(3):
        _, held, xs = g(torch.ones(2))
        assert held is HELD and xs is HELD["xs"]


def test_a_container_that_comes_in_two_ways_is_refused():
    xs = [torch.ones(2)]
    with pytest.raises(UnsupportedError, match="in two ways"):
        fk.jit(lambda a, b: b)(xs, xs)


def generator(a):
    yield a + 1


async def coroutine(a):
    return a + 1


async def async_generator(a):
    yield a + 1


class Yielding(torch.nn.Module):
    def forward(self, a):
        yield a


REFUSED = {
    "a generator function": (generator, "generator function"),
    "an async function": (coroutine, "async function"),
    "an async generator": (async_generator, "async function"),
    "a partial of an async function": (functools.partial(coroutine), "async function|coroutine"),
    "a module that yields": (Yielding(), "generator function"),
    "a generator": (lambda a: (generator(a), a), "a generator"),
    "a coroutine": (lambda a: [coroutine(a)], "a coroutine"),
    "an iterator": (lambda a: iter([a + 1]), "an iterator"),
    "a map": (lambda a: map(torch.neg, [a + 1]), "an iterator"),
    "a zip": (lambda a: Plain(zip([a + 1], [a], strict=True)), "an iterator"),
    "a weak reference": (lambda a: (lambda b: (b, weakref.ref(b)))(a + 1), "weak"),
    "a method of a list": (lambda a: [a + 1].append, "which no call can make again"),
    "an exception": (lambda a: ValueError(a + 1), "ValueError"),
    "an array of objects": (lambda a: np.array([Plain(a + 1), None], dtype=object), "ndarray"),
    "a storage": (lambda a: (a + 1).untyped_storage(), "untyped_storage"),
    "an attribute of a tensor": (lambda a: tagged(torch.neg, a, a), "Python attribute, tag"),
    "an address": (lambda a: hash(a + 1), "id\\(\\) or hash"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("error")
def test_what_cannot_be_made_again_is_refused_by_name(name):
    fn, text = REFUSED[name]
    for front in (fk.jit(fn), lambda a: fk.explore(fn, a)):
        with pytest.raises(UnsupportedError, match=text):
            front(torch.ones(3))
