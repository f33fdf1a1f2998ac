"""The profile hook of a recording: which code of this thread ran, and what it called."""

from __future__ import annotations

import collections
import logging
import os
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from fusekit.errors import UnsupportedError
from fusekit.trace.ambient import SETTERS
from fusekit.trace.origin import LIBRARY

# Methods of containers, generators and their like that change nothing.
_READING = frozenset((
    "get", "items", "keys", "values", "copy", "index", "count", "union", "intersection", "difference", "issubset",
    "issuperset", "isdisjoint", "symmetric_difference", "__contains__", "__getitem__", "__reversed__", "getstate",
    "get_state", "initial_seed", "clone_state", "hex", "decode", "find", "startswith", "endswith", "tolist",
))  # fmt: skip

_LOGGING = (logging.Logger.isEnabledFor.__code__, logging.Logger.handle.__code__)


@dataclass(slots=True)
class Edits:
    """What this thread's calls of one object's methods made of it: its state before and after each that changes it."""

    holder: Any
    photograph: Callable[[Any], Any]
    states: list[tuple[Any, Any]] = field(default_factory=list)


class Watcher:
    """A profile hook: which code ran, and calls whose answer or effect a recording cannot repeat."""

    _SEEDING = ("manual_seed", "seed", "set_state")
    _NAMES_AT_RUN_TIME = ("vars", "getattr", "hasattr", "locals", "dir", "attrgetter")
    _HOMES = ("time", "_io", "posix", "select", "_socket", "_contextvars")
    _UNREPEATABLE = (
        "globals", "input", "open", "urandom", "now", "utcnow", "today", "id", "print", "warn", "warn_explicit",
        "breakpoint", "getrefcount", "get_ident", "get_native_id",
    )  # fmt: skip
    _WHOEVER_CALLS = ("urandom", "getrandom", "start_new_thread", "start_joinable_thread")  # the standard library, too
    _CATCHING = frozenset(("AttributeError", "NameError", "Exception", "BaseException"))  # an absence may be noticed
    _ENVIRON = frozenset((type(os.environ).__getitem__.__code__, type(os.environ).__iter__.__code__))

    def __init__(self) -> None:
        self.codes: dict[types.CodeType, dict[str, Any]] = {}  # what ran, and its globals
        self.on_tensors: set[tuple[types.CodeType, int]] = set()  # instructions that were calls of torch
        self.reseeded: list[str] = []
        self.unrepeatable: list[tuple[str, str]] = []  # (call, line)
        self.settings: collections.Counter[str] = collections.Counter()  # calls of ambient.SETTERS that returned
        self.is_wide = False
        self.reads_environ = False
        self.loggers: dict[int, logging.Logger] = {}  # those that were asked whether they are enabled
        self.is_paused: Callable[[], bool] = lambda: False
        self.edits: dict[int, Edits] = {}  # by id of what is watched
        self._open: list[tuple[Any, Edits, Any]] = []  # calls that may change what is watched: (function, it, before)

    def __call__(self, frame: types.FrameType, event: str, what: Any) -> None:
        if event == "call":
            if frame.f_code in _LOGGING:
                self._logged(frame)
            self._entered(frame)
        elif event == "c_call":
            self._builtin(frame, what)
        elif event != "return":
            self._left(what, event == "c_return")

    def _left(self, what: Any, is_done: bool) -> None:
        """A builtin has ended."""
        if is_done and what.__name__ in SETTERS:
            self.settings[what.__name__] += 1
        if self._open and self._open[-1][0] is getattr(what, "__self__", None):
            _, edits, before = self._open.pop()
            edits.states.append((before, edits.photograph(edits.holder)))

    def _entered(self, frame: types.FrameType) -> None:
        code = frame.f_code
        if code.co_name == "__torch_function__" and frame.f_back is not None:
            self.on_tensors.add((frame.f_back.f_code, frame.f_back.f_lasti))
        if code in self.codes:
            return
        self.codes[code] = frame.f_globals
        self.reads_environ |= code in self._ENVIRON
        if not self._CATCHING.isdisjoint(code.co_names) and not code.co_filename.startswith(LIBRARY):
            self.is_wide = True

    def _builtin(self, frame: types.FrameType, what: Any) -> None:
        name, owner = what.__name__, getattr(what, "__self__", None)
        if isinstance(owner, torch.Tensor):
            return
        edits = self.edits.get(id(owner))
        if edits is not None and edits.holder is owner and name not in _READING and not self.is_paused():
            self._open.append((owner, edits, edits.photograph(owner)))
        if isinstance(owner, torch.Generator):
            if name in self._SEEDING and not self.is_paused():
                self.reseeded.append(f"a generator's state ({name})")
            elif name == "initial_seed" and not self.is_paused():
                self._note(frame, "torch.Generator.initial_seed")
        elif name in self._WHOEVER_CALLS and not self.is_paused():
            self._note(frame, f"{_shown(_home(what, owner), owner)}.{name}")
        elif not frame.f_code.co_filename.startswith(LIBRARY):
            self._of_user(frame, what, name, owner)

    def _of_user(self, frame: types.FrameType, what: Any, name: str, owner: Any) -> None:
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


def resuming(profile: Any) -> tuple[Callable[[Any], object], Any]:
    """The function, and its argument, that takes a thread's profile hook up again. A profiler that is written in C is
    no hook that Python could set: it has to be told to go on. Raises UnsupportedError for one that cannot be."""
    if profile is None or callable(profile):
        return sys.setprofile, profile
    enable = getattr(type(profile), "enable", None)
    if enable is None:
        what = f"a call under the profiler {type(profile).__module__}.{type(profile).__name__}"
        raise UnsupportedError(what, None, "make the first call before it starts")
    return enable, profile
