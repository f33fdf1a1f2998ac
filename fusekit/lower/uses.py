"""Which names a statement reads and which it makes, including those inside its positions and its body."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from fusekit.index import Form
from fusekit.ir import Number
from fusekit.lower.expressions import Apply, Bits, Convert, Expr, Literal, Name, Outside, Parameter, Position, Select
from fusekit.lower.program import (
    Accumulate,
    Assign,
    Buffer,
    Combine,
    Deliver,
    Finish,
    For,
    Hold,
    If,
    Init,
    Load,
    Snapshot,
    Statement,
    Stop,
    Store,
    Sync,
    Test,
    Tile,
    TileLoad,
    TileStore,
)


def names_in(form: Form) -> tuple[str, ...]:
    """Names of the variables of a form, in a fixed order."""
    return tuple(sorted(var.name for var in form.free))


def expr_reads(expr: Expr) -> Iterator[str]:
    """The names that an expression reads, with those of numbers that the caller passes."""
    match expr:
        case Name(name):
            yield name
        case Literal():
            pass
        case Parameter():
            yield expr.name
        case Position(form, start, step, _):
            yield from names_in(form)
            yield from (f"n{number.index}" for number in (start, step) if isinstance(number, Number))
        case Convert(of) | Bits(of):
            yield of.name
        case Select(test, inside, outside, _):
            yield from (test, inside.name, outside.name)
        case Outside(of=of):
            yield of
        case Apply(scalar, operands, _):
            for operand in operands:
                yield from expr_reads(operand)
            yield from (f"n{number.index}" for number in scalar.numbers)
        case _:
            assert_never(expr)


def reads(statement: Statement) -> Iterator[str]:
    """The names that a statement reads; of a loop and of an ``if`` also those that its body reads."""
    match statement:
        case Load(address=form) | TileLoad(at=form):
            yield from names_in(form)
        case Assign(value=value):
            yield from expr_reads(value)
        case Test(guards=guards):
            for guard in guards:
                yield from names_in(guard.form)
        case Store(value=value, address=form, mask=mask):
            yield value
            yield from names_in(form)
            yield from () if mask is None else (mask,)
        case TileStore(value=value, at=form):
            yield value
            yield from names_in(form)
        case If(cases, body):
            yield from (test for case in cases for test, _ in case)
            yield from reads_of(body)
        case For(body=body, stop=stop):
            yield from names_in(stop or Form())
            yield from reads_of(body)
        case Accumulate(name=name, value=value, position=form, mask=mask):
            yield from (name, value)
            yield from names_in(form or Form())
            yield from () if mask is None else (mask,)
        case Combine(name=name, at=form):
            yield name
            yield from names_in(form)
        case Finish(of=name) | Stop(name=name):
            yield name
        case Init() | Snapshot() | Hold() | Deliver() | Buffer() | Sync() | Tile():
            pass
        case _:
            assert_never(statement)


def reads_of(body: Iterable[Statement]) -> Iterator[str]:
    for statement in body:
        yield from reads(statement)


def walk(body: Iterable[Statement]) -> Iterator[Statement]:
    """Every statement, those inside loops and conditions too."""
    for statement in body:
        yield statement
        if isinstance(statement, If | For):
            yield from walk(statement.body)


def made(statement: Statement) -> str | None:
    """The name that a statement makes or changes."""
    match statement:
        case Load() | Assign() | Test() | Init() | Accumulate() | Combine() | Finish() | TileLoad() | Tile() | Hold():
            return statement.name
        case _:
            return None
