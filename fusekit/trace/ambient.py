"""Ambient state that changes what a function records."""

from __future__ import annotations

import torch


def ambient() -> tuple[object, ...]:
    """Grad and inference mode, autocast, default dtype and device, deterministic flag, depth of mode stacks."""
    modes = torch._C._len_torch_function_stack()
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_enabled("cuda"),
        torch.get_autocast_dtype("cuda"),
        torch.get_default_dtype(),
        torch.get_default_device() if modes else None,  # set by a function mode, and slow to ask
        torch.are_deterministic_algorithms_enabled(),
        modes,
        torch._C._len_torch_dispatch_stack(),
    )
