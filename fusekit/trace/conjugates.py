"""Lazy conj bits that never leave the torch function that made them: there a copy does as well."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from fusekit.errors import UnsupportedError
from fusekit.trace.nested import tensors_in
from fusekit.trace.private import TensorClass

if TYPE_CHECKING:
    from fusekit.trace.recorder import Recorder

FIX = "use conj_physical() or resolve_conj()"
_TELLING = (
    TensorClass.is_conj, TensorClass.resolve_conj, TensorClass.imag.__get__, torch.is_conj, torch.resolve_conj,
    torch.view_as_real, torch.imag, torch.conj, TensorClass.conj,
)  # fmt: skip
"""Torch functions that tell a lazy conjugate from a computed one."""


class Conjugates:
    """Copies that stand for lazy conjugates, by the number of their storage.

    A copy may leave its torch function only where nobody else has the memory that was conjugated (``torch.fft.ihfft``):
    else a later write to one would have to be seen in the other.
    """

    def __init__(self, recorder: Recorder):
        self.recorder = weakref.proxy(recorder)  # which has this: a cycle would keep the caller's tensors for a while
        self._copies: dict[int, bool] = {}  # storage -> may it leave?
        self._since = 0

    def begin(self, func: Callable[..., Any], values: Any) -> None:
        """A torch function is called."""
        self._since = len(self.recorder.rooms())
        if self._copies and func in _TELLING and any(self._is_copy(t) for t in tensors_in(list(values))):
            what = f"{getattr(func, '__name__', func)}() of a tensor with a lazy conj bit"
            raise UnsupportedError(what, self.recorder.where(), FIX)

    def note(self, source: torch.Tensor, copy: torch.Tensor) -> None:
        """``copy`` was recorded for the lazy conjugate of ``source``."""
        of = self.recorder.place(source).storage
        self._copies[self.recorder.place(copy).storage] = of >= self._since or self._copies.get(of, False)

    def end(self, result: Any) -> None:
        """The torch function answers."""
        for t in tensors_in(result) if self._copies else ():
            if self._is_copy(t) and not self._copies[self.recorder.place(t).storage]:
                raise UnsupportedError("a tensor with a lazy conj or neg bit", self.recorder.where(), FIX)

    def _is_copy(self, t: torch.Tensor) -> bool:
        return self.recorder.is_known(t) and self.recorder.place(t).storage in self._copies
