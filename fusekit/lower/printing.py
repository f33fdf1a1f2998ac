"""What the printers of all targets share: lines with the ops they compute, expressions, guards, imports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from fusekit.dtypes import DType
from fusekit.escape import comment
from fusekit.ids import NodeId
from fusekit.index import Form, print_form
from fusekit.ir import Graph, Guard
from fusekit.lower import scalars
from fusekit.lower.expressions import Apply, Bits, Convert, Expr, Literal, Name, Outside, Parameter, Position, Select
from fusekit.lower.program import Cases, Statement

WIDTH = 118
Line = tuple[str, tuple[NodeId, ...]]


@dataclass(frozen=True, slots=True)
class Source:
    """``text`` of a module with one function ``name``; ``lines``: line number (from 1) and the ops it computes."""

    name: str
    text: str
    lines: tuple[tuple[int, tuple[NodeId, ...]], ...]


def source_of(name: str, head: Iterable[str], lines: list[Line]) -> Source:
    """A module: text without ops in front (its strings may have several lines), then the printed lines."""
    top = "\n".join(head).split("\n")
    numbered = tuple((len(top) + k + 1, ops) for k, (_, ops) in enumerate(lines) if ops)
    return Source(name, "\n".join([*top, *(text for text, _ in lines)]) + "\n", numbered)


@dataclass
class Printer:
    """``helpers``: functions of the op table that the text calls; ``memory``: those of the target's runtime."""

    graph: Graph
    indent: int = 0
    lines: list[Line] = field(default_factory=list[Line])
    memory: set[str] = field(default_factory=set[str])
    helpers: set[str] = field(default_factory=set[str])

    def put(self, text: str, ops: tuple[NodeId, ...] = ()) -> None:
        self.lines.append(("    " * self.indent + text, ops))
        self.helpers |= scalars.helpers_in(text)

    def commented(self, text: str, ops: tuple[NodeId, ...]) -> None:
        """The user's line as a comment, where it fits."""
        note = self.note_of(ops)
        self.put(text + note if len(text) + len(note) + 4 * self.indent <= WIDTH else text, ops)

    def note_of(self, ops: tuple[NodeId, ...]) -> str:
        """The user's line as a comment."""
        origin = self.graph.op(ops[0]).origin if ops else None
        return "" if origin is None else f"  # {comment(origin.short)}"

    def statement(self, statement: Statement) -> None:
        raise NotImplementedError

    def body(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            self.statement(statement)

    def nested(self, statements: Sequence[Statement]) -> None:
        self.indent += 1
        self.body(statements)
        self.indent -= 1

    def form(self, form: Form) -> str:
        """The text of a position."""
        return print_form(form)

    def select(self, test: str, inside: str, outside: str) -> str:
        """The text of a choice between two scalars that are both computed."""
        return f"{inside} if {test} else {outside}"

    def expr(self, expr: Expr) -> str:
        match expr:
            case Name(name):
                return name
            case Literal(value, dtype):
                return scalars.literal(value, dtype)
            case Parameter(number, dtype):
                return scalars.parameter(expr.name, number.example, dtype)
            case Position(form, start, step, dtype):
                return scalars.position(self.form(form), start, step, dtype)
            case Convert(of, source, dtype):
                return scalars.convert(of.name, source, dtype)
            case Bits(of, source, dtype):
                return scalars.bits(of.name, source, dtype)
            case Select(test, inside, outside, _):
                return self.select(test, inside.name, outside.name)
            case Apply(scalar, operands, _):
                return scalars.apply(scalar, [self.expr(operand) for operand in operands])
            case Outside(of, low, high, ignore):
                text = f"({of} < {low}) | ({of} >= {high})"
                return text if ignore is None else f"({text}) & ({of} != {ignore})"
            case _:
                assert_never(expr)

    def element(self, memory: str, address: Form, dtype: DType) -> tuple[str, str]:
        """(base address, number of the element there) as text."""
        rest = address.const % dtype.width
        if any(c % dtype.width for _, c in address.terms):  # every element at its own byte: no common grid
            return f"{memory} + {self.form(address)}", "0"
        base = f"{memory} + {rest}" if rest else memory
        return base, self.form((address - rest).exact_quotient(dtype.width))

    def test(self, guards: Iterable[Guard]) -> str:
        """All guards hold: without the branches of ``and``."""
        texts = [side for guard in guards for side in self._sides(guard)]
        return " & ".join(f"({side})" for side in texts) if len(texts) > 1 else texts[0]

    def _sides(self, guard: Guard) -> list[str]:
        """The comparisons of a guard that ranges do not prove; ``0 <= i0 - 3`` reads as ``i0 >= 3``."""
        low, high = guard.form.bounds
        moving, first = self.form(guard.form - guard.form.const), -guard.form.const
        if guard.extent == 1:
            return [f"{moving} == {first}"]
        texts = [f"{moving} >= {first}"] if low < 0 else []
        return texts + ([f"{moving} < {first + guard.extent}"] if high >= guard.extent else [])


def clamped(at: str, address: Form, clamp: tuple[int, int], width: int, count: int = 1) -> str:
    """The number of an element, kept where ``count`` elements from there on lie within bytes ``clamp``."""
    first, last = ends(address, clamp, width)
    return f"min(max({at}, {first}), {last - count})"


def ends(address: Form, clamp: tuple[int, int], width: int) -> tuple[int, int]:
    """(number of the first element that lies within bytes ``clamp``, one past that of the last)."""
    first, last = ((edge - address.const % width) // width for edge in (clamp[0] + width - 1, clamp[1]))
    return first, last


def cases_text(cases: Cases) -> str:
    def case_text(case: frozenset[tuple[str, bool]]) -> str:
        return " and ".join(test if holds else f"not {test}" for test, holds in sorted(case))

    return " or ".join(sorted(map(case_text, cases)))


def import_from(module: str, names: Iterable[str]) -> str:
    names = sorted(names)
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"
