"""Texts as lines of coloured runs, each line with the nodes that it is about: users' source, kernels, the IR."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from fusekit.escape import comment
from fusekit.ids import NodeId
from fusekit.ir import Graph

AROUND = 3  # lines shown on each side of a line whose function is not found
MOST_FILES = 12

Run = tuple[str, str]  # class (or ""), text


@dataclass(frozen=True, slots=True)
class Line:
    """``runs`` join to the text of the line; ``nodes``: what the line is about, the foremost first."""

    runs: tuple[Run, ...]
    nodes: tuple[NodeId, ...] = ()

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.runs)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A piece of a user's file; ``first`` is the number of its first line in that file."""

    path: str
    first: int
    lines: tuple[Line, ...]


# ---- colours ------------------------------------------------------------------------------------------------------


def python_runs(source: str) -> list[tuple[Run, ...]]:
    """The lines of a Python text as runs; the class of a run is one of Pygments' short names, or its first letter."""
    from pygments.lexers import PythonLexer
    from pygments.token import STANDARD_TYPES

    lines: list[list[Run]] = [[]]
    for kind, value in PythonLexer(stripnl=False, ensurenl=False).get_tokens(source):
        name = _look(STANDARD_TYPES.get(kind, ""))
        for place, piece in enumerate(value.split("\n")):
            if place:
                lines.append([])
            if piece:
                lines[-1].append((name, piece))
    return [tuple(_joined(line)) for line in lines]


def kernel_lines(source: str, nodes: Mapping[int, tuple[NodeId, ...]]) -> tuple[Line, ...]:
    """The lines of a kernel; a comment that names the file of a notebook's cell says ``cell``."""
    lines = []
    for number, runs in enumerate(python_runs(source.rstrip("\n")), 1):
        shown = tuple((look, _CELL.sub("# cell:", text) if look == "c" else text) for look, text in runs)
        lines.append(Line(shown, nodes.get(number, ())))
    return tuple(lines)


_CELL = re.compile(r"# \d{6,}\.py:")


def _look(short: str) -> str:
    """Which of the page's few looks a token gets: keyword, comment, string, number, name, builtin, decorator."""
    if short in ("nf", "nc", "fm"):
        return "nf"
    if short in ("nb", "bp"):
        return "nb"
    if short == "nd":
        return "nd"
    head = short[:1]
    return {"k": "k", "c": "c", "s": "s", "m": "m"}.get(head, "k" if short == "ow" else "")


def _joined(runs: Iterable[Run]) -> Iterator[Run]:
    """Neighbours of one look as one run."""
    held: Run | None = None
    for name, text in runs:
        if held is not None and held[0] == name:
            held = name, held[1] + text
            continue
        if held is not None:
            yield held
        held = name, text
    if held is not None:
        yield held


# ---- the user's source --------------------------------------------------------------------------------------------


def origins(graphs: Iterable[Graph]) -> dict[str, dict[int, tuple[NodeId, ...]]]:
    """File -> line -> ops that come from it, over all graphs."""
    found: dict[str, dict[int, dict[NodeId, None]]] = {}
    for graph in graphs:
        for op in graph.ops():
            if (origin := graph.op(op).origin) is not None:
                found.setdefault(origin.file, {}).setdefault(origin.line, {})[op] = None
    return {file: {line: tuple(ops) for line, ops in lines.items()} for file, lines in found.items()}


def excerpts(fn: object, lines: Mapping[str, Mapping[int, tuple[NodeId, ...]]]) -> tuple[Excerpt, ...]:
    """The functions that the ops come from: the explored one first, then the others in order of appearance."""
    home = _home(fn)
    shown: list[Excerpt] = []
    for file in sorted(lines, key=lambda f: f != (home or "")):
        text = _lines_of(file)
        if not text:
            continue
        runs = python_runs("".join(text).rstrip("\n"))
        for first, last in _ranges("".join(text), len(text), lines[file]):
            body = tuple(Line(runs[n - 1], lines[file].get(n, ())) for n in range(first, last + 1))
            shown.append(Excerpt(short_path(file), first, body))
        if len(shown) >= MOST_FILES:
            break
    return tuple(shown[:MOST_FILES])


def _lines_of(file: str) -> list[str]:
    try:
        return linecache.getlines(file)
    except ValueError:  # no name that a file can have: a NUL, a lone surrogate
        return []


def short_path(file: str) -> str:
    """The last two parts of a path: enough to tell files apart, and the same on every machine; a cell is a cell."""
    if re.search(r"ipykernel_\d+", file) or file.startswith("<"):
        return "cell of the notebook"
    return "/".join(PurePath(file).parts[-2:])


def _home(fn: object) -> str | None:
    target = getattr(type(fn), "forward", None) or inspect.unwrap(fn) if callable(fn) else fn
    code = getattr(inspect.unwrap(target) if callable(target) else target, "__code__", None)
    return getattr(code, "co_filename", None)


def _ranges(text: str, count: int, wanted: Iterable[int]) -> list[tuple[int, int]]:
    """First and last line of each innermost function that holds a wanted line; those that touch are joined."""
    functions = _functions(text)
    spans: list[tuple[int, int]] = []
    for line in sorted(n for n in wanted if 1 <= n <= count):
        around = [span for span in functions if span[0] <= line <= span[1]]
        fallback = max(1, line - AROUND), min(count, line + AROUND)
        span = min(around, key=lambda s: s[1] - s[0]) if around else fallback
        if spans and span[0] <= spans[-1][1] + 1:
            spans[-1] = min(spans[-1][0], span[0]), max(spans[-1][1], span[1])
        else:
            spans.append(span)
    return spans


def _functions(text: str) -> list[tuple[int, int]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # a cell with magics, or a file that changed
        return []
    return [
        (min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


# ---- the IR -------------------------------------------------------------------------------------------------------

_NODE = re.compile(r"[%^@$#!][\w.]+")
_PART = re.compile(r"(?P<c>  # .*$)|(?P<s>'[^']*')|(?P<id>[%^@$#!][\w.]+)|(?P<nb>\b(?:aten|fk)\.[\w.]+)")


def ir_lines(text: str, graph: Graph, files: Iterable[str]) -> tuple[Line, ...]:
    """The lines of a printed graph; a user's path is cut to its end."""
    for file in files:
        text = text.replace(f"# {comment(file)}:", f"# {comment(short_path(file))}:")
    return tuple(Line(tuple(_ir_runs(row)), _about(row, graph)) for row in text.rstrip("\n").split("\n"))


def _ir_runs(row: str) -> Iterator[Run]:
    end = 0
    for found in _PART.finditer(row):
        if found.start() > end:
            yield "", row[end : found.start()]
        yield str(found.lastgroup), found[0]
        end = found.end()
    if end < len(row):
        yield "", row[end:]


def _about(row: str, graph: Graph) -> tuple[NodeId, ...]:
    """The node that the line defines, or the subjects of an ordering, a segment or a reason."""
    head = row.strip()
    if head.startswith(("segment ", "order ")) or re.match(r"[\w-]+: ", head):
        head = re.split(r" (?:did|declined|RAW|WAR|WAW)\b|\{", head)[0]
        return tuple(dict.fromkeys(n for n in map(NodeId, _NODE.findall(head)) if n in graph))
    first = _NODE.match(head)
    return (NodeId(first[0]),) if first and NodeId(first[0]) in graph else ()
