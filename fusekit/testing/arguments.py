"""Random arguments: what they look like, and for each call where in memory they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch

from fusekit.testing.choices import Chooser
from fusekit.testing.programs import Buffer, Placement, View

DTYPES = (
    (torch.float32,) * 7 + (torch.int64,) * 3 + (torch.bfloat16, torch.bfloat16, torch.bool, torch.bool)
    + (torch.float64, torch.int32, torch.uint8, torch.float16)
)  # fmt: skip
TINY = (2, 3, 1, 4, 5, 7, 0)
LARGE = (33, 5, 131, 1, 260)
MOST = 40  # elements that a tiny argument may span; a large one: 5000


@dataclass(frozen=True, slots=True)
class Look:
    """What the program sees of an argument: it is the same in every call."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    @property
    def span(self) -> int:
        """Elements from the first to one past the last."""
        return sum(s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True)) + 1 if prod(self.shape) else 0


@dataclass
class Arguments:
    """Makes looks and placements. ``exact``: memory may also be read as another dtype."""

    choose: Chooser
    exact: bool
    large: bool = False

    def looks(self, most: int) -> list[Look]:
        """Of 1 to ``most`` arguments; most of them are of one dtype and broadcast to one shape."""
        c, home, root = self.choose, self.choose.pick(DTYPES), self._shape()
        out: list[Look] = []
        for _ in range(c.number(1, most)):
            if out and c.chance(25):
                out.append(c.pick(out))
                continue
            dtype = c.pick(DTYPES) if c.chance(18) else home
            shape = self._shape() if c.chance(20) else self._part(root)
            out.append(Look(shape, self.strides(shape), dtype))
        return out

    def _shape(self) -> tuple[int, ...]:
        c = self.choose
        sizes = TINY if not self.large else LARGE
        while True:
            dims = c.pick((1, 2, 2, 3, 0, 1))
            shape = tuple(c.pick(sizes if c.chance(6) else [n for n in sizes if n]) for _ in range(dims))
            if prod(shape) <= (5000 if self.large else MOST):
                return shape

    def _part(self, root: tuple[int, ...]) -> tuple[int, ...]:
        """The shape itself, a tail of it, or with ones: what broadcasts to it."""
        c = self.choose
        if c.chance(55):
            return root
        part = root[c.number(0, len(root)) :]
        return tuple(1 if c.chance(25) else n for n in part)

    def strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Dense most of the time; else in another order, with gaps, overlapping itself, or repeated."""
        c, order = self.choose, list(range(len(shape)))
        if c.chance(15):
            order.reverse()
        gap = c.pick((1, 2)) if c.chance(15) else 1
        strides, step = [0] * len(shape), gap
        for k in reversed(order):
            strides[k] = step
            step = step * max(shape[k], 1) + (1 if c.chance(8) else 0)
        if c.chance(6):
            strides = [c.pick((1, 2, 3, 4, 0)) for _ in shape]
        return tuple(strides)

    # ---- places

    def placement(self, looks: Sequence[Look], seed: int) -> Placement:
        """Arguments in memory of their own, in one another's memory, or the same object twice."""
        c = self.choose
        groups: list[list[int]] = []
        twins: dict[int, int] = {}
        for k, look in enumerate(looks):
            same = [j for j in range(k) if looks[j] == look and j not in twins]
            fits = [group for group in groups if self._fit(looks[group[0]].dtype, look.dtype)]
            if same and c.chance(14):
                twins[k] = c.pick(same)
            elif fits and c.chance(84):
                c.pick(fits).append(k)
            else:
                groups.append([k])
        buffers, views = [], dict[int, View]()
        for number, group in enumerate(groups):
            buffer = self._buffer([looks[k] for k in group], seed + number)
            buffers.append(buffer)
            for k in group:
                views[k] = self._view(number, buffer, looks[k])
        for k, other in twins.items():
            look = looks[k]
            views[k] = View(views[other].buffer, look.shape, look.strides, views[other].offset, twin=other)
        return Placement(tuple(buffers), tuple(views[k] for k in range(len(looks))))

    def _fit(self, dtype: torch.dtype, other: torch.dtype) -> bool:
        """May one memory be both? Bits of a bool are 0 or 1, and a sum's last bits are not to be read as an integer."""
        if dtype == other:
            return True
        return self.exact and torch.bool not in (dtype, other) and self.choose.chance(50)

    def _buffer(self, looks: Sequence[Look], seed: int) -> Buffer:
        c, dtype = self.choose, looks[0].dtype
        sizes = [look.span * look.dtype.itemsize for look in looks]
        mixed = any(look.dtype != dtype for look in looks)
        room = sum(sizes) if c.chance(18) else max(sizes) + c.pick((0, 0, 1, 2, 3, 5, 8)) * dtype.itemsize
        room = -(-room // 8) * 8 if mixed else room
        numel = room // dtype.itemsize
        joined = not mixed and dtype != torch.bfloat16 and numel > 0 and c.chance(8)
        return Buffer(numel, dtype, seed, c.chance(8), joined)

    def _view(self, number: int, buffer: Buffer, look: Look) -> View:
        dtype = look.dtype if look.dtype != buffer.dtype else None
        elements = buffer.numel * buffer.dtype.itemsize // look.dtype.itemsize
        if (look.shape, look.strides) == ((elements,), (1,)) and dtype is None:
            return View(number, look.shape, look.strides, 0, whole=True)
        free = max(elements - look.span, 0)
        offset = self.choose.pick((0, free, free // 2, self.choose.number(0, free)))
        return View(number, look.shape, look.strides, offset, dtype=dtype)
