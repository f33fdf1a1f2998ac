"""The function mode of a recording: real tensors become fakes on the way into torch, and real again on the way out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from fusekit.errors import UnsupportedError
from fusekit.trace import refusals
from fusekit.trace.entries import BUFFERS, is_array
from fusekit.trace.nested import mapped, tensors_in
from fusekit.trace.private import C, TensorClass
from fusekit.trace.recorder import Recorder


@dataclass(frozen=True, slots=True)
class TorchCall:
    """One torch function as Python called it, on fakes; ``calls`` is its slice of the recorded calls."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    calls: tuple[int, int]
    result: Any


class ScriptMode(TorchFunctionMode):
    """The function mode of a run that is compared with a script."""


class Swap(TorchFunctionMode):
    """Arguments and captures are one mechanism: user code holds real tensors, torch sees only their stand-ins.

    A result that is a stand-in is handed back as the real tensor, so ``x is self.w`` and ``self.buf += 1`` hold.
    """

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        self.script: list[TorchCall] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        profile = sys.getprofile()
        sys.setprofile(None)  # what the library does inside a torch call is none of the user's reading
        try:
            with self.recorder.watch_refusals():
                return self._call(func, args, dict(kwargs or {}))
        finally:
            sys.setprofile(profile)

    def _call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        recorder = self.recorder
        if func in refusals.FORBIDDEN:
            what, fix = refusals.FORBIDDEN[func]
            raise UnsupportedError(what, recorder.where(), fix)
        if func in refusals.SHARING and args and (is_array(args[0]) or isinstance(args[0], BUFFERS)):
            what = f"{func.__name__}() shares memory with a {type(args[0]).__name__}"
            raise UnsupportedError(what, recorder.where(), refusals.USE_TENSOR)
        on_callers = bool(args) and recorder.is_callers(args[0])
        if func in refusals.AUTOGRAD_STATE and on_callers:
            what = f"{refusals.AUTOGRAD_STATE[func]} on an argument or captured tensor"
            raise UnsupportedError(what, recorder.where(), refusals.USE_COMPILE)
        if func == TensorClass.grad.__get__ and on_callers:  # a captured tensor like any other, by path
            return args[0].grad
        start = len(recorder.calls)
        args, kwargs = mapped(tuple(args), recorder.fake), mapped(kwargs, recorder.fake)
        try:
            result = func(*args, **kwargs)
        except RuntimeError as error:
            if "not linked with support for cuda" in str(error):
                torch.cuda.init()  # raises what eager raises
            raise
        self.script.append(TorchCall(func, args, kwargs, (start, len(recorder.calls)), result))
        if kwargs.get("out") is not None:
            self._check_out(func, kwargs["out"], start)
        return mapped(result, recorder.real)

    def _check_out(self, func: Callable[..., Any], out: Any, start: int) -> None:
        """Some composites answer ``out=`` with a fresh tensor when they run on fakes."""
        written = {number for call in self.recorder.calls[start:] for number in call.writes}
        if any(self.recorder.ref(t).index not in written for t in tensors_in(out)):
            what = f"{getattr(func, '__name__', func)}(out=) is not recorded as a write"
            raise UnsupportedError(what, self.recorder.where(), "copy_ the result instead")


def is_inside() -> bool:
    """Does this run as a part of a function that is being recorded, or compared with its script?"""
    if not C._len_torch_function_stack():
        return False
    return any(isinstance(mode, Swap | ScriptMode) for mode in _get_current_function_mode_stack())
