"""What a kernel does: a loop nest of statements over named scalars. Nothing here is text of a target.

::

    Program   = params, body, axes, lanes
    Statement = Load | Assign | Test | Store | Snapshot | Hold | Deliver | Buffer | If | For | Stop
              | Init | Accumulate | Combine | Finish | Sync | Tile | TileStore | TileLoad
    Expr      = as fusekit.lower.expressions has them

A scalar of dtype bf16 or f16 is held as the float32 of the same value; loads widen it and stores narrow it.
Positions and addresses are index forms over loop variables, the axes of the launch, the graph's parameters, and
scalars of dtype i64 that an earlier statement made (a position that data decide).

A reduction is ``Init``, then ``Accumulate`` inside its loops, then ``Combine`` for what other lanes, threads and blocks
have, then ``Finish``, which makes a scalar of it.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass
from enum import Enum

from fusekit.dtypes import DType
from fusekit.ids import NodeId
from fusekit.index import Form, Var
from fusekit.ir import Guard, Number, Parallel
from fusekit.lower.expressions import Expr

ZERO = Form()
# An "or" of "and"s of (name of a Test, must it hold?).
Case = frozenset[tuple[str, bool]]
Cases = frozenset[Case]
ALWAYS: Cases = frozenset([frozenset()])


# ---- statements ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Load:
    """``name`` is the element at byte ``address`` of ``memory`` (a parameter or a snapshot).

    ``clamp`` (first byte, one past the last) bounds the address where it may be computed outside of its tensor.
    ``lanes``: the result is a vector over the program's lanes (see ``is_vector`` for when it is one access).
    """

    name: str
    memory: str
    address: Form
    dtype: DType
    clamp: tuple[int, int] | None = None
    ops: tuple[NodeId, ...] = ()
    lanes: bool = False


@dataclass(frozen=True, slots=True)
class Assign:
    """``lanes``: the result is a vector; operands that are scalars count for every lane."""

    name: str
    value: Expr
    dtype: DType
    ops: tuple[NodeId, ...] = ()
    lanes: bool = False


@dataclass(frozen=True, slots=True)
class Test:
    """``name`` says whether all guards hold. ``lanes``: for each lane of a vector, so that it stands in no ``If``."""

    name: str
    guards: tuple[Guard, ...]
    lanes: bool = False
    ops: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class Store:
    """``mask``: the name of a Test with ``lanes``; lanes where it does not hold are not stored."""

    memory: str
    address: Form
    value: str
    dtype: DType
    ops: tuple[NodeId, ...] = ()
    lanes: bool = False
    mask: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``name`` stands for ``memory`` as it was before the loops; bytes ``first`` to ``last`` are kept.

    Snapshots lead the body. On CUDA they are copies in front of the launch, whose addresses are further parameters.
    """

    name: str
    memory: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Hold:
    """``name`` stands for ``memory`` for stores to bytes ``first`` to ``last``, which wait until all loads are done.

    They are elements of ``dtype``, and every one of them is stored. Behind the snapshots in the body.
    """

    name: str
    memory: str
    first: int
    last: int
    dtype: DType

    @property
    def size(self) -> int:
        return self.last - self.first


@dataclass(frozen=True, slots=True)
class Deliver:
    """What waits in ``holds`` moves to its memory: on a GPU by the last block, all others end here. Ends the body."""

    holds: tuple[Hold, ...]


@dataclass(frozen=True, slots=True)
class Buffer:
    """``name`` is memory of the kernel's own, ``size`` bytes, given back at its end (on a CPU only)."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class If:
    """``body`` where one of the cases holds; the scalars that it makes are zero elsewhere."""

    cases: Cases
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class For:
    """``var`` from 0 up, or from its last value down; ``parallel``: iterations may run at once and in any order.

    ``stop``: the loop ends there where that comes before the extent of ``var``.
    """

    var: Var
    body: tuple[Statement, ...]
    reverse: bool = False
    parallel: bool = False
    stop: Form | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Where the bool ``name`` is true the kernel ends here. A CPU's returns 1 instead of 0; a GPU's asserts, as eager
    does. Stops, and the loops that find what they hang on, lead the body: nothing is stored before.
    """

    name: str


# ---- reductions ---------------------------------------------------------------------------------------------------


class Fold(Enum):
    """How elements are folded. Maximum and minimum keep NaN; the arg-folds take NaN for the extreme, and of equals the
    first position."""

    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    ANY = "any"
    ALL = "all"
    ARGMAX = "argmax"
    ARGMIN = "argmin"

    @property
    def is_arg(self) -> bool:
        return self in (Fold.ARGMAX, Fold.ARGMIN)


@dataclass(frozen=True, slots=True)
class Init:
    """The accumulator ``name`` starts: the identity of ``fold`` in ``dtype``. With ``lanes``, one for each lane.

    ``count``: how many accumulators in memory of the thread's own, where it is not one register (on a CPU only).

    An arg-fold's accumulator is a pair: the extreme, of ``dtype``, and its position, an i64 that starts at 0 (an
    extreme at its identity, at the same position, is replaced by anything that is not worse).
    """

    name: str
    fold: Fold
    dtype: DType
    lanes: bool = False
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Accumulate:
    """One element more: ``value`` (a scalar of ``source``, or with ``lanes`` a vector) into accumulator ``name``.

    ``position`` is for arg-folds: the row-major number of the element among those that are folded. The order of
    elements does not matter, so a sum may be reassociated. ``at``: which of several accumulators. ``mask``: the name of
    a Test with ``lanes``; lanes where it does not hold add nothing.
    """

    name: str
    fold: Fold
    value: str
    source: DType
    dtype: DType
    position: Form | None = None
    lanes: bool = False
    ops: tuple[NodeId, ...] = ()
    at: Form | None = None
    mask: str | None = None


@dataclass(frozen=True, slots=True)
class Combine:
    """The accumulator becomes that of all lanes, of all threads along ``axes``, or of all blocks along ``axes``.

    over "lanes": a vector becomes a scalar. "threads": every thread gets the whole; it is outside of any condition.
    ``slot``: its own number, for shared memory. "blocks": partial results go to scratch memory at ``at`` (elements,
    below ``size``); only the last block goes on with the whole, all others end here. "grid": the same, but all blocks
    wait for one another here, and each goes on with the whole. ``alike``: axes of a block along which every thread has
    found the same; "blocks" and "grid" share their work out to these.
    """

    name: str
    fold: Fold
    dtype: DType
    over: typing.Literal["lanes", "threads", "blocks", "grid"]
    axes: tuple[LaunchAxis, ...] = ()
    slot: int = 0
    at: Form = ZERO
    size: int = 1
    lanes: bool = False
    alike: tuple[LaunchAxis, ...] = ()


@dataclass(frozen=True, slots=True)
class Finish:
    """``name`` is the scalar of ``dtype`` that accumulator ``of`` (in ``source``), number ``at``, has found."""

    name: str
    of: str
    fold: Fold
    source: DType
    dtype: DType
    ops: tuple[NodeId, ...] = ()
    lanes: bool = False
    at: Form | None = None


# ---- shared memory ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tile:
    """Shared memory of a block: ``size`` elements."""

    name: str
    dtype: DType
    size: int


@dataclass(frozen=True, slots=True)
class TileStore:
    tile: str
    at: Form
    value: str
    dtype: DType
    lanes: bool = False


@dataclass(frozen=True, slots=True)
class TileLoad:
    name: str
    tile: str
    at: Form
    dtype: DType
    lanes: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    """All threads of a block wait for one another."""


Statement = (
    Load | Assign | Test | Store | Snapshot | Hold | Deliver | If | For | Stop
    | Init | Accumulate | Combine | Finish | Sync | Buffer | Tile | TileStore | TileLoad
)  # fmt: skip


# ---- programs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LaunchAxis:
    """An index that the launch provides: of a block or of a thread."""

    var: Var
    parallel: Parallel


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of the kernel: the address of a memory block (``node``), or a number of the graph."""

    name: str
    node: NodeId | None = None
    number: Number | None = None

    @property
    def kind(self) -> str:
        """``address``, ``int`` or ``float``."""
        if self.number is None:
            return "address"
        return "float" if isinstance(self.number.example, float) else "int"


@dataclass(frozen=True, slots=True)
class Program:
    """``axes`` are given by the launch; a CPU has none. ``lanes``: the variable of vectors, in addresses."""

    params: tuple[Param, ...]
    body: tuple[Statement, ...]
    axes: tuple[LaunchAxis, ...] = ()
    lanes: Var | None = None


def is_vector(address: Form, width: int, lanes: Var) -> bool:
    """Are the lanes of an access one aligned vector? (Else each lane is an access of its own.)"""
    rest = address - Form.of(lanes) * width
    return address.coefficient(lanes) == width and rest.is_divisible(width * lanes.extent)
