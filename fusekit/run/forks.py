"""Locks that a fork may cut across: a child has one thread, and what others held would be held for ever."""

from __future__ import annotations

import operator
import os
import sys
import threading
import weakref
from types import TracebackType
from typing import Any

_PATIENCE = 20.0  # seconds that a fork waits for kernels that are being compiled
_locks: weakref.WeakSet[Lock] = weakref.WeakSet()
# Locks of Numba and LLVM, in the order in which they are taken; each keeps a reentrant lock as ``_lock``.
_OF_COMPILERS = {"numba.core.compiler_lock": "global_compiler_lock", "llvmlite.binding.ffi": "lib._lock"}


class Lock:
    """A reentrant lock that is free in a child."""

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


COMPILING = Lock()
"""Held while a kernel is compiled or loaded."""
_held: list[Any] = []


def _compilers() -> list[Any]:
    """Of those that are in use."""
    return [
        operator.attrgetter(name)(sys.modules[module])
        for module, name in _OF_COMPILERS.items()
        if module in sys.modules
    ]


def _before() -> None:
    """Waits for kernels that are being compiled: half of Numba's tables is as bad as a lock. In the order in which
    compiling takes them, and not for ever: the thread that compiles may wait for this one."""
    for owner in (COMPILING, *_compilers()):
        lock = owner._lock
        if not lock.acquire(timeout=_PATIENCE):
            break
        _held.append(lock)


def _after() -> None:
    while _held:
        _held.pop().release()


def _in_child() -> None:
    """What this thread holds it will release; what another one held is made anew."""
    _after()
    for owner in (*_locks, *_compilers()):
        if not owner._lock._is_owned():
            owner._lock = threading.RLock()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
