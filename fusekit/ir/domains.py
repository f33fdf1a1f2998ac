"""Payloads of iteration domains: how long an axis is, what it runs over, who runs it, and how axes are cut and joined.

A transform is a node between iteration domains. Its Use edges come from what it takes, its Def edges go to what it
makes: ``Split`` takes the whole and makes outer and inner, ``Merge`` takes outer and inner and makes the whole,
``AlignedSplit`` takes the whole and the row that the whole lies in. Reordering and parallelizing make nothing: they
change the positions of Axis edges, and payloads.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from fusekit.ids import NodeId


class Kind(Enum):
    """What running over the axis means for the result: one element a step, a fold over steps, the same element."""

    ITERATION = "iteration"
    REDUCTION = "reduction"
    BROADCAST = "broadcast"


class Parallel(Enum):
    """Who runs the axis: a loop, unrolled statements, vector lanes, blocks, threads or devices."""

    SERIAL = "serial"
    UNROLL = "unroll"
    VECTORIZE = "vectorize"
    BIDx = "BIDx"
    BIDy = "BIDy"
    BIDz = "BIDz"
    TIDx = "TIDx"
    TIDy = "TIDy"
    TIDz = "TIDz"
    DIDx = "DIDx"

    @property
    def is_block(self) -> bool:
        return self.name.startswith("BID")

    @property
    def is_thread(self) -> bool:
        return self.name.startswith("TID")

    @property
    def is_unique(self) -> bool:
        """Does a domain have at most one axis of it?"""
        return self not in (Parallel.SERIAL, Parallel.UNROLL)


@dataclass(frozen=True, slots=True)
class IterDomain:
    """One axis of a domain."""

    extent: int
    kind: Kind = Kind.ITERATION
    parallel: Parallel = Parallel.SERIAL


@dataclass(frozen=True, slots=True)
class Split:
    """whole -> outer, inner. ``factor`` is the extent of the inner one, or with ``inner`` False of the outer one.

    The other extent is rounded up: where the factor does not divide, a bound on the whole stays to be checked.
    """

    factor: int
    inner: bool = True


@dataclass(frozen=True, slots=True)
class AlignedSplit:
    """A split whose inner pieces start at multiples of ``factor`` in memory, in whichever row they are.

    ``whole == outer * factor + inner - (row * pitch) % factor``, rows being ``pitch`` elements apart: positions before
    0 or past the end are bounds to be checked.
    """

    factor: int
    pitch: int


@dataclass(frozen=True, slots=True)
class Merge:
    """outer, inner -> whole, row-major."""


Transform = Split | AlignedSplit | Merge


class DomainKind(Enum):
    """Root and logical are what the program says, loop what the schedule says, allocation what the memory says."""

    ROOT = "root"
    LOGICAL = "logical"
    LOOP = "loop"
    ALLOCATION = "allocation"


@dataclass(frozen=True, slots=True)
class Axis:
    """tensor or segment -> iteration domain: axis number ``position`` of one of its domains.

    The segment in which this holds is in the edge's key, since a tensor at a boundary has other domains on each side.
    ``contiguous`` and ``stride`` (elements) are for allocations; stride None: row-major over the allocation's axes.
    """

    domain: DomainKind
    position: int
    contiguous: bool = True
    stride: int | None = None


class TensorDomain(NamedTuple):
    """Answer of ``Graph.domain``: iteration domains by their ids, in order; the last two are per allocation axis."""

    root: tuple[NodeId, ...] = ()
    logical: tuple[NodeId, ...] = ()
    loop: tuple[NodeId, ...] = ()
    allocation: tuple[NodeId, ...] = ()
    contiguity: tuple[bool, ...] = ()
    strides: tuple[int | None, ...] = ()


def split_extents(whole: int, split: Split) -> tuple[int, int]:
    """Extents of outer and inner."""
    other = -(-whole // split.factor)
    return (other, split.factor) if split.inner else (split.factor, other)


def aligned_extents(whole: int, split: AlignedSplit) -> tuple[int, int]:
    """Extents of outer and inner: a row that starts ``factor - 1`` elements into its first piece must still fit."""
    return -(-(whole + split.factor - 1) // split.factor) if whole else 0, split.factor
