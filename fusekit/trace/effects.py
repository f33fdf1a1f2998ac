"""Python effects of the recorded function: noticed, put back, and named."""

from __future__ import annotations

import collections
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

    def watch(self, holder: list | dict | set | collections.deque, path: str) -> None:
        plain = dict if isinstance(holder, dict) else set if isinstance(holder, set) else list
        self._held.append((holder, plain(holder), path))

    def watch_cell(self, cell: types.CellType, name: str) -> None:
        self._cells.append((cell, cell.cell_contents, name))

    def watch_globals(self, holder: dict[str, Any], names: frozenset[str]) -> None:
        self._globals.append((holder, {name: holder[name] for name in names if name in holder}, names))

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


class Watcher:
    """A profile hook: which code ran, and calls whose answer or effect a recording cannot repeat."""

    _SEEDING = ("manual_seed", "seed", "set_state")
    _NAMES_AT_RUN_TIME = ("globals", "vars", "getattr", "locals", "attrgetter")
    _HOMES = ("time", "_io", "posix", "select", "_socket")
    _UNREPEATABLE = ("input", "open", "urandom", "now", "id")

    def __init__(self) -> None:
        self.codes: set[types.CodeType] = set()
        self.reseeded: list[str] = []
        self.unrepeatable: list[tuple[str, str]] = []  # (call, line)
        self.is_wide = False
        self.is_paused: Callable[[], bool] = lambda: False

    def __call__(self, frame: types.FrameType, event: str, what: Any) -> None:
        if event == "call":
            self.codes.add(frame.f_code)
        elif event == "c_call":
            self._builtin(frame, what)

    def _builtin(self, frame: types.FrameType, what: Any) -> None:
        name, owner = what.__name__, getattr(what, "__self__", None)
        if isinstance(owner, torch.Tensor):
            return
        if isinstance(owner, torch.Generator):
            if name in self._SEEDING and not self.is_paused():
                self.reseeded.append(f"a generator's state ({name})")
        elif not frame.f_code.co_filename.startswith(LIBRARY):
            home = getattr(what, "__module__", None) or type(owner).__module__
            if name in self._NAMES_AT_RUN_TIME:
                self.is_wide = True
            elif home in self._HOMES or name in self._UNREPEATABLE:
                self.unrepeatable.append((f"{home}.{name}", f"{frame.f_code.co_filename}:{frame.f_lineno}"))


def sentence(changes: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(changes))
