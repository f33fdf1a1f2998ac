"""Interrupts (Ctrl-C, an alarm) reach the user's function at once, and wait while our code prepares or puts back."""

from __future__ import annotations

import _signal  # pyright: ignore[reportMissingImports] # signal's own functions make an enum of each number, slowly
import signal
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

_SIGNALS = tuple(map(int, signal.valid_signals()))


class Held:
    """Signal handlers of Python run while the user's function does, and else at the end of the ``with``.

    A handler may raise between any two instructions, so no ``finally`` is safe from one. But it is given the frame that
    it interrupts: below ``caller``, which calls the function and is set for just as long, it is the function that is
    interrupted, as eager would be. A call of torch that the function makes is whole, as eager's: what arrives below one
    of ``unbroken`` (which are ours) waits for ``deliver``. Handlers run in the main thread alone; in any other this
    does nothing.
    """

    def __init__(self, *unbroken: CodeType) -> None:
        self._unbroken = frozenset(unbroken)
        self.caller: FrameType | None = None
        self.has_raised = False  # in the function
        self._before: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._late: list[int] = []
        self._is_over = False

    def __enter__(self) -> Held:
        if threading.current_thread() is threading.main_thread():
            try:
                for number in _SIGNALS:
                    handler = _signal.getsignal(number)
                    if callable(handler):
                        self._before[number] = handler
                        _signal.signal(number, self._arrived)
            except BaseException:  # one arrived already: nothing was changed yet
                self._give_back()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True  # what arrives from here on goes to its own handler, ours or not
        try:
            self._give_back()
        finally:
            self._give_back()  # the rest of them, if a handler raised in the midst
            for number in self._late:
                signal.raise_signal(number)

    def deliver(self) -> None:
        """What came during a call that has ended."""
        while self._late and self.caller is not None:
            self._handle(self._late.pop(0), sys._getframe(1))

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self._is_over or self._is_of_the_function(frame):
            self._handle(number, frame)
        else:
            self._late.append(number)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        try:
            self._before[number](number, frame)
        except BaseException:
            self.has_raised = True
            raise

    def _is_of_the_function(self, frame: FrameType | None) -> bool:
        if self.caller is None or frame is self.caller:
            return False
        while frame is not None and frame is not self.caller:
            if frame.f_code in self._unbroken:
                return False
            frame = frame.f_back
        return frame is not None

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            if _signal.getsignal(number) == self._arrived:  # else the function has set another
                _signal.signal(number, handler)
