"""Values as ops of the functional graph, and ops of the functional graph as values."""

from __future__ import annotations

from typing import cast

from fusekit.ids import NodeId
from fusekit.ir import Graph, Op, Operand, is_tuple
from fusekit.passes.values import (
    APPLY,
    BITS,
    CAST,
    FILL,
    GATHER,
    IOTA,
    LOAD,
    OVERLAY,
    REDUCE,
    TAKE,
    WINDOW,
    Value,
    Values,
)

NAMES = {
    WINDOW: ("index",),
    OVERLAY: ("index", "where"),
    REDUCE: ("kind", "dims"),
    TAKE: ("dim",),
    GATHER: ("dim",),
    FILL: ("value",),
    IOTA: ("start", "step"),
    CAST: (),
    BITS: (),
}
"""Kinds of values that are ops of ours, and what their detail is called in the graph."""


def op_of(value: Value) -> Op:
    """The op that makes a value of its operands."""
    args = tuple(Operand(k) for k in range(len(value.operands)))
    if value.kind == APPLY:
        target, own, kwargs = value.detail
        assert isinstance(target, str) and is_tuple(own)
        return Op(target, own, cast("tuple[tuple[str, object], ...]", kwargs))
    return Op(value.kind, args, tuple(zip(NAMES[value.kind], value.detail, strict=True)))


def value_of(values: Values, graph: Graph, op: NodeId, operands: tuple[Value, ...]) -> Value:
    """The value that an op of the functional graph makes, just as it stands there; a load is known by its id."""
    payload = graph.op(op)
    (result,) = graph.results(op)
    made = graph.tensor(result)
    if payload.target == LOAD:
        kind, detail = LOAD, (op,)
    elif payload.target in NAMES:
        kind, detail = payload.target, tuple(payload.kwarg(name) for name in NAMES[payload.target])
    else:
        kind, detail = APPLY, (payload.target, payload.args, payload.kwargs)
    values.current = op
    return values.raw(kind, detail, operands, made.shape, made.dtype)
