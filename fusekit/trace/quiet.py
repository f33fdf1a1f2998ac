"""What a recording turns off in the whole process: counted, so that the last recording to end gives back what the first
one found; and of logs and warnings only those of the recording threads."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _python_dispatch

_FAKES_LOG = logging.getLogger("torch._subclasses.fake_tensor")


class _Here(threading.local):
    records = 0  # recordings of this thread, one within another
    borders = 0
    text = ""  # of the warning that is being looked at

    def __init__(self) -> None:
        self.kept: list[list[tuple[str, type[Warning]]]] = []


_here = _Here()


class _Counted:
    """``on`` for the first that begins, ``off`` for the last that ends."""

    def __init__(self, on: Callable[[], None], off: Callable[[], None], mine: Callable[[], int]):
        self.on, self.off, self.mine = on, off, mine
        self.count, self.lock = 0, threading.RLock()
        os.register_at_fork(after_in_child=self._alone)

    def begin(self) -> None:
        with self.lock:
            self.count += 1
            if self.count == 1:
                self.on()

    def end(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                self.off()

    def _alone(self) -> None:
        """A forked child has this thread only; another one may have held the lock."""
        self.lock = threading.RLock()
        before, self.count = self.count, self.mine()
        if before and not self.count:
            self.off()


class _Unlogged(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not _here.records


class _Switches:
    """``in_modes``: flags by which torch tells that a dispatch mode is on; it keeps them for all threads together."""

    def __init__(self) -> None:
        self.in_modes: dict[str, bool] = {}
        self.unlogged = _Unlogged()

    def off(self) -> None:
        self.in_modes = {name: getattr(_python_dispatch, name) for name in _IN_MODES}
        _FAKES_LOG.addFilter(self.unlogged)

    def on(self) -> None:
        _FAKES_LOG.removeFilter(self.unlogged)
        for name, state in self.in_modes.items():
            setattr(_python_dispatch, name, state)
        vars(_python_dispatch)["set_is_in_mode_without_ignore_compile_internals"](self.in_modes[_IN_MODES[-1]])


class _Collector:
    def __init__(self) -> None:
        self.collects = False

    def off(self) -> None:
        self.collects = gc.isenabled()
        gc.disable()

    def on(self) -> None:
        if self.collects:
            gc.enable()


_IN_MODES = (
    "_is_in_torch_dispatch_mode", "_is_in_non_infra_torch_dispatch_mode",
    "_is_in_any_mode_without_ignore_compile_internals",
)  # fmt: skip
_switches = _Switches()
_recordings = _Counted(_switches.off, _switches.on, lambda: _here.records)
_collector = _Collector()
_borders = _Counted(_collector.off, _collector.on, lambda: _here.borders)


def begin_uncollected() -> None:
    """No garbage is collected until ``end_uncollected``: its callbacks would look like calls of the function."""
    _borders.begin()
    _here.borders += 1


def end_uncollected() -> None:
    _here.borders -= 1
    _borders.end()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No log of errors that eager would raise anyway, and no autocast cache that would keep fakes."""
    cache = torch.is_autocast_cache_enabled()  # of this thread
    _recordings.begin()
    _here.records += 1
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(cache)
        _here.records -= 1
        _recordings.end()


class _Asked(type):
    """The class of a category that a warning is of where its thread keeps what it is warned of."""

    def __subclasscheck__(cls, category: type) -> bool:
        if _here.kept:
            _here.kept[-1].append((_here.text, category))
        return bool(_here.kept)


class _Kept(Warning, metaclass=_Asked):
    @staticmethod
    def match(text: str) -> bool:
        """It stands where a filter has the pattern of the text, which is asked before the category."""
        _here.text = text
        return True


# warnings.catch_warnings() is of the whole process: two threads that leave it in another order than they came leave the
# filters of one of them behind for good. A single filter that asks which thread it is can stand beside all others.
_FILTER: Any = ("ignore", _Kept, _Kept, None, 0)


def _add_filter() -> None:
    warnings.filters.insert(0, _FILTER)  # type: ignore[attr-defined]


def _remove_filter() -> None:
    with contextlib.suppress(ValueError):  # a catch_warnings() of others has taken it away
        warnings.filters.remove(_FILTER)  # type: ignore[attr-defined]


_keepers = _Counted(_add_filter, _remove_filter, lambda: len(_here.kept))


@contextlib.contextmanager
def kept_warnings() -> Iterator[list[tuple[str, type[Warning]]]]:
    """The warnings of this thread as (text, category), in place of their being shown."""
    mine: list[tuple[str, type[Warning]]] = []
    _here.kept.append(mine)
    _keepers.begin()
    try:
        yield mine
    finally:
        _keepers.end()
        _here.kept.pop()
