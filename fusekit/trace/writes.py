"""Who wrote it: whether another thread ran, and if so what the recorded function itself can have written."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

from fusekit.trace.origin import LIBRARY
from fusekit.trace.stores import Stores, globals_of, stores_of
from fusekit.trace.watcher import Watcher

# Functions through which names reach a write that no instruction tells of.
_REFLECTIVE = frozenset(("setattr", "delattr", "__setattr__", "__delattr__", "__dict__", "vars", "register_buffer"))
# Functions and methods that write what they are given, not what they are bound to; also where they are handed on.
_WRITERS = frozenset((
    "setitem", "delitem", "iadd", "iconcat", "ior", "iand", "ixor", "isub", "imul", "heappush", "heappop", "heapify",
    "heapreplace", "heappushpop", "insort", "insort_left", "insort_right", "shuffle", "pack_into", "readinto", "exec",
    "eval", "methodcaller", "partial", "map", "starmap", "reduce", "filter", "accumulate", "copyto", "put", "place",
    "putmask", "fill_diagonal", "put_along_axis", "frombuffer", "__setitem__", "__delitem__", "__iadd__", "__ior__",
    "__iand__", "__isub__", "__ixor__", "__imul__",
))  # fmt: skip
_DRAWS = frozenset((
    "rand", "randn", "randint", "random", "random_sample", "ranf", "sample", "choice", "shuffle", "permutation",
    "permuted", "uniform", "normal", "standard_normal", "seed", "bytes", "integers", "beta", "binomial", "exponential",
    "gamma", "poisson", "laplace", "multinomial", "random_integers", "set_state", "lognormal", "geometric", "dirichlet",
))  # fmt: skip


_STATUS = re.compile(rb"State:\s*(\S).*\nvoluntary_ctxt_switches:\s*(\d+)", re.DOTALL)


class Others:
    """The other threads of Python as they are now."""

    def __init__(self) -> None:
        self._now = _moments()

    def have_run(self) -> bool:
        """Has any of them run since? One that waited then and waits now, and has not begun to wait anew, has not."""
        return _moments() != self._now


def _moments() -> dict[int, Any]:
    """For each other thread what changes when it runs; something new each time where nothing tells."""
    me = threading.get_ident()
    return {ident: _waits(ident) for ident in sys._current_frames() if ident != me}


def _waits(ident: int) -> object:
    """How often a thread has begun to wait; something new each time for one that runs, or of which nothing is known.

    A thread that runs Python holds the lock that we hold now, so it has begun to wait for it, at the latest, since.
    (Its processor time would not do: some kernels count it in steps of milliseconds.) The number of its clock tells
    its id in the kernel, whoever started it.
    """
    if sys.platform != "linux":
        return object()
    try:
        task = ~(time.pthread_getcpuclockid(ident) >> 3)
    except OSError:
        return object()
    found = _STATUS.search(_read(b"/proc/self/task/%d/status" % task))
    return object() if found is None or found[1] == b"R" else found[2]


def _read(path: bytes) -> bytes:
    """The head of a file; Python's own functions let other threads run meanwhile, and this must not."""
    libc = ctypes.PyDLL(None)
    file = libc.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if file < 0:
        return b""
    buffer = ctypes.create_string_buffer(4096)
    size = libc.read(file, buffer, len(buffer))
    libc.close(file)
    return buffer.raw[: max(size, 0)]


def _is_numpys(value: Any) -> bool:
    """NumPy, its module of random numbers, or a function of that module?"""
    home = value.__name__ if isinstance(value, types.ModuleType) else type(getattr(value, "__self__", None)).__module__
    return home == "numpy" or home.startswith("numpy.random")


class Writes:
    """What a function can have written, by the code of it that ran in this thread. ``is_alone``: no other thread ran,
    and whatever changed was its doing."""

    def __init__(self, watcher: Watcher, others: Others, is_stand_in: Callable[[Any], bool]):
        self.is_alone = not others.have_run()
        self.is_stand_in = is_stand_in  # a tensor that only the function can have had
        self._watcher = watcher

    # ---- names

    def name(self, name: str) -> bool:
        """An attribute?"""
        own = self._of_users
        return any(name in s.attributes for s in own) or (self._is_reflective and self.mentions(name))

    def a_global(self, space: dict[str, Any], name: str) -> bool:
        return any(held is space and name in stores_of(code).globals for code, held in self._watcher.codes.items())

    def a_cell(self, name: str) -> bool:
        return any(name in stores.cells for stores in self._of_users)

    def ran(self, code: types.CodeType) -> bool:
        return code in self._watcher.codes

    # ---- contents

    def edits(self, holder: Any) -> list[tuple[Any, Any]]:
        """States of a watched object before and after each call of its own methods by this thread."""
        found = self._watcher.edits.get(id(holder))
        return found.states if found is not None and found.holder is holder else []

    @functools.cached_property
    def items(self) -> bool:
        """Items of a container, other than by its methods?"""
        return self.hands_on or any(self._left(code, stores_of(code).items) for code in self._users)

    @functools.cached_property
    def elements(self) -> bool:
        """Elements of an array, which has more ways to be written?"""
        in_place = any(self._left(code, stores_of(code).scalings) for code in self._users)
        return self.items or in_place or self.mentions("out") or self.mentions("fill") or self.mentions("sort")

    def mentions(self, key: object) -> bool:
        return any(key in stores.mentioned for stores in self._of_users) if isinstance(key, str) else False

    @functools.cached_property
    def draws(self) -> bool:
        """Random numbers of a generator of NumPy's? Its methods call no hook."""
        return any(not _DRAWS.isdisjoint(code.co_names) for code in self._users)

    @functools.cached_property
    def draws_of_numpy(self) -> bool:
        """Those of the module's own generator?"""
        return any(
            not _DRAWS.isdisjoint(code.co_names)
            and (
                "numpy" in code.co_names or any(_is_numpys(self._watcher.codes[code].get(n)) for n in globals_of(code))
            )
            for code in self._users
        )

    @functools.cached_property
    def hands_on(self) -> bool:
        """Are things written, or functions called, by functions that were handed them?"""
        return any(not _WRITERS.isdisjoint(stores.mentioned) for stores in self._of_users)

    # ---- the code

    @functools.cached_property
    def _users(self) -> tuple[types.CodeType, ...]:
        return tuple(code for code in self._watcher.codes if not code.co_filename.startswith(LIBRARY))

    @functools.cached_property
    def _of_users(self) -> tuple[Stores, ...]:
        return tuple(map(stores_of, self._users))

    @functools.cached_property
    def _is_reflective(self) -> bool:
        return any(not _REFLECTIVE.isdisjoint(stores.mentioned) for stores in self._of_users)

    def _left(self, code: types.CodeType, offsets: frozenset[int]) -> bool:
        """Is there one among these instructions that was not seen to be a call of torch?"""
        return any((code, offset) not in self._watcher.on_tensors for offset in offsets)
