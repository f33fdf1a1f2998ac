"""Walks over the nested values that torch calls take and give."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import KeyPath, SequenceKey, TreeSpec, tree_flatten, tree_flatten_with_path, tree_structure


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


def keyed_leaves(tree: Any) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """(path, leaf) of nested containers, and their structure; numbers where a registered class tells no paths."""
    try:
        return tree_flatten_with_path(tree)
    except ValueError:
        return [*_keyed(tree, ())], tree_structure(tree)


def _keyed(tree: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    parts, _ = tree_flatten(tree, is_leaf=lambda value: value is not tree)
    if len(parts) == 1 and parts[0] is tree:
        yield path, tree
        return
    try:
        keys = [key for key, _ in tree_flatten_with_path(tree, is_leaf=lambda value: value is not tree)[0]]
    except ValueError:
        keys = [(SequenceKey(k),) for k in range(len(parts))]
    for key, part in zip(keys, parts, strict=True):
        below: Any = (*path, *key)
        yield from _keyed(part, below)
