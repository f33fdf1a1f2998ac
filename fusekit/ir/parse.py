"""Text back to a graph. Every mistake is a TextSyntaxError with its line."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from fusekit.dtypes import BY_NAME, DType
from fusekit.errors import TextSyntaxError
from fusekit.escape import unsymbol, unword
from fusekit.ids import NodeId
from fusekit.index import Form, Var, number_var, parse_form
from fusekit.ir.arguments import Guard, Number, Operand, Symbol
from fusekit.ir.core_text import read_op
from fusekit.ir.domain_text import read_domain_line
from fusekit.ir.draft import Draft
from fusekit.ir.graph import Graph, empty_graph
from fusekit.ir.invariants import COMMON
from fusekit.ir.layout import Layout
from fusekit.ir.payloads import Block, Boundary, Op, Ordering, Segment, Tensor
from fusekit.kinds import TEXT, expect

_TOKEN = re.compile(
    r"\s*(?:(?P<tensor>%[\w.]+)|<n(?P<number>\d+) (?P<example>[^>]+)>|`(?P<symbol>[^`]*)`|\{(?P<form>[^}]*)\}"
    r"|(?P<string>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|float\('(?P<special>[^']+)'\)"
    r"|complex\((?P<real>[^,]+), (?P<imag>[^)]+)\)|(?P<plain>-?\d[\d.]*(?:[eE][+-]?\d+)?|[A-Za-z_][\w.]*)"
    r"|(?P<mark>[\[\],=()]))"
)
_LAYOUT = re.compile(r"\(([\d,]*)\):(b?)\(([-\d,]*)\)\+(\{[^}]*\}|-?\d+)")
_OP = (
    r"(\^\S+) ((?:%\S+(?:, )?)*) ?= ([\w.:+/-]+|'[^'\s]*')(\(.*\))"
    r"((?: writes [\d, ]+)?)((?: same [\d:, ]+)?)( forward)?"
)
_PLAIN = {"True": True, "False": False, "None": None}


def parse(text: str) -> Graph:
    """The graph that ``print_graph`` printed; a ``because`` block after it is skipped.

    Raises TextSyntaxError(where=line number) for text that is no graph, and InvalidGraph for a graph that is none.
    """
    expect("fk.parse", text=(text, TEXT))
    lines = text.splitlines()
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        if line.startswith("because"):
            break
        try:
            reader.line(line.strip())
        except TextSyntaxError as error:
            raise TextSyntaxError(error.what, f"line {number}: {line.strip()}", error.fix) from error
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, SyntaxError) as error:
            raise TextSyntaxError(f"not understood ({error})", f"line {number}: {line.strip()}") from error
    if reader.draft is None:
        raise TextSyntaxError("no graph: the first line is 'graph NAME {'", "line 1")
    return reader.draft.finish(COMMON).graph


class _Reader:
    """Reads line by line into a draft."""

    def __init__(self) -> None:
        self.draft: Draft | None = None
        self.numbers: dict[str, Var] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.rules: tuple[tuple[str, Callable[[re.Match[str]], None]], ...] = (
            (r"graph (\S*) \{", self.graph),
            (r"number (n\d+) < (\d+)", self.number),
            (r"(@\S+) : (\d+) bytes (\S+) (\S+)", self.block),
            (r"(%\S+) : (\w+) \[([\d,]*)\]", self.value),
            (r"(%\S+) : (\w+) (\(.*\)\+\S+|\(.*\)\+\{.*\}) in (@\S+) (\S+)", self.place),
            (_OP, self.op),
            (r"order (\S+) -> (\S+) ((?:RAW|WAR|WAW)(?: (?:RAW|WAR|WAW))*)( .*)?", self.ordering),
            (r"segment (\$\S+) (\S+) \[([\d,]*)\] \{([^}]*)\}(?: by (\S+): (.*))?", self.segment),
            (r"boundary (\S+) -> (\S+) at (\S+) (\d+) bytes", self.boundary),
        )

    def line(self, line: str) -> None:
        line = re.sub(r"  # [^'\"]*:\d+$", "", line).strip()
        if not line or line == "}":
            return
        if line[0] in "#!" or line.startswith("domain "):
            read_domain_line(self.to, line)
            return
        for pattern, rule in self.rules:
            if found := re.fullmatch(pattern, line):
                rule(found)
                return
        raise TextSyntaxError("no line of a graph", None, "see docs/text.md for the form of each line")

    @property
    def to(self) -> Draft:
        if self.draft is None:
            raise TextSyntaxError("a line before 'graph NAME {'")
        return self.draft

    def graph(self, m: re.Match[str]) -> None:
        self.draft = Draft(empty_graph(unword(m[1])), "parse")

    def number(self, m: re.Match[str]) -> None:
        self.numbers[m[1]] = number_var(int(m[1][1:]), int(m[2]))

    def block(self, m: re.Match[str]) -> None:
        self.expect(m[1], self.to.add_block(Block(int(m[2]), unword(m[3]), unword(m[4])), id=m[1]))

    def value(self, m: re.Match[str]) -> None:
        self.shapes[m[1]] = _ints(m[3])
        self.expect(m[1], self.to.add_tensor(Tensor(_dtype(m[2]), _ints(m[3])), id=m[1]))

    def place(self, m: re.Match[str]) -> None:
        dtype = _dtype(m[2])
        layout = self.layout(m[3], dtype)
        self.shapes[m[1]] = layout.shape
        node = self.to.add_tensor(
            Tensor(dtype, layout.shape), id=m[1], block=NodeId(m[4]), layout=layout, role=unword(m[5])
        )
        self.expect(m[1], node)

    def expect(self, wanted: str, given: NodeId) -> None:
        if wanted != given:
            raise TextSyntaxError(f"{wanted} is defined twice")

    def layout(self, text: str, dtype: DType) -> Layout:
        m = _LAYOUT.fullmatch(text)
        if m is None:
            raise TextSyntaxError(f"{text} is no layout", None, "write (shape):(strides)+offset")
        unit = 1 if m[2] else dtype.width
        offset = parse_form(m[4].strip("{}"), self.numbers) * unit
        return Layout(offset, _ints(m[1]), tuple(s * unit for s in _ints(m[3])), dtype)

    def op(self, m: re.Match[str]) -> None:
        results = [NodeId(t) for t in m[2].replace(" ", "").split(",") if t]
        shape = self.shapes[results[0]] if results else ()
        variables = self.numbers | {f"i{k}": Var(f"i{k}", n) for k, n in enumerate(shape)}
        args, kwargs, operands = _Call(m[4], variables).read()
        writes = tuple(int(w) for w in re.findall(r"\d+", m[5]))
        same = tuple((int(r), int(o)) for r, o in re.findall(r"(\d+):(\d+)", m[6]))
        payload = Op(read_op(unword(m[3]), args, kwargs, writes, same), forward=bool(m[7]))
        self.expect(m[1], self.to.add_op(payload, operands, results, id=m[1]))

    def ordering(self, m: re.Match[str]) -> None:
        where = ast.literal_eval(m[4].strip()) if m[4] else ""
        self.to.order(NodeId(m[1]), NodeId(m[2]), Ordering(tuple(m[3].split()), where))

    def segment(self, m: re.Match[str]) -> None:
        members = [NodeId(op) for op in m[4].split()]
        payload = Segment(unword(m[2]), _ints(m[3]), unword(m[5] or ""), unword(m[6] or ""))
        self.expect(m[1], self.to.add_segment(payload, members, id=m[1]))

    def boundary(self, m: re.Match[str]) -> None:
        self.to.add_boundary(NodeId(m[1]), NodeId(m[2]), NodeId(m[3]), Boundary(int(m[4])))


class _Call:
    """The arguments of one op: ``(%a, [%b, 2], alpha=<n0 3>)``."""

    def __init__(self, text: str, variables: dict[str, Var]):
        self.tokens = _tokens(text)
        self.at, self.variables = 0, variables
        self.operands: list[NodeId] = []

    def read(self) -> tuple[tuple[object, ...], tuple[tuple[str, object], ...], list[NodeId]]:
        args: list[object] = []
        kwargs: list[tuple[str, object]] = []
        self.skip("(")
        while not self.skip(")"):
            if self.tokens[self.at].lastgroup in ("plain", "string") and self.peek(1) == "=":
                name = unword(self.tokens[self.at][0].strip())
                self.at += 2
                kwargs.append((name, self.item()))
            else:
                args.append(self.item())
            self.skip(",")
        return tuple(args), tuple(kwargs), self.operands

    def peek(self, ahead: int = 0) -> str | None:
        return self.tokens[self.at + ahead]["mark"] if self.at + ahead < len(self.tokens) else None

    def skip(self, mark: str) -> bool:
        found = self.peek() == mark
        self.at += found
        return found

    def item(self) -> object:
        if self.skip("["):
            items: list[object] = []
            while not self.skip("]"):
                items.append(self.item())
                self.skip(",")
            return tuple(items)
        token = self.tokens[self.at]
        self.at += 1
        return self.leaf(token)

    def leaf(self, token: re.Match[str]) -> object:
        if token["tensor"]:
            self.operands.append(NodeId(token["tensor"]))
            return Operand(len(self.operands) - 1)
        if token["number"]:
            return Number(int(token["number"]), _example(token["example"]))
        if token["symbol"] is not None:
            return Symbol(unsymbol(token["symbol"]))
        if token["form"] is not None:
            return self.form(token["form"])
        if token["string"]:
            return ast.literal_eval(token["string"])
        if token["special"]:
            return float(token["special"])
        if token["real"]:
            return complex(float(token["real"]), float(token["imag"]))
        plain = token["plain"]
        if plain in _PLAIN:
            return _PLAIN[plain]
        return BY_NAME[plain] if plain in BY_NAME else ast.literal_eval(plain)

    def form(self, text: str) -> Form | Guard:
        guard = re.fullmatch(r"0 <= (.*) < (\d+)", text)
        if guard:
            return Guard(parse_form(guard[1], self.variables), int(guard[2]))
        return parse_form(text, self.variables)


def _tokens(text: str) -> list[re.Match[str]]:
    found: list[re.Match[str]] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise TextSyntaxError(f"{text[at : at + 20]!r} is no argument")
        found.append(token)
        at = token.end()
    return found


def _example(text: str) -> int | float:
    special = re.fullmatch(r"float\('([^']+)'\)", text)
    return float(special[1]) if special else ast.literal_eval(text)


def _dtype(name: str) -> DType:
    if name not in BY_NAME:
        raise TextSyntaxError(f"there is no dtype {name!r}", None, f"the dtypes are {', '.join(BY_NAME)}")
    return BY_NAME[name]


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)
