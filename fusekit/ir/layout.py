"""Where the elements of a tensor live in a memory block. Everything is in bytes of the block.

Bytes, not elements: joined storages and reinterpreted dtypes then need no special case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from fusekit.dtypes import DType
from fusekit.index import Form, loop_vars


@dataclass(frozen=True, slots=True)
class Layout:
    """Elements of ``dtype`` at ``offset + sum(strides[k] * i_k)`` with ``0 <= i_k < shape[k]``.

    ``offset`` (bytes) is an index form, since a view's offset may hang on a number that the caller passes;
    it is constant unless the graph has parameters. ``strides`` are in bytes and may be 0 or negative.
    """

    offset: Form
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType

    @staticmethod
    def of(offset: int | Form, shape: Sequence[int], strides: Sequence[int], dtype: DType) -> Layout:
        """A layout from bytes; ``offset`` may be a plain int."""
        return Layout(Form.of(offset), tuple(shape), tuple(strides), dtype)

    @staticmethod
    def contiguous(shape: Sequence[int], dtype: DType, offset: int = 0) -> Layout:
        """Row-major and dense, from ``offset`` bytes on."""
        strides: list[int] = []
        step = dtype.width
        for size in reversed(shape):
            strides.append(step)
            step *= max(size, 1)
        return Layout.of(offset, shape, strides[::-1], dtype)

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, each counted once per index."""
        return self.numel * self.dtype.width

    @property
    def extent(self) -> tuple[int, int]:
        """First byte, and one past the last, that the layout may touch whatever its parameters are."""
        low, high = self.offset.bounds
        if not self.numel:
            return low, low
        for stride, size in zip(self.strides, self.shape, strict=True):
            low, high = low + min(0, stride * (size - 1)), high + max(0, stride * (size - 1))
        return low, high + self.dtype.width

    def address(self, index: Sequence[Form] | None = None) -> Form:
        """The byte address of the element at ``index`` (default: at loop variables i0, i1, ...)."""
        form = self.offset
        for stride, position in zip(self.strides, loop_vars(self.shape) if index is None else index, strict=True):
            form = form + position * stride
        return form

    def axes(self) -> tuple[tuple[int, int], ...]:
        """(size, stride) of every dimension longer than one: what decides which bytes are touched, in which order."""
        return tuple((n, s) for n, s in zip(self.shape, self.strides, strict=True) if n > 1)

    def is_same_map(self, other: Layout) -> bool:
        """Do equal positions of the non-unit dimensions mean equal bytes?"""
        return (self.offset, self.dtype.width, self.axes()) == (other.offset, other.dtype.width, other.axes())
