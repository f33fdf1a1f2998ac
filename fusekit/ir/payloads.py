"""What a node or an edge carries: one frozen dataclass each. Relations are edges, so no payload holds a node id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeGuard

from fusekit.dtypes import DType
from fusekit.index import Form
from fusekit.ir.domains import Axis, IterDomain, Transform
from fusekit.ir.layout import Layout


@dataclass(frozen=True, slots=True)
class Origin:
    """The user's line that an op comes from; ``modules`` is the path of nn.Module classes around it."""

    file: str
    line: int
    modules: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


# ---- arguments of an op -------------------------------------------------------------------------------------------


class Operand(NamedTuple):
    """The op's operand number ``position`` (a Use edge says which tensor)."""

    position: int


class Number(NamedTuple):
    """Parameter ``index`` of the graph: a Python number that may differ from call to call; ``example`` was recorded."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]  (tuple.index, which nobody asks here)
    example: int | float


class Symbol(NamedTuple):
    """A named constant of torch, kept by name: ``torch.contiguous_format``, ``device:cpu``, ``leaf:3``."""

    name: str


class Guard(NamedTuple):
    """The condition ``0 <= form < extent``."""

    form: Form
    extent: int


# bool, int, float, complex, str, None, DType, Operand, Number, Symbol, Form, Guard, or a tuple of such
Arg = object


def is_tuple(value: object) -> TypeGuard[tuple[Arg, ...]]:
    """Is the argument a list of arguments? What is a NamedTuple is one argument."""
    return type(value) is tuple


# ---- the words of nodes ---------------------------------------------------------------------------------------------

DEVICES = ("cpu", "cuda")  # of a block; a number may follow: cuda:0
KINDS = ("argument", "capture", "constant", "fresh")
ROLES = ("input", "alias", "new")
SCHEDULERS = ("pointwise", "extern", "alias")

# ---- nodes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor: a value (no Lives edge) or a place in memory (one Lives edge that gives its layout)."""

    dtype: DType
    shape: tuple[int, ...]
    name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Op:
    """One call. ``target`` is an ATen overload (``aten.add_.Tensor``) or one of ours (``fk.overlay``).

    ``writes``: operand numbers whose memory the op changes. ``same``: (result, operand) pairs that are one Python
    object. ``args`` and ``kwargs`` name tensors by operand number. ``forward``: the op may be computed in every
    segment that needs its value.
    """

    target: str
    args: tuple[Arg, ...] = ()
    kwargs: tuple[tuple[str, Arg], ...] = ()
    writes: tuple[int, ...] = ()
    same: tuple[tuple[int, int], ...] = ()
    origin: Origin | None = field(default=None, compare=False)
    forward: bool = False

    def kwarg(self, name: str, default: Arg = None) -> Arg:
        return next((value for key, value in self.kwargs if key == name), default)


@dataclass(frozen=True, slots=True)
class Block:
    """A memory block of ``nbytes`` bytes; ``kind``: argument, capture, constant, or fresh (made by the program)."""

    nbytes: int
    device: str
    kind: str


@dataclass(frozen=True, slots=True)
class Segment:
    """Ops that run together. ``scheduler``: pointwise, alias or extern; ``space``: the iteration space they share.

    ``by`` is the scheduler that wrote ``schedule``, the chain of transforms and placements as text; both are empty
    before the schedule pass.
    """

    scheduler: str
    space: tuple[int, ...] = ()
    by: str = ""
    schedule: str = ""


# ---- edges --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Use:
    """tensor -> op, or iteration domain -> transform: operand number ``operand``."""

    operand: int


@dataclass(frozen=True, slots=True)
class Def:
    """op -> tensor, or transform -> iteration domain: result number ``result``."""

    result: int


@dataclass(frozen=True, slots=True)
class Lives:
    """tensor -> block: where its elements are. ``role``: input, alias, new."""

    layout: Layout
    role: str


@dataclass(frozen=True, slots=True)
class Ordering:
    """op -> op: the second must come after. ``kinds``: some of RAW, WAR, WAW; ``where``: on which elements."""

    kinds: tuple[str, ...]
    where: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """segment -> op, ``order`` within the segment."""

    order: int


@dataclass(frozen=True, slots=True)
class Boundary:
    """segment -> segment: the tensor that crosses is the edge's key; ``nbytes`` is what is written and read again."""

    nbytes: int


Node = Tensor | Op | Block | Segment | IterDomain | Transform
Edge = Use | Def | Lives | Ordering | Member | Boundary | Axis
