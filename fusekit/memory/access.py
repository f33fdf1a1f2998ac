"""What a race is about: accesses of a kernel to real memory, and the verdict on a pair of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from fusekit.ids import NodeId
from fusekit.index import Form
from fusekit.ir import Guard

INNERMOST = 99
NONE_NEEDED = "none needed"
BEFORE_LOOP, BEFORE_INNER = "read before the loop", "read before the inner loop"
FORWARD, BACKWARD = "loop order forward", "loop order backward"
BARRIER, PAIRING, LAST_BLOCK = "block barrier", "pairing of orbits", "store left to the last block"
GRID = "barrier of all blocks"
SNAPSHOT, LAUNCH = "snapshot", "another launch"


class Verdict(Enum):
    """When a load and a store touch one byte; TOO_HARD counts as ACROSS."""

    NEVER = "never"
    SAME_ITERATION = "same iteration"
    ACROSS = "across iterations"
    TOO_HARD = "too hard"


class Unless(NamedTuple):
    """Not all of ``guards`` hold."""

    guards: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """One access of a kernel to real memory, under *all* of its guards ("or" means several accesses).

    ``address``: the byte of ``block`` over the loop's variables, inner and reduction variables and parameters; None
    where data decides it. ``extent``: the bytes of the whole layout, which a snapshot keeps. ``depth``: how many loops
    are around it; a load in fewer than all of them runs before the loops inside it. ``ops``: whose access it is.
    """

    block: object
    address: Form | None
    width: int
    extent: tuple[int, int]
    guards: tuple[Guard | Unless, ...] = ()
    depth: int = INNERMOST
    ops: tuple[NodeId, ...] = field(default=(), compare=False)


class Refused(NamedTuple):
    """A remedy that was looked at and not taken, and why."""

    remedy: str
    why: str


@dataclass(frozen=True, slots=True)
class Race:
    """``forward``: every conflict loads at an iteration before the store's, so loops that run upwards are right;
    ``backward`` the other way round. ``together``: every conflict is among threads of one block, in one pass of the
    loops around both; such loops run in no order.

    ``remedy`` is empty until ``remedies`` chose one; ``considered``: the others.
    """

    load: Access
    store: Access
    verdict: Verdict
    forward: bool = True
    backward: bool = True
    remedy: str = NONE_NEEDED
    together: bool = False
    considered: tuple[Refused, ...] = ()
