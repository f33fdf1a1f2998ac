"""Strangers' names at every door: they stay data in sources, texts, pictures, pages, terminals and folders."""

import ast
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings

import fusekit as fk
from fusekit.ir import PassResult, parse, print_graph
from fusekit.notebook import document
from fusekit.notebook.document import plain
from tests.names.hostile import NAMES, explored, is_calm, operands, program, texts

few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ODD = (
    NAMES[0],
    "</script><b onload='f()'>\x1b[2J\u2028\u202e\"\\`{x}  # a.py:1",
    "lone\ud800 nul\0",
)


def trees(x: fk.Exploration) -> list[str]:
    return [ast.dump(ast.parse(kernel.source)) for kernel in x.kernels]


def renamed(x: fk.Exploration) -> list[str]:
    """The same, with locals numbered in order: they are called after arguments."""
    return [ast.dump(Numbered().visit(ast.parse(kernel.source))) for kernel in x.kernels]


class Numbered(ast.NodeTransformer):
    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.imported: set[str] = {"range", "min", "max", "np", "math"}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        self.imported |= {alias.name for alias in node.names}
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.imported:
            node.id = self.known.setdefault(node.id, f"local{len(self.known)}")
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self.known.setdefault(node.arg, f"local{len(self.known)}")
        return node


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_kernels_are_the_same_program_whatever_files_and_functions_are_called(backend: str) -> None:
    wanted = trees(explored(backend=backend))
    for name in NAMES:
        assert trees(explored(name, name, backend)) == wanted, name


@few
@given(texts, texts)
def test_kernels_are_the_same_program_for_random_names(file: str, name: str) -> None:
    assert trees(explored(file, name)) == trees(explored())


def test_a_file_name_runs_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    name = f"x\nopen({str(mark)!r}, 'w').close()\ndef rest():\n  if 1:\n        pass  #"
    found, wanted = fk.jit(program(name))(*operands()), program()(*operands())
    assert all(map(torch.equal, found, wanted)) and not mark.exists()


@few
@given(texts, texts)
@example("it's # a.py", 'say "hi"  # b')
@example("a  # b", "graph x {")
def test_every_text_parses_back(file: str, name: str) -> None:
    for step in explored(file, name).steps:
        text = print_graph(step.graph, step.explanations)
        assert parse(text) == step.graph and is_calm(text)
        assert print_graph(parse(text), lines=False) == print_graph(step.graph, lines=False)


class Named:
    """A pass with a stranger's name, that says a stranger's words."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, graph: fk.ir.Graph) -> PassResult:  # type: ignore[name-defined]
        draft = graph.draft(self.name)
        draft.note((graph.ops()[0],), fk.Reason.say(self.name))
        return draft.finish()


def passes(name: str) -> fk.Exploration:
    options = fk.Options(passes=[fk.PIPELINE[0], Named(name or "empty"), *fk.PIPELINE[1:]])
    return fk.explore(program(name, name), *operands(), options=options)


def keyed(name: str) -> fk.Exploration:
    """Keys of dicts in and out."""
    return fk.explore(lambda d: {name: d[name] * 2, "b": d["c"] + 1}, {name: torch.ones(3), "c": torch.ones(3)})


def keyword(name: str) -> fk.Exploration:
    """The name of a keyword."""
    return fk.explore(lambda **k: k[name] * 2 + k["_plain"], **{name: torch.ones(3), "_plain": torch.ones(3)})


def module(name: str) -> fk.Exploration:
    """A module with a class, a module name and a buffer of that name."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(x * self._buffers[name])

    kind = type("Plain", (torch.nn.Module,), {"forward": forward})
    kind.__name__ = kind.__qualname__ = name.replace("\0", "0").encode(errors="replace").decode()
    kind.__module__ = name
    made = kind()
    made._buffers[name] = torch.ones(3)
    return fk.explore(torch.nn.Sequential(made), torch.ones(3))


def said(name: str) -> fk.Exploration:
    """A string that the function returns, and one that a what-if is given."""
    x = fk.explore(lambda x: (x * 2, name, {"n": name}), torch.ones(3))
    with pytest.raises(fk.FusekitError) as told:
        x.what_if(split=name)
    assert is_calm(str(told.value))
    return x


DOORS = (passes, keyed, keyword, module, said)


def shapes(text: str) -> set[tuple[str, ...]]:
    """Elements of a picture with the names of their attributes."""
    return {(e.tag, *sorted(e.attrib)) for e in ET.fromstring(text).iter()}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_every_door(door: Any, name: str, tmp_path: Path) -> None:
    x, calm = door(name), door("calm")
    assert renamed(x) == renamed(calm)
    for one in x.steps:
        assert parse(x.text(one.name)) == one.graph
        assert is_calm(x.text(one.name)) and is_calm(repr(one)) and is_calm(repr(one.graph))
        assert all(map(is_calm, (repr(e) + str(e.reason) for e in one.explanations)))
    for one, other in ((x.steps[0], calm.steps[0]), (x.steps[-1], calm.steps[-1])):
        for view in ("program", "aliases", "memory") + ("segments", "domains") * bool(one.graph.segments()):
            found = x.diagram(one.name, view)
            assert shapes(found.svg) == shapes(calm.diagram(other.name, view).svg)
            assert found.engine == calm.diagram(other.name, view).engine  # Graphviz takes the DOT text
            assert is_calm(repr(found))
    assert all(map(is_calm, (repr(x), repr(x.merges()), repr(x.check()), repr(x.segments), repr(x.kernels))))
    page = x.report(tmp_path / "in" / "page.html").read_text("utf-8")
    plain_page = calm.report(tmp_path / "in" / "calm.html").read_text("utf-8")
    assert elements(page) == elements(plain_page)
    assert json.loads(Page(page).data)["document"] == json.loads(json.dumps(plain(document(x))))
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["calm.html", "in", "page.html"]


class Page(HTMLParser):
    """Elements of a page with the names of their attributes, and the text of its data."""

    def __init__(self, text: str):
        super().__init__()
        self.found: set[tuple[str, ...]] = set()
        self.data, self._is_data = "", False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add((tag, *sorted(name for name, _ in attrs)))
        self._is_data = ("id", "fk-data") in attrs

    def handle_endtag(self, tag: str) -> None:
        self._is_data = False

    def handle_data(self, data: str) -> None:
        self.data += data if self._is_data else ""


def elements(text: str) -> set[tuple[str, ...]]:
    return Page(text).found


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_a_script_that_repeats_a_check_holds_names_as_data(name: str) -> None:
    def scripts() -> Iterator[str]:
        for x in (explored(name, name), keyed(name), keyword(name), module(name), said(name)):
            yield x.check().repro()
        fn = program(name, name, name)
        fn.__fusekit_source__ = "def f(x):\n    return x\n"  # type: ignore[attr-defined]
        yield fk.explore(fn, *operands()).check().repro()

    for script in scripts():
        assert calls(script) <= {
            "print",
            "check",
            "tensor",
            "view",
            "as_strided",
            "relu",
            "mul_",
            "sum",
            "silu",
            "ones",
        }
        assert is_calm(script)


def calls(source: str) -> set[str]:
    found = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {getattr(f, "attr", getattr(f, "id", "?")) for f in found}


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_errors_are_calm(name: str) -> None:
    def shape(x: torch.Tensor) -> object:
        return x.numpy()

    shape.__code__ = shape.__code__.replace(co_filename=name)

    def bad(graph: Any) -> PassResult:
        raise ValueError(name)

    x = explored()
    for wrong in (
        lambda: fk.jit(shape)(torch.ones(2)),
        lambda: fk.explore(lambda x: x * 2, torch.ones(2), options=fk.Options(passes=[bad])),
        lambda: x[name], lambda: x.why(name), lambda: x.diagram(view=name), lambda: x.what_if(without=name),
        lambda: x.what_if(**{name: 1}), lambda: fk.Options(backend=name), lambda: fk.jit(shape, **{name: 1}),
        lambda: fk.parse(name), lambda: fk.parse(f"graph f {{\n  {name}\n}}"), lambda: x.stepper(**{name: 1}),
    ):  # fmt: skip
        with pytest.raises(fk.FusekitError) as told:
            wrong()
        assert str(told.value).isprintable(), str(told.value)
    assert is_calm(repr(fk.jit(program(name=name))))


def test_a_guard_reads_the_attribute_that_was_recorded() -> None:
    """To Python's parser ``holder.ſ`` is ``holder.s``."""
    odd = "ſ"
    kind = type("Kind", (), {"__slots__": (odd, "s")})
    holder, value = kind(), 2.5
    for slot in (odd, "s"):
        setattr(holder, slot, value)
    fused = fk.jit(lambda x: x * getattr(holder, odd))
    for _ in range(4):
        assert fused(torch.ones(1)).item() == 2.5
    setattr(holder, odd, 3.5)
    assert fused(torch.ones(1)).item() == 3.5


def test_nobody_else_escapes(root: Path) -> None:
    """Who needs a raw file name, a class's name of an origin, or an escaper of a language asks the one room."""
    alone = re.compile(
        r"\borigin\.file\b|from html import|^import html|ensure_ascii=False|unicode_escape|\.translate\(", re.M
    )
    may = {"escape.py", "draw/notes.py", "notebook/cards.py", "notebook/source.py"}  # cleaned where a page is written
    package = root / "fusekit"
    found = [
        f"{path.relative_to(package)}: {match[0]}"
        for path in sorted(package.rglob("*.py"))
        if str(path.relative_to(package)) not in may
        for match in alone.finditer(path.read_text("utf-8"))
    ]
    assert found == []
