"""Where the elements of a tensor lie, as a chain of transforms of its own that starts at logical.

It knows nothing of loops: an access goes from loops to the logical index, from there to the allocation's index, and
from that to an address. So an allocation may be a split while the loops are not, or are another split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from fusekit.domains.exact import Derived
from fusekit.domains.loop import Axes
from fusekit.domains.transforms import TransformBy
from fusekit.errors import IllegalTransform
from fusekit.index import Form
from fusekit.ir import Merge, Parallel


@dataclass(frozen=True)
class Allocation:
    """``strides`` (elements) and ``contiguity``, one an axis. An axis on devices has the stride 0: it is no memory.

    ``contiguity`` is a promise about any memory it binds to: an axis is contiguous where its stride is the extent times
    the stride of the next one.
    """

    axes: Axes
    strides: tuple[int, ...]
    contiguity: tuple[bool, ...]

    @staticmethod
    def of(
        shape: Sequence[int],
        transforms: Iterable[TransformBy] = (),
        *,
        strides: Sequence[int] | None = None,
        contiguity: Sequence[bool] | None = None,
    ) -> Allocation:
        """A buffer of its own, row-major over the transformed axes unless ``strides`` are given.

        Where a split does not divide, the buffer has padding.
        """
        return Allocation.over(Axes.of(shape).apply(transforms), strides=strides, contiguity=contiguity)

    @staticmethod
    def over(
        axes: Axes, *, strides: Sequence[int] | None = None, contiguity: Sequence[bool] | None = None
    ) -> Allocation:
        dense = tuple(_dense(axes)) if strides is None else tuple(strides)
        if len(dense) != len(axes) or (contiguity is not None and len(contiguity) != len(axes)):
            raise IllegalTransform(f"{len(dense)} strides for {axes}", None, "give one stride and one flag an axis")
        own = replace(Allocation(axes, dense, ()), contiguity=tuple(_contiguity(axes, dense)))
        return own if contiguity is None else replace(own, contiguity=tuple(contiguity)).checked()

    @property
    def size(self) -> int:
        """Elements from the first to past the last that an axis index can reach."""
        if not prod(self.axes.shape):
            return 0
        return 1 + sum(s * (n - 1) for s, n in zip(self.strides, self.axes.extents, strict=True) if s > 0)

    def derive(self, logical: Sequence[Form]) -> Derived:
        return self.axes.graph.derive(dict(zip(self.axes.logical, logical, strict=True)))

    def index(self, logical: Sequence[Form]) -> tuple[Form, ...]:
        """The index in the allocation of the element at this logical index."""
        derived = self.derive(logical)
        return tuple(derived.index.get(i, Form()) for i in self.axes.axes)

    def address(self, logical: Sequence[Form]) -> Form:
        """Elements from the buffer's start (a device's own part of it) to the element at this logical index."""
        form = Form()
        for position, stride in zip(self.index(logical), self.strides, strict=True):
            form = form + position * stride
        return form

    def device(self, logical: Sequence[Form]) -> Form:
        """The number of the device that holds the element; 0 where no axis is on devices."""
        for k, position in enumerate(self.index(logical)):
            if self._is_device(k):
                return position
        return Form()

    def bind(self, strides: Sequence[int]) -> Allocation:
        """The same axes over memory that is there, ``strides`` (elements) being those of the logical dimensions.

        With an axis on devices they are those of one device's own part of the tensor.

        Raises IllegalTransform where a split does not divide, a merge joins what does not lie together, or the
        promised contiguity does not hold.
        """
        graph = self.axes.graph
        known = dict(zip(self.axes.logical, strides, strict=True))
        for expr in graph.exprs:
            whole, (outer, inner) = expr.whole, expr.parts
            factor = graph.ids[inner].extent
            if isinstance(expr.transform, Merge):
                if graph.ids[outer].extent > 1 and known[outer] != known[inner] * factor:
                    fix = "merge only axes that lie together in memory"
                    raise IllegalTransform(f"merging discontiguous {outer} and {inner}", str(self.axes), fix)
                known[whole] = known[inner]
                continue
            if graph.ids[outer].extent * factor != graph.ids[whole].extent:
                cut = f"{graph.ids[whole].extent} into {graph.ids[outer].extent} by {factor}"
                fix = "memory that is there has no padding: split by a divisor"
                raise IllegalTransform(f"an allocation cannot cut {cut}", str(self.axes), fix)
            on_devices = graph.ids[inner].parallel is Parallel.DIDx  # what is elsewhere takes no room here
            known[inner], known[outer] = known[whole], known[whole] * (1 if on_devices else factor)
        own = (0 if self._is_device(k) else known.get(i, 0) for k, i in enumerate(self.axes.axes))
        return replace(self, strides=tuple(own)).checked()

    def checked(self) -> Allocation:
        """Itself, where the strides keep what ``contiguity`` promises."""
        for k, (holds, wanted) in enumerate(zip(_contiguity(self.axes, self.strides), self.contiguity, strict=True)):
            if wanted and not holds:
                what = f"stride {self.strides[k]} of {self.axes.axes[k]} does not fit its contiguity"
                raise IllegalTransform(what, str(self.axes), "mark the axis as not contiguous, or give other strides")
        return self

    def _is_device(self, axis: int) -> bool:
        return self.axes.payload(axis).parallel is Parallel.DIDx


def _dense(axes: Axes) -> Sequence[int]:
    strides: list[int] = []
    step = 1
    for k in reversed(range(len(axes))):
        is_device = axes.payload(k).parallel is Parallel.DIDx
        strides.append(0 if is_device else step)
        step *= 1 if is_device else max(axes.extents[k], 1)
    return strides[::-1]


def _contiguity(axes: Axes, strides: Sequence[int]) -> Sequence[bool]:
    """Does each axis step by the extent of the next one? Axes of one element, or on devices, are left out."""
    found: list[bool] = []
    step = 1
    for k in reversed(range(len(axes))):
        if axes.extents[k] == 1 or axes.payload(k).parallel is Parallel.DIDx:
            found.append(True)
            continue
        found.append(strides[k] == step)
        step = strides[k] * axes.extents[k]
    return found[::-1]
