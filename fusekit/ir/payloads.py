"""What a node or an edge carries: one frozen dataclass each. Relations are edges, so no payload holds a node id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fusekit.dtypes import DType
from fusekit.escape import line
from fusekit.ir import core
from fusekit.ir.arguments import Arg, leaves
from fusekit.ir.domains import Axis, IterDomain, Transform
from fusekit.ir.layout import Layout


@dataclass(frozen=True, slots=True)
class Origin:
    """The user's line that an op comes from; ``modules`` is the path of nn.Module classes around it."""

    file: str
    line: int
    modules: str = ""

    def __str__(self) -> str:
        return line(f"{self.file}:{self.line}")

    @property
    def short(self) -> str:
        """The file without its folders, and the line."""
        return line(f"{self.file.rsplit('/', 1)[-1]}:{self.line}")


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
    """``what`` it computes or does, one type an op (``core``), and the user's line that it is from. ``forward``: it may
    be computed in every segment that needs its value."""

    what: core.What
    origin: Origin | None = field(default=None, compare=False)
    forward: bool = False

    @property
    def target(self) -> str:
        """The op's name: an ATen overload (``aten.add_.Tensor``), or one of ours (``fk.overlay``)."""
        return self.what.target

    @property
    def args(self) -> tuple[Arg, ...]:
        """The arguments by position; tensors are named by operand number."""
        return self.what.args

    @property
    def kwargs(self) -> tuple[tuple[str, Arg], ...]:
        """The arguments by name."""
        return self.what.kwargs

    @property
    def writes(self) -> tuple[int, ...]:
        """Numbers of the operands whose memory the op changes."""
        return self.what.writes

    @property
    def same(self) -> tuple[tuple[int, int], ...]:
        """(result, operand) pairs that are one Python object."""
        return self.what.same

    def leaves(self) -> Iterator[Arg]:
        """Everything that stands between the op's brackets, lists item by item."""
        return leaves((*self.args, *(value for _, value in self.kwargs)))

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

    @property
    def taken_by(self) -> str:
        """The scheduler that took it, where one has, else the kind of segment: the name that a reader is told."""
        return self.by or self.scheduler


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
