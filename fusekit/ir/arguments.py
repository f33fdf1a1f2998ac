"""Arguments of an op: what stands between its brackets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import NamedTuple, TypeGuard, cast

from fusekit.index import Form


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


def leaves(value: Arg) -> Iterator[Arg]:
    """The argument, or what its (nested) lists hold, in order."""
    if is_tuple(value):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def exact(value: object, operands: Sequence[object] = ()) -> object:
    """A key in which 1, 1.0 and True differ, 0.0 and -0.0 differ, and NaN equals itself; of a payload, of its fields.

    ``operands``: what to put for their numbers.
    """
    if isinstance(value, Operand):
        return ("operand", operands[value.position] if operands else value.position)
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        return (items.__class__.__name__, *(exact(item, operands) for item in items))
    if isinstance(value, bool | int | float | complex):
        return (type(value).__name__, repr(value))
    if isinstance(value, Form) or not is_dataclass(value):
        return value
    return (type(value).__name__, *(exact(getattr(value, f.name), operands) for f in fields(value)))
