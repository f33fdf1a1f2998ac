"""Signals whose Python handlers wait until something is done that must not be cut in two."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

_Handler = Callable[[int, FrameType | None], Any]


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Inside no handler runs, so none raises (as Ctrl-C's does); those that were called for run at the end, in order.

    Handlers run in the main thread alone: in another one there is nothing to hold. A handler is called as such, not by
    raising its signal again, which would wake an event loop twice.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[_Handler, int, FrameType | None]] = []
    kept: dict[int, _Handler] = {}
    try:
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):
                kept[number] = handler
                signal.signal(number, lambda number, frame, own=handler: came.append((own, number, frame)))
        yield
    finally:
        _restore(kept)
        with contextlib.ExitStack() as stack:  # each runs, whatever another one raises
            for handler, number, frame in reversed(came):
                stack.callback(partial(handler, number, frame))


def _restore(kept: dict[int, _Handler]) -> None:
    """Every handler, also where the first of them is called for at once and raises."""
    try:
        while kept:
            number = next(iter(kept))
            signal.signal(number, kept[number])
            del kept[number]
    finally:
        if kept:
            _restore(kept)
