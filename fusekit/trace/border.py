"""The border of a recording: what stands for tensors while a function is recorded, and must not outlive it.

The function holds *stand-ins*: plain tensors on torch's meta device, which have no memory, so that nothing can be read
from them. They are made here and nowhere else, and the recording lets go of all of them when it ends. One that is still
alive then was taken out by the function, whichever way: it is found, and refused by the name of what holds it. It also
becomes a ``Gone`` tensor, any use of which raises.
"""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import _disable_current_modes

from fusekit.errors import FusekitError, UnsupportedError
from fusekit.trace.quiet import begin_uncollected, end_uncollected

STAYS = "return it, and keep what the call returns"
_STEPS = 6  # references that are followed to find a name for what holds a stand-in


class Gone(torch.Tensor):
    """What was a stand-in of a recording that is over."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in (torch.Tensor.__repr__, torch.Tensor.__str__):  # debuggers show what they find
            return "<a tensor that stood for a result while fusekit recorded; it has no data>"
        what = f"{getattr(func, '__name__', func)}() of a tensor that stood for a result while a function was recorded,"
        raise FusekitError(
            f"{what} and has no data", None, "use what the call returned; a recorded call keeps nothing else"
        )


class Fakes(FakeTensorMode):
    """The fake tensors of one recording: after it they compute nothing."""

    is_over = False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self.is_over:
            raise FusekitError(f"{func} of a fake tensor of a recording that is over", None, STAYS)
        return super().__torch_dispatch__(func, types, args, kwargs or {})


class _Seen(weakref.ref):
    """A weak reference of its own: plain ones to an object are one object."""


class Border:
    """All stand-ins of one run of a function.

    As a context no garbage is collected inside, so that the objects that the function makes are the youngest ones;
    a run that ends in an exception leaves no stand-in behind that could be used.
    """

    def __init__(self) -> None:
        self.stand_ins: dict[int, torch.Tensor] = {}
        self._young: frozenset[int] | None = None

    def __enter__(self) -> Border:
        begin_uncollected()
        gc.collect(0)  # what is young from now on was made inside
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is not None:
                self._abandon(error)
        finally:
            end_uncollected()

    # ---- while the function runs

    def stand_in(self, t: torch.Tensor) -> torch.Tensor:
        """A new stand-in for results like ``t``."""
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
            made.requires_grad_(t.requires_grad)
        return self.watch(made)

    def watch(self, t: torch.Tensor) -> torch.Tensor:
        """The tensor, which has become a stand-in."""
        self.stand_ins[id(t)] = t
        return t

    def is_fresh(self, value: Any) -> bool:
        """Was the object made inside? Objects that hold no others are not known to the collector: made inside."""
        if not gc.is_tracked(value) or any(id(part) in self.stand_ins for part in gc.get_referents(value)):
            return True
        if self._young is None:
            self._young = frozenset(map(id, gc.get_objects(generation=0)))
        return id(value) in self._young

    # ---- when it is over

    def close(self) -> list[torch.Tensor]:
        """Let go of all stand-ins; those that somebody else still holds, or looks at, each of which is Gone now."""
        left = [_Seen(t) for t in self.stand_ins.values()]
        memory = {t.untyped_storage()._cdata: StorageWeakRef(t.untyped_storage()) for t in self.stand_ins.values()}
        watched = [ref for ref in left if weakref.getweakrefcount(ref()) > 1]
        if watched:
            gc.collect(0)
        found = {id(t): t for ref in watched if (t := ref()) is not None and weakref.getweakrefcount(t) > 1}
        self.stand_ins.clear()
        if any(ref() is not None for ref in left):
            gc.collect(0)  # an object of the function's may have held itself
        found.update({id(t): t for ref in left if (t := ref()) is not None})
        aliases = {key for key, ref in memory.items() if not ref.expired()}
        if aliases and not found:  # nn.Parameter(t), say, which is no function of torch
            found.update({id(t): t for t in _meta_tensors() if t.untyped_storage()._cdata in aliases})
        for t in found.values():
            t.__class__ = Gone
        return [*found.values()]

    def _abandon(self, error: BaseException) -> None:
        """Nothing usable is left in the frames and the arguments of an exception."""
        carried = next((e for e in _chain(error) if _carries(e, self.stand_ins)), None)
        for t in self.stand_ins.values():
            t.__class__ = Gone
        self.stand_ins.clear()
        if carried is not None and isinstance(error, Exception) and not isinstance(error, FusekitError):
            what = f"{type(carried).__name__} carries a tensor that the function made, which"
            raise UnsupportedError(what, None, "give it plain values, or return the tensor") from error


def _meta_tensors() -> Iterator[torch.Tensor]:
    for one in gc.get_objects():
        if issubclass(type(one), torch.Tensor) and not issubclass(type(one), (Gone, FakeTensor)) and one.is_meta:
            yield one


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception, those that it came from, and those that it groups."""
    todo, seen = [error], set[int]()
    while todo:
        one = todo.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            todo += [e for e in (one.__cause__, one.__context__, *getattr(one, "exceptions", ())) if e is not None]


def _carries(error: BaseException, stand_ins: dict[int, Any]) -> bool:
    """Is a stand-in among the arguments and attributes of an exception, or in what they hold?"""
    todo: list[Any] = [error.args, vars(error)]
    seen: dict[int, Any] = {}
    while todo and len(seen) < 10_000:
        value = todo.pop()
        if id(value) in stand_ins:
            return True
        if id(value) not in seen and not isinstance(value, _NO_HOLDERS):
            seen[id(value)] = value
            todo += gc.get_referents(value)
    return False


_NO_HOLDERS = (type, types.ModuleType, types.FunctionType, types.FrameType, types.TracebackType, BaseException)


# ---- who holds it


def holder_of(t: torch.Tensor, ours: object = None) -> str:
    """What keeps an object alive, as a person would look for it: ``a list, 'cache' of the module app``."""
    words: list[str] = []
    held: Any = t
    hidden = {id(words), id(ours)}
    for _ in range(_STEPS):
        holders = [one for one in gc.get_referrers(held) if id(one) not in hidden and not _is_ours(one)]
        if not holders:
            break
        holder = min(holders, key=lambda one: isinstance(one, types.FrameType))
        hidden |= {id(holder), id(holders)}
        del holders
        word, is_end = _word(holder, held)
        words += word
        if is_end:
            break
        held = holder
    unseen = "a weak reference" if weakref.getweakrefcount(t) else "something that Python does not show"
    return ", ".join(words) or unseen


def _is_ours(holder: Any) -> bool:
    frame = holder if isinstance(holder, types.FrameType) else None
    return frame is not None and frame.f_globals.get("__name__", "").startswith("fusekit.")


def _word(holder: Any, held: Any) -> tuple[list[str], bool]:
    """(how a person calls a holder, is nothing to be told about what holds it in turn?)."""
    if isinstance(holder, types.FrameType):
        return [f"a frame of {holder.f_code.co_name}() at {holder.f_code.co_filename}:{holder.f_lineno}"], True
    if isinstance(holder, types.CellType):
        return ["a closure variable"], False
    if isinstance(holder, types.FunctionType):
        return [f"the function {holder.__qualname__}()"], True
    if isinstance(holder, dict):
        keys = [key for key, value in holder.items() if value is held]
        name = holder.get("__name__") if "__spec__" in holder or "__builtins__" in holder else None
        if isinstance(name, str):
            return [f"{keys[0]!r} of the module {name}"] if keys else [f"the module {name}"], True
        return [f"a dict, under {keys[0]!r:.40}" if keys else "a dict"], False
    if isinstance(holder, (torch.Tensor, types.ModuleType, type)) or type(holder).__module__ != "builtins":
        kind = holder if isinstance(holder, type) else type(holder)
        return [f"an object of {kind.__module__}.{kind.__qualname__}"], isinstance(holder, type)
    return [f"a {type(holder).__name__}"], False
