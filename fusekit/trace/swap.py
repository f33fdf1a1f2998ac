"""The function mode of a recording: real tensors become fakes on the way into torch, and real again on the way out."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from fusekit.errors import UnsupportedError
from fusekit.trace import refusals
from fusekit.trace.entries import BUFFERS, is_array
from fusekit.trace.interrupts import Held
from fusekit.trace.nested import mapped, tells_place, tensors_in
from fusekit.trace.oracle import writes_out
from fusekit.trace.origin import is_ours
from fusekit.trace.private import C, TensorClass
from fusekit.trace.quiet import kept_warnings
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

    def __init__(self, recorder: Recorder, held: Held):
        self.recorder, self.held = recorder, held
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
                result = self._call(func, args, dict(kwargs or {}))
            self.held.deliver()
            return result
        finally:
            sys.setprofile(profile)

    def _call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        recorder = self.recorder
        if func in refusals.FORBIDDEN and not is_ours(sys._getframe(2).f_code):
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
        recorder.conjugates.begin(func, (args, kwargs))
        try:
            recorder.is_data = func == TensorClass.data.__get__
            with self._warnings() if "out" in kwargs else contextlib.nullcontext():
                result = func(*args, **kwargs)
        except RuntimeError as error:
            if "not linked with support for cuda" in str(error):
                torch.cuda.init()  # raises what eager raises
            raise
        if kwargs.get("out") is not None and not self._writes(kwargs["out"], start):
            self._fill_out(func, args, kwargs, start)
        recorder.conjugates.end(result)
        recorder.is_exact |= tells_place(func, (args, kwargs), result)
        self.script.append(TorchCall(func, args, kwargs, (start, len(recorder.calls)), result))
        return mapped(result, recorder.real)

    @contextlib.contextmanager
    def _warnings(self) -> Iterator[None]:
        """Warnings of torch's C++ (of a resized ``out=``, say) are of the user's line, and each is given once."""
        with kept_warnings() as seen:
            yield
        line = self.recorder.where()
        if line is not None:
            for text, kind in dict.fromkeys(seen):
                warnings.warn_explicit(text, kind, line.file, line.line)

    def _writes(self, out: Any, start: int) -> bool:
        """Is each ``out=`` among what was written since? Some composites answer a fresh tensor on fakes."""
        recorder = self.recorder
        written = {recorder.first[number].storage for call in recorder.calls[start:] for number in call.writes}
        return all(recorder.place(t).storage in written or not t.numel() for t in tensors_in(out))

    def _fill_out(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], start: int) -> None:
        """``out=`` by its definition, the result copied, in place of the calls since ``start``: unless eager does not
        write it either (``torch.fft.ihfft2`` over one dimension)."""
        recorder, out = self.recorder, list(tensors_in(kwargs["out"]))
        is_written = recorder.asking(lambda: writes_out(func, args, kwargs, recorder.room))
        if is_written is False:
            return
        del recorder.calls[start:]
        results = list(tensors_in(func(*args, **{name: value for name, value in kwargs.items() if name != "out"})))
        if not is_written or [(t.shape, t.dtype) for t in out] != [(t.shape, t.dtype) for t in results]:
            what = f"{getattr(func, '__name__', func)}(out=) is not recorded as a write"
            raise UnsupportedError(what, recorder.where(), "copy_ the result instead")
        for t, result in zip(out, results, strict=True):
            torch.ops.aten.copy_.default(t, result)


UNBROKEN = (Swap._call.__code__, Recorder.__torch_dispatch__.__code__)


def is_inside() -> bool:
    """Does this run as a part of a function that is being recorded, or compared with its script?"""
    if not C._len_torch_function_stack():
        return False
    return any(isinstance(mode, Swap | ScriptMode) for mode in _get_current_function_mode_stack())
