"""What a person writes: transforms of a domain by axis positions, as data. Positions count before the transform."""

from __future__ import annotations

from dataclasses import dataclass

from fusekit.ir import Parallel


@dataclass(frozen=True, slots=True)
class SplitBy:
    """Axis -> outer, inner; ``factor`` is the extent of the inner one, or with ``inner`` False of the outer one."""

    axis: int
    factor: int
    inner: bool = True

    def __str__(self) -> str:
        return f"split({self.axis}, {self.factor}{'' if self.inner else ', outer'})"


@dataclass(frozen=True, slots=True)
class SplitAligned:
    """Axis -> outer, inner, the inner pieces starting at multiples of ``factor`` in memory whatever the row is.

    ``row``: the axis of the rows, which are ``pitch`` elements apart.
    """

    axis: int
    factor: int
    row: int
    pitch: int

    def __str__(self) -> str:
        return f"split_aligned({self.axis}, {self.factor}, row={self.row}, pitch={self.pitch})"


@dataclass(frozen=True, slots=True)
class MergeAxes:
    """Axis and the next one become one, row-major."""

    axis: int

    def __str__(self) -> str:
        return f"merge({self.axis})"


@dataclass(frozen=True, slots=True)
class ReorderAxes:
    """New axis number k is old axis ``order[k]``."""

    order: tuple[int, ...]

    def __str__(self) -> str:
        return f"reorder({', '.join(map(str, self.order))})"


@dataclass(frozen=True, slots=True)
class Parallelize:
    """Who runs each axis, one type an axis."""

    types: tuple[Parallel, ...]

    def __str__(self) -> str:
        return f"parallelize({', '.join(p.name for p in self.types)})"


TransformBy = SplitBy | SplitAligned | MergeAxes | ReorderAxes | Parallelize


def print_chain(transforms: tuple[TransformBy, ...]) -> str:
    """``merge(0).split(0, 1024).parallelize(BIDx, SERIAL)``."""
    return ".".join(map(str, transforms))
