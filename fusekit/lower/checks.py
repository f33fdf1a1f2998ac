"""Indices that are looked at before anything is stored: a loop over the index tensor, and a stop where one is bad."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from fusekit.dtypes import BOOL
from fusekit.ids import NodeId
from fusekit.index import Form, Var
from fusekit.ir import Graph, Guard, Layout, core
from fusekit.lower.expressions import Literal, Outside
from fusekit.lower.folded import row_major
from fusekit.lower.names import Names
from fusekit.lower.program import (
    Accumulate,
    Assign,
    Finish,
    Fold,
    For,
    If,
    Init,
    LaunchAxis,
    Load,
    Statement,
    Stop,
    Test,
)


def checks(graph: Graph, ops: Sequence[NodeId], names: Names, axes: Sequence[LaunchAxis]) -> tuple[Statement, ...]:
    """The statements that lead a kernel with these ``fk.check_index`` ops; ``axes`` share the elements out."""
    some = [op for op in ops if graph.layout(graph.operands(op)[0]).numel]
    return tuple(statement for op in some for statement in _check(graph, op, names, axes))


def check_ops(graph: Graph, segment: NodeId) -> tuple[NodeId, ...]:
    """The checks of a segment, in the order of the program."""
    return tuple(op for op in graph.members(segment) if isinstance(graph.what(op), core.CheckIndex))


def _check(graph: Graph, op: NodeId, names: Names, axes: Sequence[LaunchAxis]) -> Iterator[Statement]:
    place = graph.operands(op)[0]
    layout, block = graph.layout(place), graph.block_of(place)
    assert block is not None, f"{op} looks at memory"
    bad, one, index = names.fresh("bad_so_far"), names.fresh("is_bad"), names.fresh(graph.tensor(place).name or "index")
    order, position, guard = _walk(layout, names, axes)
    load = Load(index, names.memory(block), layout.address(position), layout.dtype, None, (op,))
    found = Assign(one, _outside(graph, op, index), BOOL, (op,))
    body: tuple[Statement, ...] = (load, found)
    if guard is not None:
        test = names.fresh("inside")
        held = frozenset([frozenset([(test, True)])])
        body = (Test(test, (guard,)), Assign(one, Literal(False, BOOL), BOOL), If(held, body))
    body = (*body, Accumulate(bad, Fold.ANY, one, BOOL, BOOL, ops=(op,)))
    for var in reversed(order):
        body = (For(var, body),)
    answer = names.fresh("bad")
    yield Init(bad, Fold.ANY, BOOL)
    yield from body
    yield Finish(answer, bad, Fold.ANY, BOOL, BOOL, (op,))
    yield Stop(answer)


def _outside(graph: Graph, op: NodeId, index: str) -> Outside:
    what = graph.what(op)
    assert isinstance(what, core.CheckIndex), f"{op} is no check"
    return Outside(index, -what.size if what.wraps else 0, what.size, what.ignore)


def _walk(layout: Layout, names: Names, axes: Sequence[LaunchAxis]) -> tuple[list[Var], list[Form], Guard | None]:
    """(loops, the index at an iteration, where it is one). Without axes a loop a dimension, else threads in turn."""
    if not axes:
        order = [Var(names.fresh("at"), n) for n in layout.shape]
        position = [Form.of(var) if var.extent > 1 else Form() for var in order]
        return _joined([var for var in order if var.extent > 1], position, layout)
    threads = [axis.var for axis in axes]
    together = prod(var.extent for var in threads)
    flat = row_major(map(Form.of, threads), [var.extent for var in threads])
    turns = -(-layout.numel // together)
    order = [Var(names.fresh("at"), turns)] if turns > 1 else []
    if order:
        flat = flat + Form.of(order[0]) * together
    guard = Guard(flat, layout.numel) if turns * together > layout.numel else None
    return order, _unflattened(flat, layout.shape), guard


def _joined(order: list[Var], position: list[Form], layout: Layout) -> tuple[list[Var], list[Form], Guard | None]:
    """One loop over a dense tensor: it vectorises from end to end."""
    if len(order) < 2 or not layout.is_same_map(Layout.contiguous(layout.shape, layout.dtype, layout.offset.const)):
        return order, position, None
    flat = Var(order[0].name, layout.numel)
    return [flat], _unflattened(Form.of(flat), layout.shape), None


def _unflattened(flat: Form, shape: Sequence[int]) -> list[Form]:
    """Row-major digits of a number below the product of the shape."""
    out: list[Form] = []
    for k, n in enumerate(shape):
        rest = prod(shape[k + 1 :])
        digit = flat // rest if rest > 1 else flat
        out.append(Form() if n == 1 else digit if prod(shape[:k]) == 1 else digit % n)
    return out
