"""Walks over the nested values that torch calls take and give."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import torch


def mapped(value: Any, one: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """``value`` with every tensor in it replaced; the very same object where nothing changed."""
    if isinstance(value, torch.Tensor):
        return one(value)
    kind = type(value)
    if kind is dict or kind is collections.OrderedDict:
        new = {key: mapped(item, one) for key, item in value.items()}
        return value if all(new[key] is value[key] for key in new) else kind(new)
    if kind is slice:
        return slice(mapped(value.start, one), mapped(value.stop, one), mapped(value.step, one))
    if isinstance(value, (list, tuple)) and kind is not torch.Size:
        items = [mapped(item, one) for item in value]
        if all(a is b for a, b in zip(items, value, strict=True)):
            return value
        return kind(*items) if hasattr(value, "_fields") else kind(items)
    return value


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in nested lists, tuples and dicts, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
