"""How the bytes of tensors meet: what a key says about aliasing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import torch

from fusekit.trace.program import Place


class Span(NamedTuple):
    """The bytes ``[start, end)`` that a tensor may touch; ``storage`` and ``tensor`` identify the objects."""

    start: int
    end: int
    storage: int
    tensor: int

    @staticmethod
    def of(t: torch.Tensor) -> Span:
        """The span of a tensor in memory; empty where it has no elements."""
        start = t.data_ptr()
        return Span(start, start + extent(t), t.untyped_storage()._cdata, id(t))

    @staticmethod
    def of_storage(t: torch.Tensor) -> Span:
        """The span of all that a tensor's storage holds."""
        storage = t.untyped_storage()
        if t._is_zerotensor():  # it has no memory, and asking for its address is an error
            return Span(0, 0, storage._cdata, id(t))
        return Span(storage.data_ptr(), storage.data_ptr() + storage.nbytes(), storage._cdata, id(t))

    @staticmethod
    def of_place(place: Place, address: int, storage: int, tensor: int) -> Span:
        """The span of a recorded place in a storage at ``address``."""
        start = address + place.offset * place.dtype.itemsize
        if not all(place.sizes):
            return Span(start, start, storage, tensor)
        last = sum((size - 1) * stride for size, stride in zip(place.sizes, place.strides, strict=True))
        return Span(start, start + (last + 1) * place.dtype.itemsize, storage, tensor)


def extent(t: torch.Tensor) -> int:
    """Bytes from a tensor's first element to one past its last."""
    width = t.element_size()
    if t.is_contiguous():
        return t.numel() * width
    if not t.numel():
        return 0
    return (sum((size - 1) * stride for size, stride in zip(t.shape, t.stride(), strict=True)) + 1) * width


def meeting(spans: Sequence[Span]) -> tuple[tuple[int, int, int, bool, bool], ...]:
    """(first, second, bytes apart, one storage object?, one tensor?) of every pair whose spans share a byte, or that
    is one tensor without a byte."""
    order = sorted((k for k, span in enumerate(spans) if span.start < span.end), key=lambda k: spans[k].start)
    found, high = [], 0
    for n, k in enumerate(order):
        span = spans[k]
        if span.start < high:
            for other in order[:n]:
                first = spans[other]
                if span.start < first.end:
                    one = first.storage == span.storage
                    found.append((other, k, span.start - first.start, one, first.tensor == span.tensor))
        high = max(high, span.end)
    if len(order) + 1 < len(spans):
        empty = [k for k, span in enumerate(spans) if span.start >= span.end]
        found += [(a, b, 0, True, True) for a, b in combinations(empty, 2) if spans[a].tensor == spans[b].tensor]
    return tuple(found)
