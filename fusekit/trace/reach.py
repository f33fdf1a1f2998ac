"""Everything a function can reach from Python: paths of tensors, values to guard, containers to watch."""

from __future__ import annotations

import collections
import functools
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from fusekit.trace.effects import Contents

SIMPLE = (
    int, float, bool, complex, str, bytes, type(None),
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size,
)  # fmt: skip
_IDENTITY = (types.FunctionType, type, torch.nn.Module, types.ModuleType, tuple, torch.Generator)
_FOREIGN = {*sys.stdlib_module_names, "torch", "numpy", "functorch"} - {"__main__"}
_ROOMS = tuple(f"fusekit.{room}" for room in ("trace", "ir", "index", "run", "passes", "lower", "jit", "exploration"))
_STATE = ("_parameters", "_buffers", "_modules")
_LIMIT = 50_000
How = Literal["item", "attr", "cell", "len"]


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One readable place: ``holder[key]``, ``holder.key``, a cell's contents, or a container's length.

    ``path`` is how a person would write it. ``named``: only code that names ``key`` can have read it.
    """

    how: How
    holder: Any
    key: Any
    value: Any
    path: str
    parent: Entry | None
    named: bool

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for two entries that read the same place."""
        return self.how, id(self.holder), self.key

    def read(self) -> Any:
        """What is there now; ``MISSING`` where nothing is."""
        how, key = self.how, self.key
        try:
            if how == "item":
                return self.holder[key]
            if how == "cell":
                return self.holder.cell_contents
            return len(self.holder) if how == "len" else getattr(self.holder, key)
        except (KeyError, IndexError, AttributeError, ValueError):
            return MISSING


class Missing:
    """Nothing is at a place any more."""


MISSING = Missing()


def names_of(code: types.CodeType) -> frozenset[str]:
    """Global and attribute names that code mentions, nested functions included."""
    nested = (names_of(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return frozenset(code.co_names).union(*nested)


def is_foreign(module: str | None) -> bool:
    """Code of torch, NumPy, the standard library or our own rooms: its state is not walked."""
    return (module or "").split(".")[0] in _FOREIGN or (module or "").startswith(_ROOMS)


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
        self._reached: dict[Entry, bool] = {}
        self._seen: dict[int, Any] = {}
        self._queue: collections.deque[_Visit] = collections.deque()
        self._visit(_Visit(fn, _root_name(fn), None, frozenset()))
        for path, value in objects:
            self._visit(_Visit(value, path, None, frozenset()))
        for value in containers:
            self._watch(value)
        while self._queue and len(self.entries) < _LIMIT:
            self._expand(self._queue.popleft())

    def guards(self, names: frozenset[str], wide: bool) -> list[Entry]:
        """Entries whose value the executed code may have read and that a key compares: simple values, lengths,
        callables and modules. ``names`` are those the executed code mentions; ``wide``: it made names at run time."""
        reached = self._reached
        for entry in self.entries:  # parents come first
            own = wide or not entry.named or entry.key in names
            reached[entry] = own and (entry.parent is None or reached[entry.parent])
        return [e for e in self.entries if reached[e] and _is_guarded(e.value)]

    def iterators(self) -> list[str]:
        """Paths of iterators that the executed code may have advanced (after ``guards``)."""
        return [e.path for e in self.entries if self._reached[e] and isinstance(e.value, Iterator)]

    def paths(self, t: torch.Tensor) -> Sequence[Entry]:
        """The named paths of a tensor (after ``guards``): those the executed code can have taken."""
        return [entry for entry in self.tensors.get(id(t), ()) if self._reached[entry]]

    # ---- the walk

    def _watch(self, value: Any) -> None:
        if isinstance(value, (list, dict, tuple)):
            if not isinstance(value, tuple):
                self.contents.watch(value, "an argument")
            for item in value.values() if isinstance(value, dict) else value:
                self._watch(item)

    def _visit(self, visit: _Visit) -> None:
        value, entry = visit.value, visit.parent
        if isinstance(value, torch.Tensor):
            if entry is not None:
                self.tensors.setdefault(id(value), []).append(entry)
            if value.is_leaf and value.grad is not None:
                self._add(visit, "attr", value, "grad", value.grad, f"{visit.path}.grad", True)
        elif not isinstance(value, SIMPLE) and id(value) not in self._seen:
            self._seen[id(value)] = value
            if isinstance(value, torch.Generator):
                self.generators.append(value)
            self._queue.append(visit)

    def _add(
        self, at: _Visit, how: How, holder: Any, key: Any, value: Any, path: str, named: bool,
        style: bool = False,
    ) -> None:  # fmt: skip
        entry = Entry(how, holder, key, value, path, at.parent, named)
        self.entries.append(entry)
        self._visit(_Visit(value, path, entry, at.names, style))

    def _expand(self, at: _Visit) -> None:
        match at.value:
            case types.FunctionType():
                self._function(at, at.value)
            case types.MethodType():
                self._visit(_Visit(at.value.__func__, at.path, at.parent, at.names))
                self._visit(_Visit(at.value.__self__, "self", at.parent, at.names))
            case functools.partial():
                self._partial(at, at.value)
            case dict():
                self._dict(at, at.value)
            case list() | tuple() | collections.deque():
                self._sequence(at, at.value)
            case set():
                self.contents.watch(at.value, at.path)
            case types.ModuleType():
                self._module(at, at.value)
            case type():
                self._class(at, at.value)
            case _:
                self._instance(at, at.value)

    def _function(self, at: _Visit, fn: types.FunctionType) -> None:
        if hasattr(fn, "__wrapped__"):
            self._visit(_Visit(fn.__wrapped__, at.path, at.parent, at.names))
        if is_foreign(fn.__module__):
            return
        at = _Visit(fn, at.path, at.parent, names_of(fn.__code__))
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            self.contents.watch_cell(cell, name)
            self._add(at, "cell", cell, name, value, name, False)
        held = [name for name in sorted(at.names) if name in fn.__globals__]
        self.contents.watch_globals(fn.__globals__, at.names)
        for name in held:
            self._add(at, "item", fn.__globals__, name, fn.__globals__[name], name, True)
        for k, value in enumerate(fn.__defaults__ or ()):
            self._add(at, "item", fn.__defaults__, k, value, f"{fn.__name__}.__defaults__[{k}]", False)
        for name, value in (fn.__kwdefaults__ or {}).items():
            self._add(at, "item", fn.__kwdefaults__, name, value, f"{fn.__name__}.{name}", False)

    def _partial(self, at: _Visit, fn: functools.partial) -> None:
        self._visit(_Visit(fn.func, _root_name(fn.func), at.parent, at.names))
        for k, value in enumerate(fn.args):
            self._add(at, "item", fn.args, k, value, f"{at.path}.args[{k}]", False)
        for name, value in fn.keywords.items():
            self._add(at, "item", fn.keywords, name, value, f"{at.path}.{name}", False)

    def _dict(self, at: _Visit, held: dict[Any, Any]) -> None:
        self.contents.watch(held, at.path)
        self._add(at, "len", held, None, len(held), f"len({at.path})", False)
        for k, (key, value) in enumerate(list(held.items())):
            shown = repr(key) if isinstance(key, SIMPLE) else f"{type(key).__name__} {k}"
            path = f"{at.path}.{key}" if at.attribute_style else f"{at.path}[{shown}]"
            self._add(at, "item", held, key, value, path, False)

    def _sequence(self, at: _Visit, held: Any) -> None:
        if not isinstance(held, tuple):
            self.contents.watch(held, at.path)
            self._add(at, "len", held, None, len(held), f"len({at.path})", False)
        for k, value in enumerate(held):
            self._add(at, "item", held, k, value, f"{at.path}[{k}]", False)

    def _module(self, at: _Visit, module: types.ModuleType) -> None:
        if is_foreign(module.__name__):
            return
        for name in sorted(at.names):
            if name in vars(module):
                self._add(at, "item", vars(module), name, vars(module)[name], f"{at.path}.{name}", True)

    def _class(self, at: _Visit, cls: type) -> None:
        if is_foreign(cls.__module__):
            return
        for name, value in list(vars(cls).items()):
            special = name.startswith("__")  # Python calls these without naming them
            if isinstance(value, (types.FunctionType, torch.Tensor)) or (isinstance(value, SIMPLE) and not special):
                self._add(at, "attr", cls, name, value, f"{at.path}.{name}", not special)
            elif isinstance(value, property):
                self._visit(_Visit(value.fget, f"{at.path}.{name}", at.parent, at.names))
            elif isinstance(value, (staticmethod, classmethod)):
                self._visit(_Visit(value.__func__, f"{at.path}.{name}", at.parent, at.names))

    def _instance(self, at: _Visit, value: Any) -> None:
        home = type(value).__module__
        if not isinstance(value, torch.nn.Module) and is_foreign(home) and not home.startswith("torch.optim"):
            return
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict):
            self.contents.watch(held, at.path)
            for name, item in list(held.items()):
                state = isinstance(value, torch.nn.Module) and name in _STATE
                path = at.path if state else f"{at.path}.{name}"
                named = not state and name != "training"
                self._add(at, "item", held, name, item, path, named, state)
        for cls in type(value).__mro__:
            for name in getattr(cls, "__slots__", ()) if not is_foreign(cls.__module__) else ():
                if hasattr(value, name):
                    self._add(at, "attr", value, name, getattr(value, name), f"{at.path}.{name}", True)
            self._visit(_Visit(cls, cls.__name__, at.parent, at.names))


def _is_guarded(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return False
    return isinstance(value, (*SIMPLE, *_IDENTITY)) or callable(value)


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
