"""Any text at all: a graph, or one error that names the line and how to mend it. In linear time, within bounds."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fusekit as fk
from fusekit.errors import FusekitError, InvalidGraph, TextSyntaxError
from fusekit.index import Var, parse_form, print_form
from fusekit.ir import Graph, parse, print_graph
from fusekit.ir.words import LONGEST_LINE
from tests.ir.texts import changed, texts

HEAD = """graph f {
  @0 : 100 bytes cpu argument
  %a : f32 (5,5):(5,1)+0 in @0 input
  %v : f32 [5,5]
  %w : f32 [5,5]
  ^0 %a = fk.input()
  ^1 %v = fk.load(%a)
"""
AXES = "#a : 4 iteration serial\n  #b : 1 iteration serial\n  #c : 4 iteration serial\n"


def read(*lines: str) -> object:
    return parse(HEAD + "".join(f"  {line}\n" for line in lines) + "}\n")


def graph_or_error(text: str) -> object:
    try:
        return parse(text)
    except (TextSyntaxError, InvalidGraph) as error:
        return error


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_a_changed_text_is_a_graph_or_an_error_with_its_line(seed: int, times: int) -> None:
    rng = random.Random(seed)
    found = graph_or_error(changed(rng.choice(texts()), rng, times))
    if isinstance(found, FusekitError):
        assert str(found.where).startswith("line ") and found.fix and "bug" not in str(found)
        assert len(str(found)) < 1000
    else:
        assert isinstance(found, Graph) and parse(print_graph(found)) == found


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_line_is_refused_by_name(line: str) -> None:
    found = graph_or_error(f"{HEAD}  {line}\n}}\n")
    assert not isinstance(found, FusekitError) or str(found.where).startswith("line ")


@pytest.mark.parametrize("text", [None, b"graph f {", 3, ["graph f {"]])
def test_what_is_no_text(text: object) -> None:
    with pytest.raises(TextSyntaxError, match="is no text"):
        parse(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%b : f32 (5):(1)+0 in @9 input", "@9 is not there"),
        ("order ^0 -> ^9 RAW", r"\^9 is not there"),
        ("segment $0 pointwise [5] { ^9 }", r"\^9 is not there"),
        ("boundary $0 -> $1 at %v 4 bytes", r"\$0 is not there"),
        ("^2 %w = aten.exp.default(%nobody)", "%nobody is not there"),
        ("^2 %nobody = aten.exp.default(%v)", "%nobody is not there"),
        ("%b : f32 (5,5):(1)+0 in @0 input", "2 dimensions and 1 strides"),
        ("^2 %w = fk.window(%v) index=[{i0}]", "after the call"),
        ("^2 %w = fk.window(%v, index=[{" + "+".join(["i0"] * 3000) + " +}, {i1}])", "no index form"),
        ("^2 %w = fk.window(%v, index=[{" + "(" * 100_000 + "}, {i1}])", "brackets are open"),
        ("^2 %w = fk.window(%v, index=[{i0 * i1}, {i1}])", "multiplies two variables"),
        ("^2 %w = aten.odd.default(" + "[" * 100_000, "lists in one another"),
        ("^2 %w = aten.odd.default(" + "9" * 1_000_000 + ")", "a number of 1,000,000 characters"),
        (r"^2 %w = aten.odd.default('\x')", "is no argument"),
        (r"^2 %w = aten.odd.default('\Uffffffff')", "is no string"),
        ("^2 %w = aten.odd.default(%v", "the call never closes"),
        ("^2 %w = aten.odd.default(%v, n=1, n=2)", "given twice"),
        ("^2 " + "%v" * 26 + " x", "no op"),
        ("graph g {", "a second graph"),
        ("number n0 < 5\n  number n0 < 6", "n0 is defined twice"),
        ("@1 : 4 bytes toaster argument", "no device 'toaster'"),
        ("@1 : 4 bytes cpu gift", "no kind of block 'gift'"),
        ("%b : f32 (5):(1)+0 in @0 owner", "no role 'owner'"),
        ("segment $0 quick [5] { ^1 }", "no scheduler 'quick'"),
        ("^2 %w = aten.exp.default(%v) same 5:9", "says of others that they are the same"),
        ("^2 %w = aten.exp.default(%v) writes 4", "writes an operand that it has not"),
        ("segment $0 pointwise [5] { %v }", "is no op"),
        ("segment $0 extern [] { ^0 }\n  segment $1 extern [] { ^0 }", r"runs in \$0 and in \$1"),
        (f"{AXES}  !0 #b, #a = split(#c) factor=0 inner", "factor from 1 on"),
        (f"{AXES}  !0 #b, #a = split(#c) factor=4 inner\n  !1 #b, #c = split(#a) factor=4 inner", "is made"),
        ("@1 : 9223372036854775808 bytes cpu fresh", "too large"),
        ("%b : f32 [4611686018427387903,4611686018427387903]", "sizes-fit"),
        ("x" * (LONGEST_LINE + 1), "a line of 1,048,5"),
    ],
    ids=lambda x: str(x)[:30],
)  # fmt: skip
def test_what_is_refused(line: str, says: str) -> None:
    with pytest.raises((TextSyntaxError, InvalidGraph), match=says) as caught:
        read(line)
    assert str(caught.value.where).startswith("line ") and len(str(caught.value)) < 600
    assert "bug" not in str(caught.value)


@pytest.mark.parametrize("text", [HEAD, HEAD + "}\n}\n", HEAD + "}\nwho knows\n", "who knows\n" + HEAD + "}\n"])
def test_a_text_is_one_whole_graph(text: str) -> None:
    with pytest.raises(TextSyntaxError, match=r"closes|after the graph|before the graph"):
        parse(text)


@pytest.mark.parametrize(
    "line", ["^0 " + "%a" * 300_000, "^0 %r = a.b.c(" + "{" * 900_000, "%a : f32 " + "(1)+" * 250_000]
)
def test_a_line_is_not_tried_in_many_ways(line: str) -> None:
    """These took for ever: each character doubled the time, or added all those before it."""
    with pytest.raises(TextSyntaxError):
        read(line)


def test_long_lists_are_read_once() -> None:
    """A sum of 100,000 terms, and a call of 50,000 operands."""
    terms = " + ".join(["i0"] * 100_000)
    assert print_form(parse_form(terms, {"i0": Var("i0", 4)})) == "100000*i0"
    graph = read(f"^2 = fk.return({', '.join(['%a'] * 50_000)})")
    assert len(graph.outputs()) == 50_000  # type: ignore[attr-defined]


def test_a_file_name_may_have_quotes() -> None:
    """Comments are not read back, whatever they say."""
    code = compile("def f(a):\n    return a.sin() + 1\n", 'o\'brien/"my" model.py', "exec")
    space: dict[str, object] = {}
    exec(code, space)
    x = fk.explore(space["f"], torch.rand(3))  # type: ignore[arg-type]
    for step in x.steps:
        assert "brien" in x.text(step.name)
        assert fk.parse(x.text(step.name)) == step.graph


def test_an_example_may_be_infinite() -> None:
    graph = read("^2 %w = aten.mul.Tensor(%v, <n0 inf>)", "^3 = aten.odd.default(<n1 nan>, <n2 True>)")
    assert parse(print_graph(graph)) == graph  # type: ignore[arg-type]


def test_errors_are_fusekits() -> None:
    assert issubclass(TextSyntaxError, FusekitError) and issubclass(InvalidGraph, FusekitError)
