"""Graphs made by hand for the pictures: f(a, b) = a.exp_() * b.tanh_() with b = a[0, 0], at three stages; others."""

from __future__ import annotations

import itertools

from fusekit.dtypes import F32
from fusekit.ids import NodeId
from fusekit.index import Form, loop_vars
from fusekit.ir import (
    INPUT,
    RETURN,
    Block,
    Boundary,
    Draft,
    Graph,
    Guard,
    Layout,
    Op,
    Operand,
    Ordering,
    Origin,
    Segment,
    Tensor,
    empty_graph,
)
from fusekit.ir.core_text import read_op
from fusekit.why import Explanation, Reason

N = 1024
WHOLE, ELEMENT = Layout.contiguous((N, N), F32), Layout.contiguous((), F32)


def line(number: int, modules: str = "") -> Origin:
    return Origin("f.py", number, modules)


def call(
    draft: Draft,
    target: str,
    operands: tuple[NodeId, ...],
    results: tuple[NodeId, ...],
    at: int = 1,
    modules: str = "",
    **more: object,
) -> NodeId:
    args = tuple(Operand(k) for k in range(len(operands)))
    what = read_op(target, args, **more)  # type: ignore[arg-type]
    payload = Op(what, line(at, modules))
    wanted = {INPUT: "^in", RETURN: "^out"}.get(target)
    return draft.add_op(payload, operands, results, id=wanted)


def _inputs(draft: Draft) -> tuple[NodeId, NodeId, NodeId]:
    memory = draft.add_block(Block(4 * N * N, "cpu", "argument"))
    a = draft.add_tensor(Tensor(F32, (N, N), "a"), block=memory, layout=WHOLE, role="input")
    b = draft.add_tensor(Tensor(F32, (), "b"), block=memory, layout=ELEMENT, role="input")
    call(draft, INPUT, (), (a, b))
    return memory, a, b


def program() -> Graph:
    """After alias-groups."""
    draft = empty_graph("f").draft("trace")
    memory, a, b = _inputs(draft)
    a1 = draft.add_tensor(Tensor(F32, (N, N), "a"), id="%a.1", block=memory, layout=WHOLE)
    b1 = draft.add_tensor(Tensor(F32, (), "b"), id="%b.1", block=memory, layout=ELEMENT)
    fresh = draft.add_block(Block(4 * N * N, "cpu", "fresh"))
    out = draft.add_tensor(Tensor(F32, (N, N), "out"), block=fresh, layout=WHOLE, role="new")
    exp = call(draft, "aten.exp_.default", (a,), (a1,), 2, writes=(0,), same=((0, 0),))
    tanh = call(draft, "aten.tanh_.default", (b,), (b1,), 3, writes=(0,), same=((0, 0),))
    mul = call(draft, "aten.mul.Tensor", (a1, b1), (out,), 3)
    call(draft, RETURN, (out,), ())
    draft.order(exp, tanh, Ordering(("RAW", "WAR", "WAW"), "a[0,0]"))
    draft.order(exp, mul, Ordering(("RAW",), "a[0,0] through b"))
    draft.order(tanh, mul, Ordering(("RAW",), "a[0,0] through a"))
    return draft.finish().graph


def functional() -> Graph:
    """After functionalize: values, two stores."""
    draft = empty_graph("f").draft("functionalize")
    _, a, _ = _inputs(draft)
    fresh = draft.add_block(Block(4 * N * N, "cpu", "fresh"), id="@1")
    out = draft.add_tensor(Tensor(F32, (N, N), "out"), block=fresh, layout=WHOLE, role="new")
    names = ("a_old", "exp", "first", "tanh", "a_new", "product")
    shapes = ((N, N), (N, N), (), (), (N, N), (N, N))
    loaded, exp, first, tanh, new, product = (
        draft.add_tensor(Tensor(F32, s), id=f"%{n}") for n, s in zip(names, shapes, strict=True)
    )
    i0, i1 = loop_vars((N, N))
    at_zero = (("index", (Form(), Form())),)
    over = (("index", ()), ("where", (Guard(i0, 1), Guard(i1, 1))))
    call(draft, "fk.load", (a,), (loaded,), 2)
    call(draft, "aten.exp.default", (loaded,), (exp,), 2)
    call(draft, "fk.window", (exp,), (first,), 3, kwargs=at_zero)
    call(draft, "aten.tanh.default", (first,), (tanh,), 3)
    call(draft, "fk.overlay", (exp, tanh), (new,), 3, kwargs=over)
    call(draft, "aten.mul.Tensor", (new, tanh), (product,), 3)
    call(draft, "fk.store", (new, a), (), 3, writes=(1,))
    call(draft, "fk.store", (product, out), (), 3, writes=(1,))
    call(draft, RETURN, (out,), ())
    return draft.finish().graph


def segmented() -> Graph:
    graph = functional()
    draft = graph.draft("segment")
    draft.add_segment(Segment("pointwise", (N, N)), [op for op in graph.ops() if op not in ("^in", "^out")])
    return draft.finish().graph


def reasons() -> tuple[Explanation, ...]:
    """Some for ``program`` and ``segmented``."""
    late = Reason.of("reads-after-write", writer="^1", where="a[0,0] through a")
    one = Reason.of("one-kernel", space="[1024, 1024]", because="the stores share values")
    return (
        Explanation((NodeId("^1"), NodeId("^2")), "did", late, (), "alias-groups"),
        Explanation((NodeId("$0"),), "did", one, (), "segment"),
    )


def chain(layers: int, *, segmented_by: int = 0) -> Graph:
    """``layers`` times (linear, a run like gelu, add); ``segmented_by`` > 0: with segments."""
    draft = empty_graph("model").draft("trace")
    shape = (8, 1024, 768)
    layout = Layout.contiguous(shape, F32)

    def place(name: str, kind: str) -> NodeId:
        block = draft.add_block(Block(layout.nbytes, "cpu", kind))
        return draft.add_tensor(Tensor(F32, shape, name), block=block, layout=layout, role="new")

    x = place("x", "argument")
    weights = [place(f"w{k}", "capture") for k in range(layers)]
    call(draft, INPUT, (), (x, *weights))
    segments: list[tuple[str, list[NodeId]]] = []
    for k, w in enumerate(weights):
        y = place(f"y{k}", "fresh")
        segments.append(("extern", [call(draft, "aten.matmul.default", (x, w), (y,), k + 2, f"GPT.Block{k}.Linear")]))
        run = []
        value = y
        for name in ("mul", "tanh", "add", "mul", "sigmoid", "sub"):
            made = place(f"{name}{k}", "fresh")
            pair = (value, y) if name in ("mul", "add", "sub") else (value,)
            run.append(call(draft, f"aten.{name}.Tensor", pair, (made,), k + 2, f"GPT.Block{k}.Gelu"))
            value = made
        made = place(f"r{k}", "fresh")
        run.append(call(draft, "aten.add.Tensor", (value, x), (made,), k + 2, f"GPT.Block{k}"))
        segments.append(("pointwise", run))
        x = made
    call(draft, RETURN, (x,), ())
    if segmented_by:
        ids = [draft.add_segment(Segment(kind, shape if kind == "pointwise" else ()), ops) for kind, ops in segments]
        for a, b in itertools.pairwise(ids):
            draft.add_boundary(a, b, x, Boundary(layout.nbytes))
    return draft.finish().graph
