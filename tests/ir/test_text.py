"""Text: the same graph prints the same, parses back to an equal graph, and mistakes name their line."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fusekit.dtypes import F32, I64
from fusekit.errors import FusekitError, InvalidGraph, TextSyntaxError
from fusekit.index import Form, Var, number_var
from fusekit.ir import (
    Block,
    Graph,
    Guard,
    Layout,
    Number,
    Op,
    Operand,
    Ordering,
    Origin,
    Segment,
    Symbol,
    Tensor,
    core,
    empty_graph,
    parse,
    print_graph,
)
from fusekit.programs import PROGRAMS, Program
from fusekit.trace import record
from tests.names.hostile import is_calm, texts

ODD_ARGS = (
    float("nan"), float("-inf"), -0.0, 0.0, 1, True, 1.0, -1e-7, 2**63 - 1, 3j, complex("nan"), None,
    "it's ) writes 0", "a\nb",
    Symbol("torch.contiguous_format"), F32, (), ((1, 2), (I64, None)), Number(0, 2.5), Number(1, 7),
)  # fmt: skip


def sample() -> Graph:
    """A graph with a parameter in a layout, odd arguments, a segment and every kind of edge."""
    draft = empty_graph("f").draft("test")
    block = draft.add_block(Block(100, "cpu", "argument"))
    whole, element = Layout.contiguous((5, 5), F32), Layout.of(Form.of(number_var(1, 25)) * 4, (), (), F32)
    a = draft.add_tensor(Tensor(F32, (5, 5)), id="%a", block=block, layout=whole, role="input")
    b = draft.add_tensor(Tensor(F32, ()), id="%b", block=block, layout=element, role="input")
    odd = draft.add_tensor(Tensor(F32, (5,)), id="%odd", block=block, layout=Layout.of(2, (5,), (6,), F32))
    draft.add_op(Op(core.Input()), (), (a, b), id="^in")
    value = draft.add_tensor(Tensor(F32, (5, 5)), id="%a.in")
    load = draft.add_op(Op(core.Load()), (a,), (value,), id="^load")
    mixed = draft.add_tensor(Tensor(F32, (5, 5)), id="%overlay")
    i0 = Form.of(Var("i0", 5))
    where = (Guard(i0 - Form.of(number_var(1, 25)), 1), Guard(i0 // 2 % 2, 1))
    draft.add_op(Op(core.Overlay((), where)), (value, value), (mixed,))
    store = draft.add_op(Op(core.Store()), (mixed, a), (), id="^store")
    call = core.Call("aten.odd.default", (Operand(0), *ODD_ARGS), (("alpha", -2),), (0,), ((0, 0),))
    draft.add_op(Op(call), (a,), (odd,))
    draft.order(load, store, Ordering(("RAW", "WAR"), "element [0,0]"))
    draft.add_segment(Segment("pointwise", (5, 5)), [load, store])
    return draft.finish().graph


def test_sample_round_trips() -> None:
    graph = sample()
    text = print_graph(graph)
    assert parse(text) == graph
    assert print_graph(parse(text)) == text


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_traced_programs_round_trip(program: Program) -> None:
    graph = record(program.fn, program.make((6, 5), torch.float32)).graph
    assert parse(print_graph(graph)) == graph


def test_numbers_that_compare_equal_are_told_apart() -> None:
    """1, 1.0 and True are equal to Python, 0.0 and -0.0 too; graphs with them are not."""

    def with_arg(value: object) -> Graph:
        draft = empty_graph("f").draft("test")
        draft.add_op(Op(core.Call("aten.full.default", (value,))))
        return draft.finish().graph

    kinds = (1, 1.0, True, 0.0, -0.0, float("nan"))
    for i, a in enumerate(kinds):
        for j, b in enumerate(kinds):
            assert (with_arg(a) == with_arg(b)) == (i == j)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%a : f32 (5:5", "line 3"),
        ("%a : f33 (5):(1)+0 in @0 input", "line 3"),
        ("^0 %x = fk.load(%nobody", "line 3"),
        ("who knows", "no line of a graph"),
        ("@0 : 3 bytes cpu argument", "defined twice"),
        ("^0 = aten.full.default(?)", "is no argument"),
    ],
)
def test_mistakes_name_their_line(line: str, says: str) -> None:
    text = f"graph f {{\n  @0 : 100 bytes cpu argument\n  {line}\n}}\n"
    with pytest.raises(TextSyntaxError, match=says) as caught:
        parse(text)
    assert "line 3" in str(caught.value)


def test_text_of_an_illegal_graph_names_the_invariant() -> None:
    text = "graph f {\n  %a : f32 [2]\n  %b : f32 [2]\n  ^0 %b = aten.exp.default(%a)\n}\n"
    with pytest.raises(InvalidGraph, match="defined-before-use"):
        parse(text)


def test_no_graph_at_all() -> None:
    with pytest.raises(TextSyntaxError, match="graph NAME"):
        parse("")


@settings(max_examples=150, deadline=None)
@given(st.lists(texts, min_size=12, max_size=12), st.one_of(st.floats(), st.integers()))
@example(["a\"\\'b", "c", "d", "e", "f", "g", "h  # i:1", "j", "#", "`", "'k'", ""], float("inf"))
def test_any_string_in_a_payload_round_trips(s: list[str], number: float) -> None:
    draft = empty_graph(s[0]).draft("test")
    block = draft.add_block(Block(16, "cpu", "argument"))
    a = draft.add_tensor(Tensor(F32, (4,)), block=block, layout=Layout.contiguous((4,), F32), role="input")
    draft.add_op(Op(core.Input()), (), (a,))
    b = draft.add_tensor(Tensor(F32, (4,)), block=block, layout=Layout.contiguous((4,), F32))
    kwargs = ((s[5], s[6]), (f"{s[5]}=", (s[7], Symbol(s[8]), Number(0, number))))
    call = core.Call(f"my.{s[4]}", (Operand(0), s[6], Symbol(s[9])), kwargs, (), ((0, 0),))
    op = draft.add_op(Op(call), (a,), (b,))
    exp = core.Call("aten.exp.default", (Operand(0),))
    other = draft.add_op(Op(exp, origin=Origin(s[10], 3, s[11])), (a,), ())
    draft.order(op, other, Ordering(("RAW",), s[10]))
    draft.add_segment(Segment("pointwise", (4,), s[8] or "by", s[11]), [op, other])
    graph = draft.finish(()).graph
    text = print_graph(graph)
    assert len(text.splitlines()) == 10 and is_calm(text)
    back = parse(text)
    assert back == graph and print_graph(back) == print_graph(graph, lines=False)
    assert (back.name, back.op(op), back.segment(back.segments()[0])) == (
        graph.name, graph.op(op), graph.segment(graph.segments()[0])
    ) or number != number  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(texts, texts)
def test_a_broken_text_is_a_syntax_error_of_one_line(one: str, other: str) -> None:
    lines = f"  ^0 = {one}({other})\n  @0 : 1 bytes {one} {other}"
    for text in (one, f"graph {one} {{\n  {other}\n}}", f"graph f {{\n{lines}\n}}"):
        told = ""
        try:
            parse(text)
        except FusekitError as error:
            told = str(error)
        assert not told or told.isprintable()
