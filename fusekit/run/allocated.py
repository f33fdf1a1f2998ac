"""Eager on inputs whose bytes lie as ``what_if(allocation=...)`` says: the function on rearranged tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from fusekit.passes.allocated import reading


def rearranged(t: torch.Tensor, chain: str) -> torch.Tensor:
    """The logical tensor that the bytes of ``t`` are, read through the axes of the chain; row-major, as ``t`` is."""
    shape, steps = reading(tuple(t.shape), chain)
    found = t.reshape(shape)
    for kind, how in steps:
        found = found.permute(how) if kind == "permute" else found.reshape(how)
    return found.contiguous()


def on_bytes(fn: Callable[..., object], chains: Mapping[int, str]) -> Callable[..., object]:
    """``fn`` with these leaves of its arguments rearranged first."""
    if not chains:
        return fn

    def call(*args: object, **kwargs: object) -> object:
        leaves: list[Any]
        leaves, spec = tree_flatten((args, kwargs))
        for leaf, chain in chains.items():
            leaves[leaf] = rearranged(leaves[leaf], chain)
        args, kwargs = tree_unflatten(leaves, spec)
        return fn(*args, **kwargs)

    return call
