"""Python effects of the recorded function: noticed, put back, and named."""

from __future__ import annotations

import array
import collections
import copy
import logging
import os
import random
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from fusekit.trace.oracle import default_generators
from fusekit.trace.origin import LIBRARY
from fusekit.trace.private import C

_NOTHING = object()


class Contents:
    """Shallow copies of containers, cells and globals, compared by identity afterwards."""

    def __init__(self) -> None:
        self._held: list[tuple[Any, Any, str]] = []
        self._globals: list[tuple[dict[str, Any], dict[str, Any], frozenset[str]]] = []
        self._cells: list[tuple[types.CellType, Any, str]] = []
        self._slots: list[tuple[Any, str, Any, str]] = []
        self._buffers: list[tuple[Any, Any, str]] = []  # (array, copy, path)
        self._random: list[tuple[Any, Any, str]] = []  # (generator, state, path)
        self._caches: list[tuple[Any, int, str]] = []  # (lru_cache, its misses, path)

    def watch(self, holder: list | dict | set | collections.deque, path: str) -> None:
        plain = dict if isinstance(holder, dict) else set if isinstance(holder, set) else list
        self._held.append((holder, plain(holder), path))

    def watch_cell(self, cell: types.CellType, name: str) -> None:
        self._cells.append((cell, cell.cell_contents, name))

    def watch_globals(self, holder: dict[str, Any], names: frozenset[str]) -> None:
        self._globals.append((holder, {name: holder[name] for name in names if name in holder}, names))

    def watch_slot(self, holder: Any, name: str, path: str) -> None:
        self._slots.append((holder, name, getattr(holder, name, _NOTHING), path))

    def watch_buffer(self, holder: Any, path: str) -> None:
        kept = bytes(holder) if isinstance(holder, memoryview) else copy.copy(holder)
        self._buffers.append((holder, kept, path))

    def watch_random(self, holder: Any, path: str) -> None:
        """Python's and NumPy's generators; anything else is left alone."""
        if (state := _state_of(holder)) is not None:
            self._random.append((holder, state, path))

    def watch_cache(self, holder: Any, path: str) -> None:
        self._caches.append((holder, holder.cache_info().misses, path))

    def put_back(self) -> list[str]:
        """Restores whatever changed, and says what it was."""
        found = [f"closure variable {name!r} was rebound" for cell, was, name in self._cells if _rebind(cell, was)]
        for holder, was, names in self._globals:
            for name in sorted(names):
                if holder.get(name, _NOTHING) is not was.get(name, _NOTHING):
                    found.append(f"global {name!r} was rebound")
                    _assign(holder, name, was.get(name, _NOTHING))
        for holder, was, path in self._held:
            if text := _restore(holder, was):
                found.append(f"{path}: {text}")
        found += [f"{path}: {name} changed" for holder, name, was, path in self._slots if _reset(holder, name, was)]
        found += [f"{path}: the {type(b).__name__} changed" for b, was, path in self._buffers if _refill(b, was)]
        found += [f"{path}: its random state" for r, was, path in self._random if _rewind(r, was)]
        found += [f"{path}: its cache took a result" for c, was, path in self._caches if _emptied(c, was)]
        return found


def _rebind(cell: types.CellType, was: Any) -> bool:
    try:
        if cell.cell_contents is was:
            return False
    except ValueError:  # deleted
        pass
    cell.cell_contents = was
    return True


def _assign(holder: dict[str, Any], name: str, value: Any) -> None:
    if value is _NOTHING:
        del holder[name]
    else:
        holder[name] = value


def _restore(holder: Any, was: Any) -> str | None:
    if isinstance(holder, dict):
        keys = [key for key in {**was, **holder} if holder.get(key, _NOTHING) is not was.get(key, _NOTHING)]
        if not keys:
            return None
        holder.clear()
        holder.update(was)
        return f"{', '.join(repr(k) if isinstance(k, str) else type(k).__name__ for k in keys[:4])} changed"
    if isinstance(holder, set):
        if holder == was:
            return None
        holder.clear()
        holder.update(was)
        return "the set changed"
    if len(holder) == len(was) and all(a is b for a, b in zip(holder, was, strict=True)):
        return None
    holder.clear()
    holder.extend(was)
    return f"the {type(holder).__name__} changed"


def _reset(holder: Any, name: str, was: Any) -> bool:
    if getattr(holder, name, _NOTHING) is was:
        return False
    kind = next(cls for cls in type(holder).__mro__ if name in vars(cls))
    descriptor = vars(kind)[name]  # past a frozen dataclass' __setattr__
    descriptor.__delete__(holder) if was is _NOTHING else descriptor.__set__(holder, was)
    return True


def _refill(holder: Any, was: Any) -> bool:
    """An array as it was; a changed length too, where there is one to change."""
    if isinstance(holder, (bytearray, memoryview, array.array)):
        if bytes(holder) == bytes(was):
            return False
        holder[:] = was
        return True
    now, before = holder.view(), was.view()
    if now.dtype.hasobject:
        is_same = now.shape == before.shape and all(a is b for a, b in zip(now.flat, before.flat, strict=True))
    else:
        is_same = now.shape == before.shape and now.tobytes() == before.tobytes()
    if not is_same:
        holder[...] = was.reshape(holder.shape)
    return not is_same


def _state_of(holder: Any) -> Any:
    """A generator's state as plain values; None where it is none, or has none (SystemRandom)."""
    if isinstance(holder, random.SystemRandom):
        return None
    if isinstance(holder, random.Random):
        return holder.getstate()
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(holder, numpy.random.Generator):
        return copy.deepcopy(holder.bit_generator.state)
    if isinstance(holder, numpy.random.BitGenerator):
        return copy.deepcopy(holder.state)
    return holder.get_state() if isinstance(holder, numpy.random.RandomState) else None


def _rewind(holder: Any, was: Any) -> bool:
    if repr(_state_of(holder)) == repr(was):
        return False
    if isinstance(holder, random.Random):
        holder.setstate(was)
    elif hasattr(holder, "set_state"):
        holder.set_state(was)
    else:
        getattr(holder, "bit_generator", holder).state = was
    return True


def _emptied(cache: Any, misses: int) -> bool:
    """A cache that took a result while recording would keep a stand-in: it forgets all instead."""
    if cache.cache_info().misses == misses:
        return False
    cache.cache_clear()
    return True


class RandomStates:
    """States of Python's, NumPy's and torch's generators."""

    def __init__(self, generators: Iterable[torch.Generator]) -> None:
        self._generators = [*default_generators(), *generators]
        self._states = [generator.get_state() for generator in self._generators]
        self._python = random.getstate()
        self._numpy = sys.modules["numpy"].random if "numpy" in sys.modules else None
        self._numpy_state: Any = self._numpy.get_state() if self._numpy else None

    def put_back(self) -> list[str]:
        found = []
        if random.getstate() != self._python:
            random.setstate(self._python)
            found.append("Python's random state")
        if self._numpy and not _is_same_state(self._numpy.get_state(), self._numpy_state):
            self._numpy.set_state(self._numpy_state)
            found.append("NumPy's random state")
        for generator, state in zip(self._generators, self._states, strict=True):
            if not torch.equal(generator.get_state(), state):
                generator.set_state(state)
                found.append("a generator's state")
        return found


def _is_same_state(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return one[2:] == other[2:] and bool((one[1] == other[1]).all())


def put_versions_back(pairs: Iterable[tuple[torch.Tensor, int | None]]) -> list[str]:
    """Version counters as they were (None: an inference tensor has none)."""
    found = []
    for t, version in pairs:
        if version is not None and t._version != version:
            C._autograd._unsafe_set_version_counter((t,), (version,))
            found.append("a tensor's version counter (mark_dirty of an autograd.Function?)")
    return found


_LOGGING = (logging.Logger.isEnabledFor.__code__, logging.Logger.handle.__code__)


class Watcher:
    """A profile hook: which code ran, and calls whose answer or effect a recording cannot repeat."""

    _SEEDING = ("manual_seed", "seed", "set_state")
    _NAMES_AT_RUN_TIME = ("vars", "getattr", "hasattr", "locals", "dir", "attrgetter")
    _HOMES = ("time", "_io", "posix", "select", "_socket", "_contextvars")
    _UNREPEATABLE = (
        "globals", "input", "open", "urandom", "now", "utcnow", "today", "id", "print", "warn", "warn_explicit",
        "breakpoint", "getrefcount", "get_ident", "get_native_id",
    )  # fmt: skip
    _WHOEVER_CALLS = (
        "urandom",
        "getrandom",
        "start_new_thread",
        "start_joinable_thread",
    )  # for the standard library too
    _CATCHING = frozenset(("AttributeError", "NameError", "Exception", "BaseException"))  # an absence may be noticed
    _ENVIRON = frozenset((type(os.environ).__getitem__.__code__, type(os.environ).__iter__.__code__))

    def __init__(self) -> None:
        self.codes: set[types.CodeType] = set()
        self.reseeded: list[str] = []
        self.unrepeatable: list[tuple[str, str]] = []  # (call, line)
        self.is_wide = False
        self.reads_environ = False
        self.loggers: dict[int, logging.Logger] = {}  # those that were asked whether they are enabled
        self.is_paused: Callable[[], bool] = lambda: False

    def __call__(self, frame: types.FrameType, event: str, what: Any) -> None:
        if event == "call":
            if frame.f_code in _LOGGING:
                self._logged(frame)
            self._entered(frame.f_code)
        elif event == "c_call":
            self._builtin(frame, what)

    def _entered(self, code: types.CodeType) -> None:
        if code in self.codes:
            return
        self.codes.add(code)
        self.reads_environ |= code in self._ENVIRON
        if not self._CATCHING.isdisjoint(code.co_names) and not code.co_filename.startswith(LIBRARY):
            self.is_wide = True

    def _builtin(self, frame: types.FrameType, what: Any) -> None:
        name, owner = what.__name__, getattr(what, "__self__", None)
        if isinstance(owner, torch.Tensor):
            return
        if isinstance(owner, torch.Generator):
            if name in self._SEEDING and not self.is_paused():
                self.reseeded.append(f"a generator's state ({name})")
            elif name == "initial_seed" and not self.is_paused():
                self._note(frame, "torch.Generator.initial_seed")
        elif name in self._WHOEVER_CALLS and not self.is_paused():
            self._note(frame, f"{_shown(_home(what, owner), owner)}.{name}")
        elif not frame.f_code.co_filename.startswith(LIBRARY):
            home = _home(what, owner)
            if name in self._NAMES_AT_RUN_TIME:
                self.is_wide = True
            elif name == "globals" and _is_lazy_import(frame):
                return
            elif home in self._HOMES or name in self._UNREPEATABLE:
                self._note(frame, f"{_shown(home, owner)}.{name}")

    def _logged(self, frame: types.FrameType) -> None:
        """A logger's level decides at each call; what it says is said once only."""
        owner: Any = frame.f_locals.get("self")
        if frame.f_code is _LOGGING[0]:
            self.loggers[id(owner)] = owner
        else:
            self._note(frame, f"logging.{type(owner).__name__}.handle")

    def _note(self, frame: types.FrameType, call: str) -> None:
        """A call that no recording can stand for, at the user's line."""
        user: types.FrameType | None = frame
        while user is not None and user.f_code.co_filename.startswith(LIBRARY):
            user = user.f_back
        at = user or frame
        self.unrepeatable.append((call, f"{at.f_code.co_filename}:{at.f_lineno}"))


def _is_lazy_import(frame: types.FrameType) -> bool:
    """Is this a module's own ``__getattr__``, which keeps what it imported?"""
    return getattr(frame.f_globals.get("__getattr__"), "__code__", None) is frame.f_code


def _home(what: Any, owner: Any) -> str:
    """The module that a builtin is of; for a method, of the class in C that has it."""
    kind = owner if isinstance(owner, type) else type(owner)
    home = getattr(what, "__module__", None)
    return home or next((c.__module__ for c in kind.__mro__ if what.__name__ in vars(c)), kind.__module__)


def _shown(home: str, owner: Any) -> str:
    """How a person knows the owner of a builtin: a class or an instance's class by its name, a module by its own."""
    if owner is None or isinstance(owner, types.ModuleType):
        return home
    kind = owner if isinstance(owner, type) else type(owner)
    return f"{kind.__module__}.{kind.__name__}"


def sentence(changes: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(changes))
