"""The graph as a value: questions, drafts, ids, differences; nothing changes a graph that is finished."""

import networkx as nx
import pytest

from fusekit.dtypes import F32
from fusekit.ir import (
    Block,
    Draft,
    Graph,
    Layout,
    Op,
    Operand,
    Ordering,
    Segment,
    Tensor,
    core,
    diff,
    empty_graph,
    print_graph,
)
from fusekit.why import Reason

LAYOUT = Layout.contiguous((4,), F32)


def chain() -> Graph:
    """a -> exp -> mul(exp, exp), all in memory."""
    draft = empty_graph("chain").draft("test")
    blocks = [draft.add_block(Block(16, "cpu", kind)) for kind in ("argument", "fresh", "fresh")]
    names = ("%a", "%exp", "%mul")
    a, e, m = (
        draft.add_tensor(Tensor(F32, (4,)), id=name, block=block, layout=LAYOUT)
        for name, block in zip(names, blocks, strict=True)
    )
    draft.add_op(Op(core.Input()), (), (a,), id="^in")
    draft.add_op(Op(core.Call("aten.exp.default", (Operand(0),))), (a,), (e,))
    draft.add_op(Op(core.Call("aten.mul.Tensor", (Operand(0), Operand(1)))), (e, e), (m,))
    draft.add_op(Op(core.Return((Operand(0),))), (m,), id="^out")
    return draft.finish().graph


def test_questions() -> None:
    g = chain()
    assert g.ops() == ("^in", "^0", "^1", "^out")
    assert g.operands("^1") == ("%exp", "%exp")
    assert g.users("%exp") == ("^1",)
    assert g.producer("%mul") == "^1"
    assert g.inputs() == ("%a",) and g.outputs() == ("%mul",)
    assert g.block_of("%exp") == "@1" and not g.is_value("%exp")
    assert g.layout("%exp") == LAYOUT


def test_a_finished_graph_does_not_change() -> None:
    g = chain()
    before = print_graph(g)
    with pytest.raises(nx.NetworkXError):
        g.nx.add_node("%x")
    with pytest.raises(AttributeError):
        g.op("^0").what = core.Input()  # type: ignore[misc]
    draft = g.draft("edit")
    draft.remove("^1")
    draft.replace("^0", Op(core.Call("aten.sin.default", (Operand(0),))))
    draft.finish()
    assert print_graph(g) == before


def test_ids_are_given_once() -> None:
    draft = chain().draft("edit")
    assert draft.fresh("%exp") == "%exp.1"
    assert draft.fresh("%exp") == "%exp.2"
    assert draft.fresh("^") == "^2"
    assert draft.fresh("%we ird'\n") == "%we_ird__"


def test_a_rewrite_keeps_ids_for_who_asks() -> None:
    draft = Draft.rewrite(chain(), "rewrite")
    assert draft.fresh("^") == "^2"
    assert draft.fresh("^0") == "^0"
    assert draft.fresh("^0") == "^0.1"


def test_ops_stay_in_program_order() -> None:
    draft = chain().draft("edit")
    t = draft.add_tensor(Tensor(F32, (4,)), block="@1", layout=LAYOUT)
    draft.add_op(Op(core.Call("aten.sin.default", (Operand(0),))), ("%a",), (t,), before="^1")
    assert draft.finish().graph.ops() == ("^in", "^0", "^2", "^1", "^out")


def test_edits_and_refusals_carry_reasons() -> None:
    draft = chain().draft("edit")
    draft.replace("^0", Op(core.Call("aten.sin.default", (Operand(0),))), because=Reason.of("view-of"))
    draft.decline(("^0", "^1"), Reason.of("space-differs", first="[4]", second="[5]"), ("%exp",))
    did, declined = draft.finish().explanations
    assert (did.verdict, did.subject, did.by) == ("did", ("^0",), "edit")
    assert declined.verdict == "declined" and "[4] against [5]" in str(declined.reason)


def test_diff_is_by_id() -> None:
    g = chain()
    draft = g.draft("edit")
    draft.replace("^0", Op(core.Call("aten.sin.default", (Operand(0),))))
    draft.remove("%mul")
    new = draft.add_tensor(Tensor(F32, (4,)), id="%new")
    d = diff(g, draft.finish().graph)
    assert (d.added, d.removed, set(d.changed)) == ((new,), ("%mul",), {"^0", "^out"})
    assert not diff(g, g)


def test_orderings_between_two_ops_join() -> None:
    draft = chain().draft("edit")
    draft.order("^0", "^1", Ordering(("RAW",), "x"))
    draft.order("^0", "^1", Ordering(("WAW",), "y"))
    assert draft.finish().graph.orderings() == (("^0", "^1", Ordering(("RAW", "WAW"), "x")),)


def test_segments_know_their_members() -> None:
    draft = chain().draft("edit")
    s = draft.add_segment(Segment("pointwise", (4,)), ["^0", "^1"])
    g = draft.finish().graph
    assert g.members(s) == ("^0", "^1") and g.segments_of("^1") == (s,)
