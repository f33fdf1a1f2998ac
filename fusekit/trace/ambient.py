"""Ambient state: what of it changes what a function records, and how a function that failed half way gives it back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils import _device

from fusekit.trace.private import C

_any_autocast, _is_deterministic = C._is_any_autocast_enabled, C._get_deterministic_algorithms
_functions, _dispatches = C._len_torch_function_stack, C._len_torch_dispatch_stack


def ambient() -> tuple[object, ...]:
    """Grad and inference mode, autocast, default dtype and device, deterministic flag, depth of mode stacks."""
    modes = _functions()
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        _autocast() if _any_autocast() else None,
        torch.get_default_dtype(),
        torch.get_default_device() if modes else None,  # set by a function mode, and slow to ask
        _is_deterministic(),
        modes,
        _dispatches(),
    )


def _autocast() -> tuple[object, ...]:
    return tuple((torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda"))


@dataclass(frozen=True, slots=True)
class _Setting:
    """``setter``: the C function that alone changes what is of the whole process; None: it is of this thread.
    ``is_open``: something that has an end, which a function cannot leave out."""

    read: Callable[[], Any]
    write: Callable[[Any], object]
    setter: str | None = None
    is_open: bool = False


_KINDS = tuple(C._autocast_supported_devices())


def _all_autocast() -> tuple[tuple[str, bool, torch.dtype], ...]:
    return tuple((kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _KINDS)


def _set_autocast(rows: tuple[tuple[str, bool, torch.dtype], ...]) -> None:
    for kind, is_on, dtype in rows:
        torch.set_autocast_enabled(kind, is_on)
        torch.set_autocast_dtype(kind, dtype)


def _nesting() -> int:
    C.autocast_increment_nesting()
    return C.autocast_decrement_nesting()


def _set_nesting(depth: int) -> None:
    while _nesting() < depth:
        C.autocast_increment_nesting()
    while _nesting() > depth:
        C.autocast_decrement_nesting()
    if not depth:
        torch.clear_autocast_cache()  # as the outermost autocast does


_guards: list[Any] = []  # of inference mode: one that dies would undo what it did


def _set_inference(is_on: bool) -> None:
    guard = C._InferenceMode(is_on)
    guard.__enter__()
    _guards.append(guard)


def _hooks() -> tuple[bool, str | None]:
    is_on = C._autograd._saved_tensors_hooks_is_enabled()
    return is_on, None if is_on else C._autograd._saved_tensors_hooks_get_disabled_error_message()


def _set_hooks(state: tuple[bool, str | None]) -> None:
    if state[0]:
        C._autograd._saved_tensors_hooks_enable()
    else:
        C._autograd._saved_tensors_hooks_disable(state[1])


def _function_modes() -> list[Any]:
    return [C._get_function_stack_at(k) for k in range(_functions())]


def _set_function_modes(modes: list[Any]) -> None:
    while _functions():
        C._pop_torch_function_stack()
    for mode in modes:
        C._push_on_torch_function_stack(mode)


_default: Any = torch._GLOBAL_DEVICE_CONTEXT  # type: ignore[attr-defined]
_of_modes: Any = _device


def _default_device() -> tuple[Any, Any]:
    return getattr(_default, "device_context", None), _of_modes.CURRENT_DEVICE


def _set_default_device(state: tuple[Any, Any]) -> None:
    _default.device_context, _of_modes.CURRENT_DEVICE = state


def _dispatch_modes() -> list[Any]:
    return [C._get_dispatch_stack_at(k) for k in range(_dispatches())]


def _set_dispatch_modes(modes: list[Any]) -> None:
    while _dispatches():
        C._pop_torch_dispatch_stack(None)
    for mode in modes:
        C._push_on_torch_dispatch_stack(mode)


def _excluded() -> list[bool]:
    return [C._dispatch_tls_is_dispatch_key_excluded(key) for key in _PYTHON]


def _set_excluded(states: list[bool]) -> None:
    for key, state in zip(_PYTHON, states, strict=True):
        C._dispatch_tls_set_dispatch_key_excluded(key, state)


_PYTHON = (C.DispatchKey.Python, C.DispatchKey.PythonTLSSnapshot)


_SETTINGS = (  # levels of transforms first: they hide the rest
    _Setting(
        C._functorch.get_dynamic_layer_stack_depth,
        C._functorch.pop_dynamic_layer_stack_and_undo_to_depth,
        is_open=True,
    ),
    _Setting(_function_modes, _set_function_modes),
    _Setting(_default_device, _set_default_device),
    _Setting(_dispatch_modes, _set_dispatch_modes, is_open=True),
    _Setting(_excluded, _set_excluded, is_open=True),
    _Setting(C._meta_in_tls_dispatch_include, C._set_meta_in_tls_dispatch_include),
    _Setting(torch.is_inference_mode_enabled, _set_inference),
    _Setting(torch.is_grad_enabled, C._set_grad_enabled),
    _Setting(C._is_fwd_grad_enabled, C._set_fwd_grad_enabled),
    _Setting(_hooks, _set_hooks),
    _Setting(_all_autocast, _set_autocast),
    _Setting(_nesting, _set_nesting),
    _Setting(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    _Setting(torch.get_default_dtype, C._set_default_dtype, "_set_default_dtype"),
    _Setting(
        lambda: (C._get_deterministic_algorithms(), C._get_deterministic_algorithms_warn_only()),
        lambda state: C._set_deterministic_algorithms(state[0], warn_only=state[1]),
        "_set_deterministic_algorithms",
    ),
    _Setting(
        C._get_deterministic_fill_uninitialized_memory,
        C._set_deterministic_fill_uninitialized_memory,
        "_set_deterministic_fill_uninitialized_memory",
    ),
)
_DUAL = {"_enter_dual_level": 1, "_exit_dual_level": -1}  # levels of forward mode are of the whole process, too
SETTERS = frozenset(setting.setter for setting in _SETTINGS if setting.setter).union(_DUAL)


class Ambience:
    """The ambient state of this thread as it is now, and what of the process's it may turn."""

    def __init__(self) -> None:
        with C.DisableTorchFunction():
            self._before = [setting.read() for setting in _SETTINGS]
            self._level = forward_ad._current_level

    def put_back(self, calls: Counter[str], is_whole: bool) -> None:
        """What a function left open, and if ``is_whole`` what it set, too. (One that ends well may set it, as eager.)

        ``calls``: how often the function called each of ``SETTERS``, in this thread; what has an end no longer counts.
        """
        with C.DisableTorchFunction():
            for setting, before in zip(_SETTINGS, self._before, strict=True):
                if not (is_whole or setting.is_open) or (setting.setter and not calls.get(setting.setter)):
                    continue
                if setting.read() != before:
                    setting.write(before)
            entered = sum(step * calls.pop(name, 0) for name, step in _DUAL.items())
            for level in reversed(range(self._level + 1, self._level + 1 + entered)):
                C._exit_dual_level(level=level)
                forward_ad._current_level = self._level
