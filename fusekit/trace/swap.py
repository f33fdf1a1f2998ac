"""The function mode of a recording: real tensors become fakes on the way into torch, and real again on the way out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from fusekit.errors import UnsupportedError
from fusekit.trace import refusals
from fusekit.trace.nested import mapped, tensors_in
from fusekit.trace.recorder import Recorder


@dataclass(frozen=True, slots=True)
class TorchCall:
    """One torch function as Python called it, on fakes; ``calls`` is its slice of the recorded calls."""

    function: Callable[..., object]
    args: tuple[object, ...]
    kwargs: dict[str, object]
    calls: tuple[int, int]
    result: object


class Swap(TorchFunctionMode):
    """Arguments and captures are one mechanism: user code holds real tensors, torch sees only their stand-ins.

    A result that is a stand-in is handed back as the real tensor, so ``x is self.w`` and ``self.buf += 1`` hold.
    """

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        self.script: list[TorchCall] = []

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        profile = sys.getprofile()
        sys.setprofile(None)  # what the library does inside a torch call is none of the user's reading
        try:
            with self.recorder.watch_refusals():
                return self._call(func, args, dict(kwargs or {}))
        finally:
            sys.setprofile(profile)

    def _call(self, func: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        recorder = self.recorder
        if func in refusals.FORBIDDEN:
            what, fix = refusals.FORBIDDEN[func]
            raise UnsupportedError(what, recorder.where(), fix)
        on_callers = bool(args) and isinstance(args[0], torch.Tensor) and not isinstance(args[0], FakeTensor)
        if func in refusals.AUTOGRAD_STATE and on_callers:
            what = f"{refusals.AUTOGRAD_STATE[func]} on an argument or captured tensor"
            raise UnsupportedError(what, recorder.where(), refusals.USE_COMPILE)
        if func is torch.Tensor.grad.__get__ and on_callers:  # a captured tensor like any other, by path
            return args[0].grad
        start = len(recorder.calls)
        args, kwargs = mapped(tuple(args), recorder.fake), mapped(kwargs, recorder.fake)
        result = func(*args, **kwargs)
        self.script.append(TorchCall(func, args, kwargs, (start, len(recorder.calls)), result))
        if kwargs.get("out") is not None:
            self._check_out(func, kwargs["out"], start)
        return mapped(result, recorder.real)

    def _check_out(self, func: Callable[..., object], out: object, start: int) -> None:
        """Some composites answer ``out=`` with a fresh tensor when they run on fakes."""
        written = {number for call in self.recorder.calls[start:] for number in call.writes}
        if any(self.recorder.ref(t).index not in written for t in tensors_in(out)):
            what = f"{getattr(func, '__name__', func)}(out=) is not recorded as a write"
            raise UnsupportedError(what, self.recorder.where(), "copy_ the result instead")
