"""Ambient state that changes what a function records."""

from __future__ import annotations

import torch

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
