"""Zero tensors without memory, by which autograd answers an exact zero gradient: as arguments they are filled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

from fusekit.trace.nested import tensors_in


def are_in(values: Any) -> bool:
    """Is one of the tensors in nested values such a zero?"""
    try:
        return any(t.layout == torch.strided and t._is_zerotensor() for t in tensors_in(values))
    except RecursionError:  # a recording refuses values that hold themselves
        return False


def called(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What ``function`` does for zeros that have memory; one that it gives back is the caller's own.

    Raises RuntimeError, as eager does, where one was written.
    """
    filled: dict[int, torch.Tensor] = {}
    own: dict[int, torch.Tensor] = {}

    def fill(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value._is_zerotensor():
            return value
        if id(value) not in filled:
            filled[id(value)] = value.clone()
            own[id(filled[id(value)])] = value
        return filled[id(value)]

    args, kwargs = tree_map(fill, (tuple(args), dict(kwargs)))
    before = [t._version for t in filled.values()]
    out = function(*args, **kwargs)
    if [t._version for t in filled.values()] != before:
        raise RuntimeError("ZeroTensors are immutable. Please use the materialized zero tensor obtained using .clone()")
    return tree_map(lambda value: own.get(id(value), value), out) if own else out
