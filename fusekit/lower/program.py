"""What a kernel does: a loop nest of statements over named scalars. Nothing here is text of a target.

::

    Program   = params, body
    Statement = Load | Assign | Test | Store | Snapshot | If | For
    Expr      = Name | Literal | Parameter | Position | Convert | Bits | Apply | Select

A scalar of dtype bf16 or f16 is held as the float32 of the same value; loads widen it and stores narrow it.
Positions and addresses are index forms over loop variables and the graph's parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusekit.dtypes import DType
from fusekit.ids import NodeId
from fusekit.index import Form, Var
from fusekit.ir import Guard, Number
from fusekit.ops import Scalar

# An "or" of "and"s of (name of a Test, must it hold?).
Case = frozenset[tuple[str, bool]]
Cases = frozenset[Case]
ALWAYS: Cases = frozenset([frozenset()])


# ---- expressions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Name:
    """A scalar that an earlier statement made."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    value: bool | int | float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that the caller passes, as a scalar of ``dtype``."""

    number: Number
    dtype: DType

    @property
    def name(self) -> str:
        return f"n{self.number.index}"


@dataclass(frozen=True, slots=True)
class Position:
    """``start + step * form``: an element of an arange; a start or step may be a number that the caller passes."""

    form: Form
    start: int | float | Number
    step: int | float | Number
    dtype: DType


@dataclass(frozen=True, slots=True)
class Convert:
    """torch's conversion between dtypes."""

    of: Name
    source: DType
    dtype: DType


@dataclass(frozen=True, slots=True)
class Bits:
    """The same bits, read as another dtype of the same width."""

    of: Name
    source: DType
    dtype: DType


@dataclass(frozen=True, slots=True)
class Apply:
    """A pointwise op; ``operands`` are converted to ``scalar.operands`` already."""

    scalar: Scalar
    operands: tuple[Name | Convert, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Select:
    """``inside`` where the test holds, else ``outside``."""

    test: str
    inside: Name
    outside: Name
    dtype: DType


Expr = Name | Literal | Parameter | Position | Convert | Bits | Apply | Select


# ---- statements ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Load:
    """``name`` is the element at byte ``address`` of ``memory`` (a parameter or a snapshot).

    ``clamp`` (first byte, one past the last) bounds the address where it may be computed outside of its tensor.
    """

    name: str
    memory: str
    address: Form
    dtype: DType
    clamp: tuple[int, int] | None = None
    ops: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class Assign:
    name: str
    value: Expr
    dtype: DType
    ops: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class Test:
    """``name`` says whether all guards hold."""

    name: str
    guards: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class Store:
    memory: str
    address: Form
    value: str
    dtype: DType
    ops: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``name`` stands for ``memory`` as it was before the loops; bytes ``first`` to ``last`` are kept."""

    name: str
    memory: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class If:
    """``body`` where one of the cases holds; the scalars that it makes are zero elsewhere."""

    cases: Cases
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class For:
    """``var`` from 0 up, or from its last value down; ``parallel``: iterations may run at once and in any order."""

    var: Var
    body: tuple[Statement, ...]
    reverse: bool = False
    parallel: bool = False


Statement = Load | Assign | Test | Store | Snapshot | If | For


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
    params: tuple[Param, ...]
    body: tuple[Statement, ...]
