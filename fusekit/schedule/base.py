"""What a scheduler is, and the few steps that all of them write chains with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

from fusekit.domains import LoopDomain, MergeAxes, Parallelize, ReorderAxes, SplitAligned, SplitBy, TransformBy
from fusekit.ids import NodeId
from fusekit.ir import Graph, Parallel
from fusekit.schedule.look import Look
from fusekit.schedule.record import Placements, Schedule
from fusekit.why import Reason

Target = Literal["cpu", "cuda"]
B, BY, T, TY = Parallel.BIDx, Parallel.BIDy, Parallel.TIDx, Parallel.TIDy
S, U, V = Parallel.SERIAL, Parallel.UNROLL, Parallel.VECTORIZE

SMALL = 16384  # elements below which starting threads costs a CPU more than the loop
BLOCKS = 16  # blocks that are enough for a CPU's threads
CHUNK = 8192  # elements of one block of a flat loop on a CPU
TOGETHER = 256  # blocks that may wait for one another, two on each multiprocessor of a large GPU


Cost = tuple[int, int]  # further launches, and bytes that they copy, which a schedule needs to be safe


class Lowers(Protocol):
    """Asks the lowering, which stands in a room below, whether a schedule lowers."""

    def __call__(self, graph: Graph, segment: NodeId, schedule: Schedule, target: Target) -> Cost | Reason:
        """What it costs, or why it does not lower."""
        ...


class Scheduler(Protocol):
    """Frozen dataclasses; their fields are their options."""

    name: ClassVar[str]

    def accepts(self, graph: Graph, segment: NodeId) -> Reason | None:
        """Why it does not schedule this segment; None when it does."""
        ...

    def schedule(self, graph: Graph, segment: NodeId, target: Target) -> Schedule:
        """A schedule of a segment that it accepts."""
        ...


@dataclass
class Chain:
    """A chain under construction: every link is applied at once, so an illegal one never gets into a schedule."""

    loop: LoopDomain
    links: list[TransformBy] = field(default_factory=list[TransformBy])

    def then(self, *links: TransformBy) -> Chain:
        for link in links:
            self.loop = self.loop.then(link)
            self.links.append(link)
        return self

    def split(self, axis: int, factor: int, inner: bool = True) -> Chain:
        return self.then(SplitBy(axis, factor, inner))

    def split_aligned(self, axis: int, factor: int, row: int, pitch: int) -> Chain:
        return self.then(SplitAligned(axis, factor, row, pitch))

    def reorder(self, order: Sequence[int]) -> Chain:
        return self if list(order) == list(range(len(order))) else self.then(ReorderAxes(tuple(order)))

    def merge(self, axis: int, count: int = 2) -> Chain:
        """``count`` axes from ``axis`` on become one."""
        return self.then(*[MergeAxes(axis)] * (count - 1))

    def done(self, *types: Parallel, placements: Placements | None = None) -> Schedule:
        self.then(Parallelize(types))
        return Schedule(tuple(self.links), placements or Placements())

    @property
    def extents(self) -> tuple[int, ...]:
        return self.loop.extents


def start(seen: Look, groups: Sequence[Sequence[int]]) -> Chain:
    """Dimensions in the order of ``groups``, each group one axis; an empty space keeps its one axis."""
    chain = Chain(seen.reference.loops())
    if not seen.reference.shape:
        return chain
    chain.reorder([k for group in groups for k in group])
    for axis, group in enumerate(groups):
        chain.merge(axis, len(group))
    return chain


def split_order(seen: Look) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Kept dimensions and folded ones, each with long steps outside."""
    reduced = seen.reference.reduced
    return tuple(k for k in seen.order if k not in reduced), tuple(k for k in seen.order if k in reduced)


def cpu_blocks(chain: Chain, kept: int) -> Schedule:
    """For a CPU: outer kept axes on blocks, the rest serial. ``kept``: axes that no fold runs over.

    Kept axes are joined until there are blocks enough; a single one, with no fold inside, is cut into chunks.
    """
    total = 1
    for extent in chain.extents:
        total *= extent
    if total < SMALL or not kept:
        return chain.done(*[S] * len(chain.loop))
    if kept == 1 and len(chain.loop) == 1:
        return chain.split(0, chunk_of(chain.extents[0])).done(B, S)
    alone = kept == len(chain.loop)
    while kept > 1 + alone and chain.extents[0] < BLOCKS:
        chain.merge(0)
        kept -= 1
    return chain.done(B, *[S] * (len(chain.loop) - 1))


def chunk_of(extent: int) -> int:
    """A divisor near the wanted chunk, so that no iteration needs a bound; where there is none, the chunk itself."""
    return next((d for d in range(min(CHUNK, extent), CHUNK // 16, -1) if extent % d == 0), CHUNK)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def fitting(extent: int, n: int) -> int:
    """The largest of n, n/2, n/4, ... that divides."""
    while extent % n:
        n //= 2
    return n


def row_threads(columns: int, n: int, vectors: int = 4, most: int = 1024) -> int:
    """Threads of a row: a power of two that leaves about ``vectors`` vectors of ``n`` to each."""
    threads = 32
    while threads < most and threads * n * vectors < columns:
        threads *= 2
    return threads


def column_threads(columns: int, n: int, threads: int = 256) -> tuple[int, int]:
    """(threads along columns, ``n`` of them to each; threads along rows): a warp where columns are that many.

    The second is a power of two, which divides most numbers of rows.
    """
    across = max(min(ceil_div(columns, n), 32), 1)
    return across, 1 << (max(threads // across, 1).bit_length() - 1)


def looked(seen: Look | None) -> Look:
    """The look at a segment that was accepted."""
    assert seen is not None, "a segment that computes nothing is not accepted"
    return seen
