"""Random legal schedules of a reference: splits, also such as do not divide, merges, reorders, and parallel types.

Legal means that the loop domain can be made. A lowering may still refuse one, with a reason; what it does not refuse
must be right.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from fusekit.domains import (
    LoopDomain,
    MergeAxes,
    Parallelize,
    Reference,
    ReorderAxes,
    SplitAligned,
    SplitBy,
    TransformBy,
)
from fusekit.errors import IllegalTransform
from fusekit.ir import Kind, Parallel
from fusekit.schedule import Placements, Schedule

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

FACTORS = (1, 2, 3, 4, 4, 5, 8, 8, 16, 32)
MOST_POINTS = 8  # how many times more iterations than elements a schedule may have
TYPES = (
    (Parallel.BIDx, 1 << 20), (Parallel.BIDy, 65535), (Parallel.TIDx, 256), (Parallel.TIDy, 4), (Parallel.BIDz, 64),
)  # fmt: skip


def random_schedule(reference: Reference, random: Random, moves: int = 6) -> Schedule:
    """At most ``moves`` transforms and a parallel type for each axis; the same ``random`` gives the same schedule."""
    loop = reference.loops()
    done: list[TransformBy] = []
    for _ in range(random.randint(0, moves)):
        move = _move(loop, random)
        try:
            after = loop.then(move)
        except IllegalTransform:
            continue
        if _points(after) <= MOST_POINTS * max(_points(reference.loops()), 8):
            loop = after
            done.append(move)
    types = _types(loop, random)
    placements = Placements(
        random.choice((None, None, ())),
        random.choice(("phase", "phase", "top", "use")),
        (),
        random.choice((0, 0, 1, 2)),
    )
    return Schedule((*done, types), placements)


def schedules(reference: Reference, moves: int = 6) -> SearchStrategy[Schedule]:
    """The same for hypothesis, which shrinks them."""
    from hypothesis import strategies as st

    return st.randoms(use_true_random=False).map(lambda random: random_schedule(reference, random, moves))


def _points(loop: LoopDomain) -> int:
    points = 1
    for extent in loop.extents:
        points *= extent
    return points


def _move(loop: LoopDomain, random: Random) -> TransformBy:
    axis = random.randrange(len(loop))
    match random.choice(("split", "split", "split", "merge", "merge", "reorder", "aligned")):
        case "split":
            return SplitBy(axis, random.choice(FACTORS), random.random() < 0.8)
        case "merge":
            return MergeAxes(max(axis - 1, 0))
        case "aligned" if rows := _rows(loop, axis):
            return SplitAligned(axis, random.choice((2, 4, 8)), random.choice(rows), random.randint(1, 9))
        case _:
            order = list(range(len(loop)))
            random.shuffle(order)
            return ReorderAxes(tuple(order))


def _rows(loop: LoopDomain, axis: int) -> list[int]:
    """Axes that may be the row of an aligned split of ``axis``."""
    return [k for k in range(len(loop)) if k != axis and loop.payload(k).kind is Kind.ITERATION]


def _types(loop: LoopDomain, random: Random) -> Parallelize:
    types = [random.choice((Parallel.SERIAL, Parallel.UNROLL)) if n <= 8 else Parallel.SERIAL for n in loop.extents]
    free = list(range(len(loop)))
    random.shuffle(free)
    for parallel, most in TYPES:
        if free and random.random() < 0.6 and loop.extents[free[-1]] <= most:
            types[free.pop()] = parallel
    lanes = [k for k in free if loop.extents[k] in (2, 4, 8)]
    if lanes and random.random() < 0.6:
        types[random.choice(lanes)] = Parallel.VECTORIZE
    return Parallelize(tuple(types))
