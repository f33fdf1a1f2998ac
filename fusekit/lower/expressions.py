"""Expressions over named scalars, as a kernel's assignments compute them (statements: ``fusekit.lower.program``).

::

    Expr = Name | Literal | Parameter | Position | Convert | Bits | Apply | Select | Outside
"""

from __future__ import annotations

from dataclasses import dataclass

from fusekit.dtypes import DType
from fusekit.index import Form
from fusekit.ir import Number
from fusekit.ops import Scalar


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


@dataclass(frozen=True, slots=True)
class Outside:
    """Is the integer neither in ``[low, high)`` nor ``ignore``?"""

    of: str
    low: int
    high: int
    ignore: int | None = None


Expr = Name | Literal | Parameter | Position | Convert | Bits | Apply | Select | Outside
