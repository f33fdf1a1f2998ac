"""Walks over the nested values that torch calls take and give."""

from __future__ import annotations

import collections
from collections.abc import Callable, Container, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import (
    KeyPath,
    SequenceKey,
    TreeSpec,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_structure,
)


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


def is_stand_in(value: Any, stand_ins: Container[int]) -> bool:
    """Is it a tensor that only a recording can have made, or does it hold one? ``stand_ins``: ids of the plain ones."""
    return any(isinstance(t, FakeTensor) or id(t) in stand_ins for t in tree_leaves(value))


# What torch functions answer from the layout of a tensor alone: shape, strides, dtype and state, which a key has.
_OF_LAYOUT = frozenset((
    "__get__", "__set__", "__len__", "__hash__", "__iter__", "size", "dim", "ndimension", "numel", "nelement", "stride",
    "dim_order", "element_size", "is_contiguous", "is_non_overlapping_and_dense", "is_floating_point", "is_complex",
    "is_signed", "is_same_size", "is_conj", "is_neg", "is_inference", "is_pinned", "is_shared", "is_coalesced",
    "has_names", "get_device", "type", "result_type", "can_cast", "sym_size", "sym_stride", "sym_numel",
))  # fmt: skip


def tells_place(function: Callable[..., Any], given: Any, result: Any) -> bool:
    """May a torch function have told where in its storage a tensor begins? That is no tensor's layout: a key knows it
    only of a recording that is exact. So is any answer, about tensors, that is no tensor and not known to come from
    layouts alone: ``storage_offset()``, ``is_set_to()``, a storage."""
    if getattr(function, "__name__", "") in _OF_LAYOUT or all(map(_is_no_answer, _leaves(result))):
        return False
    return next(tensors_in(list(given)), None) is not None


def _is_no_answer(leaf: Any) -> bool:
    return leaf is None or isinstance(leaf, torch.Tensor)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)) and type(value) is not torch.Size:
        for item in value:
            yield from _leaves(item)
    else:
        yield value
