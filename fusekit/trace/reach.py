"""Everything a function can reach from Python: paths of tensors, values to guard, containers to watch."""

from __future__ import annotations

import argparse
import collections
import functools
import operator
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fusekit.errors import UnsupportedError
from fusekit.ir import Origin
from fusekit.trace.border import Gone
from fusekit.trace.effects import Contents
from fusekit.trace.entries import (
    BUFFERS,
    MISSING,
    SIMPLE,
    Entry,
    How,
    Part,
    attributes_of,
    entry_of,
    fact,
    is_array,
    refuse_unguarded,
)
from fusekit.trace.stores import globals_of, globals_set_by

__all__ = ["MISSING", "SIMPLE", "Entry", "Reach", "code_names", "is_foreign", "names_of"]

_FOREIGN = {*sys.stdlib_module_names, "torch", "numpy", "functorch"} - {"__main__"}
_ROOMS = tuple(f"fusekit.{room}" for room in ("trace", "ir", "index", "run", "passes", "lower", "jit", "exploration"))
# Classes of the standard library that only hold what a user put there.
_HOLDERS = (types.SimpleNamespace, argparse.Namespace, collections.UserDict, collections.UserList, collections.ChainMap)
_STATE = ("_parameters", "_buffers", "_modules")
_OF_EVERY_CLASS = ("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__slots__", "_abc_impl")
_LIMIT = 50_000
_ARGS, _KEYWORDS = operator.attrgetter("args"), operator.attrgetter("keywords")


def names_of(code: types.CodeType) -> frozenset[str]:
    """Global and attribute names that code mentions, nested functions included."""
    nested = (names_of(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return frozenset(code.co_names).union(*nested)


def is_foreign(module: str | None) -> bool:
    """Code of torch, NumPy, the standard library or our own rooms: its state is not walked. (The package itself gets
    its names as they are first used.)"""
    return (module or "").split(".")[0] in _FOREIGN or (module or "").startswith(_ROOMS) or module == "fusekit"


@dataclass(frozen=True, slots=True)
class _Visit:
    value: Any
    path: str
    parent: Entry | None
    names: frozenset[str]
    attribute_style: bool = False  # print dict items as .key: the state dicts of a module


class Reach:
    """A breadth-first walk from ``fn``; ``objects`` are argument leaves that are no pytrees, ``containers`` the
    argument containers (watched for changes, never a path)."""

    def __init__(self, fn: Any, containers: Iterable[Any] = (), objects: Iterable[tuple[str, Any]] = ()):
        self.entries: list[Entry] = []
        self.tensors: dict[int, list[Entry]] = {}
        self.generators: list[torch.Generator] = []
        self.contents = Contents()
        self.meets_numpy = False  # or something of its random numbers
        self._reached: dict[Entry, bool] = {}
        self._owners: list[tuple[Any, str, Entry | None]] = []  # instances and classes, whose lookups may change
        self._seen: dict[int, Any] = {}
        self._queue: collections.deque[_Visit] = collections.deque()
        self._visit(_Visit(fn, _root_name(fn), None, frozenset()))
        for path, value in objects:
            self._visit(_Visit(value, path, None, frozenset()))
        for value in containers:
            self._watch(value)
        while self._queue and len(self.entries) < _LIMIT:
            self._expand(self._queue.popleft())

    def guards(self, names: frozenset[str], wide: bool, where: Origin | None = None) -> list[Entry]:
        """Entries whose value the executed code may have read. ``names`` are those the executed code mentions;
        ``wide``: it made names at run time. Raises UnsupportedError, at ``where``, for what no key can compare."""
        reached = self._reached
        for entry in self.entries:  # parents come first
            own = wide or not entry.named or entry.key in names
            reached[entry] = own and (entry.parent is None or reached[entry.parent])
        found = [e for e in self.entries if reached[e]]
        for value, path, parent in self._owners:
            if parent is None or reached[parent]:
                found += _lookups(value, path, parent, names, wide)
        if any(visit.parent is None or reached[visit.parent] for visit in self._queue):
            what = f"the function reaches more than {_LIMIT} Python values, which"
            raise UnsupportedError(what, where, "pass them in a tensor")
        refuse_unguarded(found, where)
        return found

    def iterators(self) -> list[str]:
        """Paths of iterators that the executed code may have advanced (after ``guards``)."""
        return [e.path for e in self.entries if self._reached[e] and isinstance(e.value, Iterator)]

    def paths(self, t: torch.Tensor) -> Sequence[Entry]:
        """The named paths of a tensor (after ``guards``): those the executed code can have taken."""
        return [entry for entry in self.tensors.get(id(t), ()) if self._reached[entry]]

    def knows(self, value: Any) -> bool:
        """Was the object there before the call, where the function can reach it without its arguments' containers?"""
        return id(value) in self._seen

    def watch_tensor(self, t: torch.Tensor, path: str) -> None:
        """Its Python attributes are put back."""
        if id(t) not in self._seen:
            self._seen[id(t)] = t
            self.contents.watch_attributes(vars(t), f"the attributes of {path}")

    # ---- the walk

    def _watch(self, value: Any) -> None:
        if isinstance(value, (list, dict, tuple)):
            if not isinstance(value, tuple):
                self.contents.watch(value, "an argument")
            for item in list(value.values() if isinstance(value, dict) else value):
                self._watch(item)

    def _visit(self, visit: _Visit) -> None:
        value, entry = visit.value, visit.parent
        if isinstance(value, torch.Tensor) and type(value) is not Gone:
            self.watch_tensor(value, visit.path)
            if entry is not None:
                self.tensors.setdefault(id(value), []).append(entry)
            if value.is_leaf and value.grad is not None:
                self._add(visit, "attr", value, "grad", value.grad, f"{visit.path}.grad", True)
        elif not isinstance(value, (Gone, *SIMPLE)) and id(value) not in self._seen:
            self._seen[id(value)] = value
            if isinstance(value, torch.Generator):
                self.generators.append(value)
            self._queue.append(visit)

    def _add(
        self, at: _Visit, how: How, holder: Any, key: Any, value: Any, path: str, named: bool,
        style: bool = False, part: Part | None = None,
    ) -> None:  # fmt: skip
        found = entry_of(how, holder, key, value, path, at.parent, named, part)
        self.entries.append(found)
        self._visit(_Visit(value, path, found, at.names, style))

    def _expand(self, at: _Visit) -> None:
        match at.value:
            case types.FunctionType():
                self._function(at, at.value)
            case types.MethodType():
                self._visit(_Visit(at.value.__func__, at.path, at.parent, at.names))
                self._visit(_Visit(at.value.__self__, "self", at.parent, at.names))
            case functools.partial():
                self._partial(at, at.value)
            case dict() | types.MappingProxyType() as held:
                self._dict(at, held)
            case frozenset():
                for item in at.value:  # it is what it is: what its items hold may change
                    self._visit(_Visit(item, f"an item of {at.path}", at.parent, at.names))
            case set():
                self.contents.watch(at.value, at.path)
                self._fact(at, "contents", at.value)
                for item in list(at.value):
                    self._visit(_Visit(item, f"an item of {at.path}", at.parent, at.names))
            case list() | tuple() | collections.deque():
                self._sequence(at, at.value)
            case types.ModuleType():
                self._module(at, at.value)
            case type():
                self._class(at, at.value)
            case value if is_array(value) or isinstance(value, BUFFERS):
                self.contents.watch_buffer(value, at.path)
                self._fact(at, "contents", value)
            case _:
                self._instance(at, at.value)

    def _fact(self, at: _Visit, how: How, holder: Any) -> None:
        self.entries.append(fact(how, holder, None, at.path, at.parent))

    def _function(self, at: _Visit, fn: types.FunctionType) -> None:
        self.meets_numpy |= "numpy" in fn.__code__.co_names
        if hasattr(fn, "__wrapped__"):
            self._visit(_Visit(fn.__wrapped__, at.path, at.parent, at.names))
        if is_foreign(fn.__module__):
            return
        at = _Visit(fn, at.path, at.parent, names_of(fn.__code__))
        self.entries.append(fact("attr", fn, "__code__", f"{at.path}.__code__", at.parent))
        for k, (name, cell) in enumerate(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)):
            try:
                value = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            self.contents.watch_cell(cell, name)
            self._add(at, "cell", cell, name, value, name, False, part=_cell_of(fn, k))
        read = globals_of(fn.__code__)
        self.contents.watch_globals(fn.__globals__, read | globals_set_by(fn.__code__))
        for name in sorted(read):
            if name in fn.__globals__:
                self._add(at, "item", fn.__globals__, name, fn.__globals__[name], name, True)
            else:
                self.entries.append(fact("absent", fn.__globals__, name, name, at.parent, True))
        for which in ("__defaults__", "__kwdefaults__"):
            if (held := getattr(fn, which)) is not None:
                self._add(at, "attr", fn, which, held, f"{fn.__name__}.{which}", False)

    def _partial(self, at: _Visit, fn: functools.partial) -> None:
        self._visit(_Visit(fn.func, _root_name(fn.func), at.parent, at.names))
        for k, value in enumerate(fn.args):
            self._add(at, "item", fn.args, k, value, f"{at.path}.args[{k}]", False, part=Part(fn, "args", _ARGS))
        for name, value in fn.keywords.items():
            part = Part(fn, "keywords", _KEYWORDS)
            self._add(at, "item", fn.keywords, name, value, f"{at.path}.{name}", False, part=part)

    def _dict(self, at: _Visit, held: Any) -> None:
        if isinstance(held, dict):
            self.contents.watch(held, at.path)
        self.entries.append(fact("keys", held, None, f"the keys of {at.path}", at.parent))
        for k, (key, value) in enumerate(list(held.items())):
            shown = repr(key) if isinstance(key, SIMPLE) else f"{type(key).__name__} {k}"
            path = f"{at.path}.{key}" if at.attribute_style else f"{at.path}[{shown}]"
            self._add(at, "item", held, key, value, path, False)

    def _sequence(self, at: _Visit, held: Any) -> None:
        if not isinstance(held, tuple):
            self.contents.watch(held, at.path)
            self.entries.append(fact("len", held, None, f"len({at.path})", at.parent))
        for k, value in enumerate(list(held)):
            self._add(at, "item", held, k, value, f"{at.path}[{k}]", False)

    def _module(self, at: _Visit, module: types.ModuleType) -> None:
        self.meets_numpy |= module.__name__.startswith("numpy")
        if is_foreign(module.__name__):
            return
        self._owners.append((module, at.path, at.parent))
        self.contents.watch_names(module, at.path)
        for name in sorted(at.names):
            if name in vars(module):
                self._add(at, "item", vars(module), name, vars(module)[name], f"{at.path}.{name}", True)

    def _class(self, at: _Visit, cls: type) -> None:
        if is_foreign(cls.__module__):
            return
        self._owners.append((cls, at.path, at.parent))
        self.contents.watch_names(cls, at.path)
        for name, value in list(vars(cls).items()):
            special = name.startswith("__")  # Python calls these without naming them
            if name in _OF_EVERY_CLASS or (special and not isinstance(value, types.FunctionType)):
                continue
            path = f"{at.path}.{name}"
            self._add(at, "class", cls, name, value, path, not special)
            for fn in _underlying(value):
                self._visit(_Visit(fn, path, at.parent, at.names))

    def _instance(self, at: _Visit, value: Any) -> None:
        if isinstance(value, functools._lru_cache_wrapper):
            self._visit(_Visit(value.__wrapped__, at.path, at.parent, at.names))
            self.contents.watch_cache(value, at.path)
        self.contents.watch_random(value, at.path)
        self.meets_numpy |= type(getattr(value, "__self__", None)).__module__.startswith("numpy")
        if not _is_walked(value):
            return
        if not isinstance(value, types.SimpleNamespace):
            self.entries.append(fact("attr", value, "__class__", f"the class of {at.path}", at.parent))
        self._owners.append((value, at.path, at.parent))
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict):
            self.contents.watch_attributes(held, at.path)
            for name, item in list(held.items()):
                state = isinstance(value, torch.nn.Module) and name in _STATE
                path = at.path if state else f"{at.path}.{name}"
                named = not state and name != "training"
                self._add(at, "item", held, name, item, path, named, state, attributes_of(value))
        for cls in type(value).__mro__:
            for name in _slots(cls):
                self.contents.watch_slot(value, name, at.path)
                if hasattr(value, name):
                    self._add(at, "attr", value, name, getattr(value, name), f"{at.path}.{name}", True)
            self._visit(_Visit(cls, cls.__name__, at.parent, at.names))


def _cell_of(fn: types.FunctionType, k: int) -> Part:
    return Part(fn, f"cell {k}", lambda fn: fn.__closure__[k])


def _is_walked(value: Any) -> bool:
    home = type(value).__module__
    return not is_foreign(home) or home.startswith("torch.optim") or isinstance(value, (torch.nn.Module, *_HOLDERS))


def _underlying(value: Any) -> tuple[Any, ...]:
    """The functions that a descriptor of a class runs."""
    if isinstance(value, property):
        return value.fget, value.fset
    if isinstance(value, functools.cached_property):
        return (value.func,)
    return (value.__func__,) if isinstance(value, (staticmethod, classmethod)) else ()


def _slots(cls: type) -> tuple[str, ...]:
    """Names under which slots are read: private ones are mangled."""
    if is_foreign(cls.__module__):
        return ()
    slots = vars(cls).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if isinstance(vars(cls).get(name), types.MemberDescriptorType))


def _lookups(value: Any, path: str, parent: Entry | None, names: frozenset[str], wide: bool) -> Iterator[Entry]:
    """What must stay absent, so that attributes are still found where they were found."""
    if isinstance(value, types.ModuleType) or (wide and isinstance(value, type)):
        if wide:
            yield fact("contents", value, None, f"the names of {path}", parent)
        return
    order = value.__mro__ if isinstance(value, type) else type(value).__mro__
    own = getattr(value, "__dict__", None)
    if own is None:
        return
    if wide and isinstance(own, dict):
        yield fact("keys", own, None, f"the attributes of {path}", parent, part=attributes_of(value))
        return
    for name in _attributes(order[1:] if isinstance(value, type) else order, names):
        if name not in own:
            if isinstance(own, dict):
                yield fact("absent", own, name, f"{path}.{name}", parent, part=attributes_of(value))
            else:
                yield fact("absent", value, name, f"{path}.{name}", parent)


@functools.lru_cache(maxsize=1024)
def _attributes(order: tuple[type, ...], names: frozenset[str]) -> tuple[str, ...]:
    """Names that classes have; object's own are never looked for."""
    return tuple(sorted(names.intersection(*[frozenset().union(*map(vars, order))]).difference(vars(object))))


def _root_name(fn: Any) -> str:
    if isinstance(fn, (types.FunctionType, functools.partial)):
        return getattr(fn, "__name__", "fn")
    return "self"


def code_names(codes: Iterable[types.CodeType]) -> frozenset[str]:
    """Names that the executed code mentions."""

    def mentioned() -> Iterator[str]:
        for code in codes:
            yield from code.co_names
            yield from code.co_freevars

    return frozenset(mentioned())
