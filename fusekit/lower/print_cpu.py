"""Loop-nest IR to Python source for Numba on the CPU. The very same source also runs as plain Python.

Every line is kept with the ops it computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from fusekit.dtypes import DType
from fusekit.ids import NodeId
from fusekit.index import Form, print_form
from fusekit.ir import Graph, Guard
from fusekit.lower import scalars
from fusekit.lower.program import (
    Apply,
    Assign,
    Bits,
    Cases,
    Convert,
    Expr,
    For,
    If,
    Literal,
    Load,
    Name,
    Parameter,
    Position,
    Program,
    Select,
    Snapshot,
    Statement,
    Store,
    Test,
)
from fusekit.ops import functions

WIDTH = 118
RESERVED = frozenset({"np", "math", "prange", "snapshot", "release", "where", *functions()})


@dataclass(frozen=True, slots=True)
class Source:
    """``text`` of a module with one function ``name``; ``lines``: line number (from 1) and the ops it computes."""

    name: str
    text: str
    lines: tuple[tuple[int, tuple[NodeId, ...]], ...]


def print_cpu(program: Program, name: str, graph: Graph, notes: Iterable[str] = ()) -> Source:
    """The source of a program; ``notes`` become comments under the function's head."""
    printer = _Printer(graph)
    printer.indent = 1
    for note in notes:
        printer.put(f"# {note}")
    printer.body(program.body)
    kept = [s for s in program.body if isinstance(s, Snapshot)]
    for snapshot in kept:
        printer.put(f"release({snapshot.name}, {snapshot.first})")
    if not program.body:
        printer.put("pass")
    head = printer.imports()
    head += ["", "", f"def {name}({', '.join(param.name for param in program.params)}):"]
    head = "\n".join(head).split("\n")
    lines = tuple((len(head) + k + 1, ops) for k, (_, ops) in enumerate(printer.lines) if ops)
    return Source(name, "\n".join([*head, *(text for text, _ in printer.lines)]) + "\n", lines)


@dataclass
class _Printer:
    graph: Graph
    indent: int = 0
    lines: list[tuple[str, tuple[NodeId, ...]]] = field(default_factory=list)
    memory: set[str] = field(default_factory=set)
    helpers: set[str] = field(default_factory=set)
    parallel: bool = False

    def put(self, text: str, ops: tuple[NodeId, ...] = ()) -> None:
        self.lines.append(("    " * self.indent + text, ops))
        self.helpers |= scalars.helpers_in(text)

    def imports(self) -> list[str]:
        out = ["import math", "", "import numpy as np"]
        if self.parallel:
            out.append("from numba import prange")
        out.append("")
        homes = {name: functions()[name].__module__ for name in self.helpers}
        out += [_from(home, (n for n in homes if homes[n] == home)) for home in sorted(set(homes.values()))]
        if self.memory:
            out.append(_from("fusekit.run.intrinsics", self.memory))
        return out

    # ---- statements

    def body(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Load():
                self.load(statement)
            case Assign(name, value, _, ops):
                self.commented(f"{name} = {self.expr(value)}", ops)
            case Test(name, guards):
                self.put(f"{name} = {_both([side for guard in guards for side in _sides(guard)])}")
            case Store():
                self.store(statement)
            case Snapshot(name, memory, first, last):
                self.memory |= {"snapshot", "release"}
                self.put(f"{name} = snapshot({memory}, {first}, {last})  # as it was before the stores below")
            case If(cases, body):
                self.put(f"if {_cases(cases)}:")
                self.nested(body)
            case For():
                self.loop(statement)
            case _:
                assert_never(statement)

    def nested(self, body: Iterable[Statement]) -> None:
        self.indent += 1
        self.body(body)
        self.indent -= 1

    def loop(self, loop: For) -> None:
        n, name = loop.var.extent, loop.var.name
        if loop.parallel:
            self.parallel = True
            self.put(f"for k{name[1:]} in prange({n}):")
            self.indent += 1
            self.put(
                f"{name} = np.int64(k{name[1:]})"
            )  # Numba counts a prange in uint64, and uint64 + int64 is float64
            self.indent -= 1
        else:
            self.put(f"for {name} in {f'range({n - 1}, -1, -1)' if loop.reverse else f'range({n})'}:")
        self.nested(loop.body)

    def load(self, load: Load) -> None:
        held = scalars.held(load.dtype)
        self.memory.add(f"load_{held}")
        base, at = _element(load.memory, load.address, load.dtype)
        if load.clamp:
            width = load.dtype.width
            first, last = (
                (edge - load.address.const % width) // width for edge in (load.clamp[0] + width - 1, load.clamp[1])
            )
            at = f"min(max({at}, {first}), {last - 1})"
        self.put(f"{load.name} = {scalars.unpack(f'load_{held}({base}, {at})', load.dtype)}", load.ops)

    def store(self, store: Store) -> None:
        held = scalars.held(store.dtype)
        self.memory.add(f"store_{held}")
        base, at = _element(store.memory, store.address, store.dtype)
        self.put(f"store_{held}({base}, {at}, {scalars.pack(store.value, store.dtype)})", store.ops)

    def commented(self, text: str, ops: tuple[NodeId, ...]) -> None:
        """The user's line as a comment, where it fits."""
        origin = self.graph.op(ops[0]).origin if ops else None
        if origin is not None:
            note = f"  # {origin.file.rsplit('/', 1)[-1]}:{origin.line}"
            if len(text) + len(note) + 4 * self.indent <= WIDTH:
                text += note
        self.put(text, ops)

    # ---- expressions

    def expr(self, expr: Expr) -> str:
        match expr:
            case Name(name):
                return name
            case Literal(value, dtype):
                return scalars.literal(value, dtype)
            case Parameter(number, dtype):
                return scalars.parameter(expr.name, number.example, dtype)
            case Position(form, start, step, dtype):
                return scalars.position(print_form(form), start, step, dtype)
            case Convert(of, source, dtype):
                return scalars.convert(of.name, source, dtype)
            case Bits(of, source, dtype):
                return scalars.bits(of.name, source, dtype)
            case Select(test, inside, outside, _):
                self.memory.add("where")
                return f"where({test}, {inside.name}, {outside.name})"
            case Apply(scalar, operands, _):
                return scalars.apply(scalar, [self.expr(operand) for operand in operands])
            case _:
                assert_never(expr)


def _element(memory: str, address: Form, dtype: DType) -> tuple[str, str]:
    """(base address, number of the element there) as text."""
    rest = address.const % dtype.width
    if any(c % dtype.width for _, c in address.terms):  # every element at its own byte: no common grid
        return f"{memory} + {print_form(address)}", "0"
    base = f"{memory} + {rest}" if rest else memory
    return base, print_form((address - rest).exact_quotient(dtype.width))


def _both(sides: list[str]) -> str:
    """All of them, without the branches of ``and``."""
    return " & ".join(f"({side})" for side in sides) if len(sides) > 1 else sides[0]


def _sides(guard: Guard) -> list[str]:
    """The comparisons of a guard that ranges do not prove; ``0 <= i0 - 3`` reads as ``i0 >= 3``."""
    low, high = guard.form.bounds
    moving, first = print_form(guard.form - guard.form.const), -guard.form.const
    if guard.extent == 1:
        return [f"{moving} == {first}"]
    sides = [f"{moving} >= {first}"] if low < 0 else []
    return sides + ([f"{moving} < {first + guard.extent}"] if high >= guard.extent else [])


def _cases(cases: Cases) -> str:
    def case_text(case: frozenset[tuple[str, bool]]) -> str:
        return " and ".join(test if holds else f"not {test}" for test, holds in sorted(case))

    return " or ".join(sorted(map(case_text, cases)))


def _from(module: str, names: Iterable[str]) -> str:
    names = sorted(names)
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"
