"""The ops of the functional stage, a type each, and the one rule of the language: at which index an op reads each of
its operands when its result is wanted at an index.

What gives each op a meaning (that rule, the lowering, the interpreter) is a ``match`` that ends in ``assert_never``, so
that a type checker finds where a new op was forgotten. Torch's ops are ``Call``; those that are values are functions of
single elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Literal, assert_never, cast

from fusekit.index import ZERO, Form, put
from fusekit.ir.arguments import Arg, Guard, Number, Operand

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Index = tuple[Form, ...]
Shape = tuple[int, ...]
Scalar = bool | int | float | complex | Number
Folding = Literal["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"]


class _Core:
    """What all ops of ours have. ``takes``: how many operands; all else that an op says are its fields."""

    __slots__ = ()
    target: ClassVar[str]
    takes: ClassVar[int] = 1
    writes: ClassVar[tuple[int, ...]] = ()
    same: ClassVar[tuple[tuple[int, int], ...]] = ()

    @property
    def args(self) -> tuple[Arg, ...]:
        """The arguments by position, as text has them."""
        return tuple(map(Operand, range(self.takes)))

    @property
    def kwargs(self) -> tuple[tuple[str, Arg], ...]:
        """The arguments by name, as text has them: without what is None or False by default."""
        pairs = ((f, getattr(self, f.name)) for f in fields(cast("DataclassInstance", self)))
        return tuple((f.name, v) for f, v in pairs if v is not f.default or not (v is None or v is False))


@dataclass(frozen=True, slots=True)
class Input(_Core):
    """The places that the caller passes."""

    target: ClassVar[str] = "fk.input"
    takes: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Return(_Core):
    """``outputs``: the leaves of what the program returns, tensors and others. ``relayout``: (input, operand) of inputs
    whose tensor objects have another layout afterwards."""

    target: ClassVar[str] = "fk.return"
    outputs: tuple[Arg, ...] = ()
    relayout: tuple[tuple[int, Operand], ...] = ()

    @property
    def args(self) -> tuple[Arg, ...]:
        return self.outputs

    @property
    def kwargs(self) -> tuple[tuple[str, Arg], ...]:
        return (("relayout", self.relayout),) if self.relayout else ()


@dataclass(frozen=True, slots=True)
class Load(_Core):
    """The value that a place holds at this point of the order."""

    target: ClassVar[str] = "fk.load"


@dataclass(frozen=True, slots=True)
class Store(_Core):
    """Writes operand 0, a value, to operand 1, a place. ``flush``: stores of one number are one event; ``because``: why
    it could not wait."""

    target: ClassVar[str] = "fk.store"
    takes: ClassVar[int] = 2
    writes: ClassVar[tuple[int, ...]] = (1,)
    flush: int | None = None
    because: str | None = None


@dataclass(frozen=True, slots=True)
class CheckIndex(_Core):
    """Raises where an element of a place is no index.

    One is in ``[0, size)``, or is ``ignore``, or, if it ``wraps``, is in ``[-size, 0)``. ``of`` is the op whose
    error it is, ``error`` that error's class; ``dim`` stands in its text.
    """

    target: ClassVar[str] = "fk.check_index"
    size: int
    dim: int
    of: str
    error: str = "IndexError"
    wraps: bool = False
    ignore: int | None = None


@dataclass(frozen=True, slots=True)
class Window(_Core):
    """``result[i] = value[index(i)]``: slices, permutes, expands, flips, reshapes."""

    target: ClassVar[str] = "fk.window"
    index: Index


@dataclass(frozen=True, slots=True)
class Overlay(_Core):
    """``result[i] = value[index(i)]`` where all guards of ``where`` hold, else ``base[i]``; base is operand 0."""

    target: ClassVar[str] = "fk.overlay"
    takes: ClassVar[int] = 2
    index: Index
    where: tuple[Guard, ...] = ()


@dataclass(frozen=True, slots=True)
class Fill(_Core):
    """One number everywhere."""

    target: ClassVar[str] = "fk.fill"
    takes: ClassVar[int] = 0
    value: Scalar


@dataclass(frozen=True, slots=True)
class Iota(_Core):
    """``result[i] = start + i * step``."""

    target: ClassVar[str] = "fk.iota"
    takes: ClassVar[int] = 0
    start: Scalar = 0
    step: Scalar = 1


@dataclass(frozen=True, slots=True)
class Cast(_Core):
    """Converted to the result's element type, as torch converts."""

    target: ClassVar[str] = "fk.cast"


@dataclass(frozen=True, slots=True)
class Bits(_Core):
    """The same bits read as another element type of the same width."""

    target: ClassVar[str] = "fk.bits"


@dataclass(frozen=True, slots=True)
class Reduce(_Core):
    """The value folded over ``dims``, ascending, which the result has not."""

    target: ClassVar[str] = "fk.reduce"
    kind: Folding
    dims: tuple[int, ...]

    @property
    def is_arg(self) -> bool:
        """Does it give a position, not a value?"""
        return self.kind in ("argmax", "argmin")


@dataclass(frozen=True, slots=True)
class Take(_Core):
    """``result[a, j, b] = source[a, index[j], b]`` for several j, which stand where ``dim`` was."""

    target: ClassVar[str] = "fk.take"
    takes: ClassVar[int] = 2
    dim: int


@dataclass(frozen=True, slots=True)
class Gather(_Core):
    """``result[i] = source[i with index[i] at dim]``."""

    target: ClassVar[str] = "fk.gather"
    takes: ClassVar[int] = 2
    dim: int


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an ATen overload (``aten.add_.Tensor``). ``args`` and ``kwargs`` name tensors by operand number.

    ``writes``: operand numbers whose memory it changes. ``same``: (result, operand) pairs that are one Python object.
    """

    target: str
    args: tuple[Arg, ...] = ()
    kwargs: tuple[tuple[str, Arg], ...] = ()
    writes: tuple[int, ...] = ()
    same: tuple[tuple[int, int], ...] = ()


Effect = Input | Return | Store | CheckIndex
Made = Window | Overlay | Fill | Iota | Cast | Bits | Reduce | Take | Gather  # values, made of values alone
Ours = Effect | Load | Made
Pure = Made | Call
What = Ours | Call
Lookup = Take | Gather
Elementwise = Cast | Bits | Call  # one element of each operand, at the same index, makes one of the result
OURS: tuple[type[Ours], ...] = (
    *(Input, Return, Load, Store, CheckIndex, Window, Overlay, Fill, Iota, Cast, Bits, Reduce, Take, Gather),
)


# ---- the rule -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """Operand number ``operand`` at ``index``: needed where all guards of ``where`` hold, and not all of ``unless``."""

    operand: int
    index: Index
    where: tuple[Guard, ...] = ()
    unless: tuple[Guard, ...] = ()


def reads(
    what: What, index: Index, shape: Sequence[int], operands: Sequence[Sequence[int]], free: Callable[[int], Form]
) -> tuple[Read, ...]:
    """What an op reads of each operand, in their order, when its result, of ``shape``, is wanted at ``index``.

    ``operands``: their shapes. ``free(d)``: the index at dimension ``d`` of operand 0 where that of the result does not
    tell it: the variable that a reduction runs over, or the position that a look-up finds in operand 1.
    """
    match what:
        case Fill() | Iota() | Input():
            return ()
        case Load() | CheckIndex():
            return (Read(0, index),)
        case Window(forms):
            return (Read(0, put(forms, index, shape)),)
        case Overlay(forms, where):
            at = put([guard.form for guard in where], index, shape)
            guards = tuple(Guard(form, guard.extent) for form, guard in zip(at, where, strict=True))
            return Read(0, index, unless=guards), Read(1, put(forms, index, shape), where=guards)
        case Reduce(_, dims):
            kept = iter(index)
            return (Read(0, tuple(free(d) if d in dims else next(kept) for d in range(len(operands[0])))),)
        case Take(dim):
            end = dim + len(operands[1])
            return Read(0, (*index[:dim], free(dim), *index[end:])), Read(1, index[dim:end])
        case Gather(dim):
            return Read(0, (*index[:dim], free(dim), *index[dim + 1 :])), Read(1, index)
        case Call() | Cast() | Bits() | Store() | Return():
            return tuple(Read(k, broadcast_index(own, index)) for k, own in enumerate(operands))
    assert_never(what)


def broadcast_index(shape: Sequence[int], index: Index) -> Index:
    """The index at which an operand of ``shape`` is read when the result is wanted at ``index``."""
    lead = len(index) - len(shape)
    return tuple(ZERO if n == 1 else index[lead + k] for k, n in enumerate(shape))
