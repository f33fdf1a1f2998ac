"""Text back to a graph, in linear time. Every mistake is a TextSyntaxError or InvalidGraph with its line."""

from __future__ import annotations

import re
from collections.abc import Callable

from fusekit.dtypes import BY_NAME, DType
from fusekit.errors import InvalidGraph, TextSyntaxError
from fusekit.escape import unword
from fusekit.ids import NodeId
from fusekit.index import Var, number_var, parse_form
from fusekit.ir.call_text import read_call
from fusekit.ir.core_text import read_op
from fusekit.ir.domain_text import read_domain_line
from fusekit.ir.draft import Draft
from fusekit.ir.graph import Graph, empty_graph
from fusekit.ir.invariants import PARSED, broken
from fusekit.ir.layout import Layout
from fusekit.ir.payloads import (
    DEVICES,
    KINDS,
    ROLES,
    SCHEDULERS,
    Block,
    Boundary,
    Op,
    Ordering,
    Segment,
    Tensor,
)
from fusekit.ir.words import ID, LONGEST_LINE, LONGEST_TEXT, STRING, cut, size, sizes, string

# Neighbours in a pattern share no character, so that no line is tried in many ways.
_T, _O, _B, _S = (ID[sigil] for sigil in "%^@$")
_OP = re.compile(rf"({_O}) ((?:{_T}(?:, {_T})*)?) ?= ([\w.:+/-]+|'[^'\s]*')(?=\()")
_AFTER_CALL = re.compile(r"(?: writes (\d+(?:, \d+)*))?(?: same (\d+:\d+(?:, \d+:\d+)*))?( forward)?(?:\s+# .*)?")
_KINDS = r"(?:RAW|WAR|WAW)"


def parse(text: str) -> Graph:
    """The graph that ``print_graph`` printed; a ``because`` block after it is skipped.

    Raises TextSyntaxError(where=line number) for text that is no graph, and InvalidGraph for a graph that is none.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TextSyntaxError(f"{type(text).__name__} is no text", None, "give what x.text() returns")
    if len(text) > LONGEST_TEXT:
        raise TextSyntaxError(f"a text of {len(text):,} characters", None, f"at most {LONGEST_TEXT:,} are read")
    reader = _Reader()
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if reader.is_over and line.startswith("because"):
            break
        try:
            reader.line(line)
        except TextSyntaxError as error:
            raise TextSyntaxError(error.what, _where(number, line), error.fix) from None
    if reader.draft is None:
        raise TextSyntaxError("no graph: the first line is 'graph NAME {'", "line 1", "give what x.text() returns")
    if not reader.is_over:
        raise TextSyntaxError("the graph never closes", f"line {len(lines)}", "end it with a line }")
    graph = reader.draft.finish().graph
    if problem := broken(graph, PARSED):
        name, node, what = problem
        number = reader.lines.get(node, 1)
        where = _where(number, lines[number - 1])
        raise InvalidGraph(f"{node} {what} (the rule {name})", where, "mend that line, or what it names")
    return graph


def _where(number: int, line: str) -> str:
    return f"line {number}: {cut(line.strip())}"


class _Reader:
    """Reads line by line into a draft."""

    def __init__(self) -> None:
        self.draft: Draft | None = None
        self.is_over = False
        self.count = 0
        self.lines: dict[str, int] = {}  # node -> the line that defines it
        self.numbers: dict[str, Var] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        layout = r"\([\d,]*\):b?\([-\d,]*\)\+(?:\{[^}]*\}|-?\d+)"
        self.rules: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], None]], ...] = tuple(
            (re.compile(pattern, re.ASCII), rule)
            for pattern, rule in (
                (r"number (n\d+) < (\d+)", self.number),
                (rf"({_B}) : (\d+) bytes (\S+) (\S+)", self.block),
                (rf"({_T}) : (\w+) \[([\d,]*)\]", self.value),
                (rf"({_T}) : (\w+) ({layout}) in ({_B}) (\S+)", self.place),
                (rf"order ({_O}) -> ({_O}) ({_KINDS}(?: {_KINDS})*)(?: ({STRING}))?", self.ordering),
                (rf"segment ({_S}) (\S+) \[([\d,]*)\] \{{([^}}]*)\}}(?: by (\S+): (.*))?", self.segment),
                (rf"boundary ({_S}) -> ({_S}) at ({_T}) (\d+) bytes", self.boundary),
            )
        )

    def line(self, line: str) -> None:
        self.count += 1
        if len(line) > LONGEST_LINE:
            what = f"a line of {len(line):,} characters"
            raise TextSyntaxError(what, None, f"at most {LONGEST_LINE:,} are read: write one fact a line")
        line = line.strip()
        if not line:
            return
        if self.is_over:
            raise TextSyntaxError("a line after the graph", None, "one text is one graph, which ends at its }")
        if self.draft is None or line.startswith("graph "):
            self.graph(line)
        elif line == "}":
            self.is_over = True
        elif line[0] == "^":
            self.op(line)
        elif line[0] in "#!" or line.startswith("domain "):
            self.lines.setdefault(line.split(" ", 2)[line[0] == "d"], self.count)
            read_domain_line(self.draft, line)
        else:
            self.other(line)

    def other(self, line: str) -> None:
        for pattern, rule in self.rules:
            if found := pattern.fullmatch(line):
                rule(found)
                return
        raise TextSyntaxError("no line of a graph", None, "see docs/text.md for the form of each line")

    @property
    def to(self) -> Draft:
        assert self.draft is not None, "line() sees to that"
        return self.draft

    def graph(self, line: str) -> None:
        found = re.fullmatch(r"graph (\S*) \{", line)
        if self.draft is not None:
            raise TextSyntaxError("a second graph", None, "give one graph a text")
        if found is None:
            raise TextSyntaxError("a line before the graph", None, "the first line is 'graph NAME {'")
        self.draft = Draft(empty_graph(_word(found[1])), "parse")

    def number(self, m: re.Match[str]) -> None:
        if m[1] in self.numbers:
            raise TextSyntaxError(f"{m[1]} is defined twice", None, "leave one of the lines out")
        self.numbers[m[1]] = number_var(size(m[1][1:]), size(m[2]))

    def block(self, m: re.Match[str]) -> None:
        device = _word(m[3])
        if not re.fullmatch(rf"({'|'.join(DEVICES)})(:[0-9]{{1,3}})?", device):
            _known("device", device, DEVICES)
        self.new(m[1])
        self.to.add_block(Block(size(m[2]), device, _known("kind of block", _word(m[4]), KINDS)), id=m[1])

    def value(self, m: re.Match[str]) -> None:
        self.new(m[1])
        self.shapes[m[1]] = sizes(m[3])
        self.to.add_tensor(Tensor(_dtype(m[2]), self.shapes[m[1]]), id=m[1])

    def place(self, m: re.Match[str]) -> None:
        dtype = _dtype(m[2])
        layout = self.layout(m[3], dtype)
        self.new(m[1])
        self.shapes[m[1]] = layout.shape
        block, role = self.there(m[4], "@0 : 64 bytes cpu argument"), _known("role", _word(m[5]), ROLES)
        self.to.add_tensor(Tensor(dtype, layout.shape), id=m[1], block=block, layout=layout, role=role)

    def new(self, node: str) -> None:
        """A node may be defined once."""
        if node in self.lines:
            raise TextSyntaxError(f"{node} is defined twice", None, f"it is there since line {self.lines[node]}")
        self.lines[node] = self.count

    def there(self, node: str, example: str) -> NodeId:
        """A node that an earlier line defines."""
        if node not in self.lines:
            raise TextSyntaxError(f"{cut(node)} is not there", None, f"define it before, by a line like '{example}'")
        return NodeId(node)

    def layout(self, text: str, dtype: DType) -> Layout:
        found = re.fullmatch(r"\(([\d,]*)\):(b?)\(([-\d,]*)\)\+(\{.*\}|-?\d+)", text)
        assert found is not None, "the pattern of the line has it"
        unit = 1 if found[2] else dtype.width
        shape, strides = sizes(found[1]), sizes(found[3])
        if len(shape) != len(strides):
            what = f"{len(shape)} dimensions and {len(strides)} strides"
            raise TextSyntaxError(what, None, "give one stride a dimension: (4,3):(3,1)+0")
        offset = parse_form(found[4].strip("{}"), self.numbers) * unit
        return Layout(offset, shape, tuple(s * unit for s in strides), dtype)

    def op(self, line: str) -> None:
        found = _OP.match(line)
        if found is None:
            raise TextSyntaxError("no op", None, "write one like ^1 %r = aten.add.Tensor(%x, %y)")
        results = [self.there(t, "%a : f32 [4]") for t in found[2].split(", ") if t]
        if len(set(results)) < len(results):
            raise TextSyntaxError("one tensor is two results", None, "name each result once")
        shape = self.shapes[results[0]] if results else ()
        variables = self.numbers | {f"i{k}": Var(f"i{k}", n) for k, n in enumerate(shape)} if "{" in line else {}
        args, kwargs, operands, end = read_call(line, found.end(), variables)
        after = _AFTER_CALL.fullmatch(line, end)
        if after is None:
            what = f"{cut(line[end:], 24)!r} after the call"
            raise TextSyntaxError(what, None, "there may stand: writes 0 same 0:0 forward  # file.py:1")
        for operand in operands:
            self.there(operand, "%a : f32 [4]")
        self.new(found[1])
        writes = tuple(size(w) for w in (after[1] or "").split(", ") if w)
        pairs = [pair.split(":") for pair in (after[2] or "").split(", ") if pair]
        same = tuple((size(r), size(o)) for r, o in pairs)
        try:
            what = read_op(_word(found[3]), args, kwargs, writes, same)
        except ValueError as error:
            raise TextSyntaxError(str(error), None, "write its arguments as docs/text.md has them") from None
        self.to.add_op(Op(what, forward=bool(after[3])), operands, results, id=found[1])

    def ordering(self, m: re.Match[str]) -> None:
        first, then = (self.there(op, "^0 %a = fk.input()") for op in (m[1], m[2]))
        self.to.order(first, then, Ordering(tuple(m[3].split()), string(m[4]) if m[4] else ""))

    def segment(self, m: re.Match[str]) -> None:
        members = [self.there(op, "^0 %a = fk.input()") for op in m[4].split()]
        for op in members:
            if op[0] != "^":
                raise TextSyntaxError(f"{op} in a segment is no op", None, "segments are of ops: { ^1 ^2 }")
        if len(set(members)) < len(members):
            raise TextSyntaxError("an op is twice in a segment", None, "name it once")
        self.new(m[1])
        payload = Segment(
            _known("scheduler", _word(m[2]), SCHEDULERS), sizes(m[3]), _word(m[5] or ""), _word(m[6] or "")
        )
        self.to.add_segment(payload, members, id=m[1])

    def boundary(self, m: re.Match[str]) -> None:
        first, then = (self.there(s, "segment $0 pointwise [4] { ^1 }") for s in (m[1], m[2]))
        self.to.add_boundary(first, then, self.there(m[3], "%a : f32 [4]"), Boundary(size(m[4])))


def _word(text: str) -> str:
    """A word or a phrase, which may be a literal."""
    try:
        return unword(text)
    except (SyntaxError, ValueError) as error:
        raise TextSyntaxError(f"{cut(text, 24)} is no word: {error}", None, "write it as x.text() does") from None


def _known(what: str, word: str, words: tuple[str, ...]) -> str:
    if word not in words:
        raise TextSyntaxError(f"there is no {what} {cut(word, 24)!r}", None, f"there are {', '.join(words)}")
    return word


def _dtype(name: str) -> DType:
    if name not in BY_NAME:
        raise TextSyntaxError(f"there is no dtype {cut(name, 24)!r}", None, f"the dtypes are {', '.join(BY_NAME)}")
    return BY_NAME[name]
