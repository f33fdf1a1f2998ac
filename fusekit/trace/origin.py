"""The user's line behind the call that is running now."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from types import CodeType

import torch

from fusekit.ir import Origin

_TORCH = os.path.dirname(torch.__file__) + os.sep
_ROOM = os.path.dirname(os.path.abspath(__file__)) + os.sep
_GENERATED = ("<eval_with_key", "<frozen", "<__array_function__")
NOT_USERS = (_TORCH, _ROOM, *_GENERATED)
_STDLIB = os.path.dirname(os.__file__) + os.sep
LIBRARY = (*NOT_USERS, _STDLIB)

UNKNOWN = Origin("?", 0)
_published = threading.local()


@contextlib.contextmanager
def at_line(file: str, line: int) -> Iterator[None]:
    """Ops recorded inside come from this line, whatever the stack says (an FX graph that is being interpreted)."""
    before = getattr(_published, "line", None)
    _published.line = (file, line)
    try:
        yield
    finally:
        _published.line = before


def user_origin(stop: CodeType | None = None) -> Origin:
    """The innermost frame that is neither torch's nor ours, and the nn.Module classes around it.

    ``stop`` is the code of the function that began the recording: nothing above it is the user's program. Where the
    program is all torch's (an nn.Sequential of its layers), the innermost forward stands in.
    """
    found: tuple[str, int] | None = getattr(_published, "line", None)
    forward: tuple[str, int] | None = None
    modules: list[str] = []
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not stop:
        if found is None and is_users(frame.f_code.co_filename):
            found = (frame.f_code.co_filename, frame.f_lineno)
        if forward is None and frame.f_code.co_name == "forward":
            forward = (frame.f_code.co_filename, frame.f_lineno)
        if frame.f_code.co_name == "_call_impl":
            modules.append(type(frame.f_locals.get("self")).__name__)
        frame = frame.f_back
    line = found or forward
    return Origin(*line, modules=".".join(reversed(modules))) if line else UNKNOWN


def line_of_error(error: BaseException) -> Origin | None:
    """The innermost line of the user's that an error went through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.lineno and is_users(f.filename)]
    return Origin(frames[-1].filename, frames[-1].lineno or 0) if frames else None


def is_users(file: str) -> bool:
    return not file.startswith(NOT_USERS) and (not file.startswith(_STDLIB) or "site-packages" in file)


def is_ours(code: CodeType) -> bool:
    """Is it code of this room? In a dispatch mode it may run while the function mode is still on."""
    return code.co_filename.startswith(_ROOM)


def line_of(fn: object) -> Origin | None:
    """Where a function, or a module's forward, is defined; None for what has no code."""
    target = getattr(fn, "forward", fn) if isinstance(fn, torch.nn.Module) else fn
    code = getattr(getattr(target, "__func__", target), "__code__", None)
    return Origin(code.co_filename, code.co_firstlineno) if isinstance(code, CodeType) else None
