"""Pairing of orbits: where iterations swap elements (a flip, a transpose in place), one of them does the work of all.

Stores of one tensor's shape that read it through maps of its own index, x[n-1-i] or x[j, i], form orbits under these
maps: few elements each, and no load of one orbit meets a store of another. The iteration at one element of an orbit
(the smallest or the largest in row-major order) computes the values of all of its elements, then stores them. Whether
races are gone then is asked again, so a wrong guess here costs nothing but its try.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import cast

from fusekit.ids import NodeId
from fusekit.index import Form, Var, loop_vars, put
from fusekit.ir import Graph, Guard, Layout, core
from fusekit.memory import Kind, locate, nested

Index = core.Index
MOST = 8  # elements of an orbit
VALUES = 2000  # (value, index) pairs that are looked at


@dataclass(frozen=True, slots=True)
class Orbit:
    """``maps``: the other elements of an orbit, as forms over ``loop_vars(shape)``. ``firsts``: forms over the same
    that are all 0 or more just at the element that works for its orbit."""

    shape: tuple[int, ...]
    maps: tuple[Index, ...]
    firsts: tuple[Form, ...]

    def others(self, index: Sequence[Form]) -> Iterator[Index]:
        """The indices of the other elements."""
        return (put(one, index, self.shape) for one in self.maps)

    def guards(self, index: Sequence[Form]) -> Iterator[Guard]:
        """Bounds on the iterations that work, written so that loops over the last dimension end early."""
        for at in put(self.firsts, index, self.shape):
            most = at.bounds[1]
            yield Guard(-at + most, most + 1)


def orbits_of(graph: Graph, roots: Sequence[NodeId]) -> dict[NodeId, Orbit] | str:
    """The orbit of each store that is paired; or why there are none."""
    stores = [op for op in roots if not isinstance(graph.what(op), core.Reduce)]
    found: dict[NodeId, Orbit] = {}
    for shape in dict.fromkeys(graph.layout(graph.operands(op)[1]).shape for op in stores):
        alike = [op for op in stores if graph.layout(graph.operands(op)[1]).shape == shape]
        maps = {index for op in alike for index in _maps(graph, op, alike)}
        closed = _closed(shape, sorted(maps, key=str))
        if closed:
            found |= dict.fromkeys(alike, Orbit(shape, closed, tuple(_firsts(shape, closed))))
    return found or "iterations do not swap elements"


# ---- maps -----------------------------------------------------------------------------------------------------------


def _maps(graph: Graph, store: NodeId, stores: Sequence[NodeId]) -> Iterator[Index]:
    """Where a store's value, at its own index, reads what one of the stores writes."""
    shape = graph.layout(graph.operands(store)[1]).shape
    regions = [(graph.block_of(graph.operands(op)[1]), graph.layout(graph.operands(op)[1])) for op in stores]
    for block, layout, index in _reads(graph, graph.operands(store)[0], loop_vars(shape)):
        for home, region in regions:
            if home == block and layout.dtype.width == region.dtype.width and nested(region):
                found = locate(layout.address(index), region)
                own = tuple(Form() if n == 1 else form for form, n in zip(found.index, region.shape, strict=False))
                if found.kind is Kind.INSIDE and own != loop_vars(shape):
                    yield own


def _reads(graph: Graph, tensor: NodeId, index: Index) -> Iterator[tuple[NodeId | None, Layout, Index]]:
    """(block, layout, index) of every load below a value at an index; look-ups and reductions are left out."""
    todo, seen = [(tensor, index)], set[tuple[NodeId, Index]]()
    while todo and len(seen) < VALUES:
        key = todo.pop()
        if key in seen or not graph.is_value(key[0]):
            continue
        seen.add(key)
        tensor, index = key
        node = graph.producer(tensor)
        operands = graph.operands(node)
        match graph.what(node):
            case core.Load():
                yield graph.block_of(operands[0]), graph.layout(operands[0]), index
            case core.Take() | core.Gather() | core.Reduce():
                pass
            case _:
                found = graph.reads(tensor, index, lambda dim: Form())
                todo += [(operands[read.operand], read.index) for read in found]


def _closed(shape: tuple[int, ...], maps: Sequence[Index]) -> tuple[Index, ...]:
    """All that maps lead to, without the identity; none where that is much, or does not lead back."""
    same = loop_vars(shape)
    found: dict[Index, None] = {same: None}
    todo = [same]
    while todo and maps:
        at = todo.pop()
        for one in maps:
            there = put(one, at, shape)
            if there not in found:
                found[there] = None
                todo.append(there)
        if len(found) > MOST:
            return ()
    leads_back = all(any(put(one, other, shape) == same for other in found) for one in found)
    return tuple(one for one in found if one != same) if leads_back else ()


# ---- who works ------------------------------------------------------------------------------------------------------


def _firsts(shape: tuple[int, ...], maps: Sequence[Index]) -> Iterator[Form]:
    """By how much the other elements are later in row-major order, or earlier: whichever falls along the last loop."""
    own = _number(shape, loop_vars(shape))
    steps = [_number(shape, one) - own for one in maps]
    sign = 1
    for var in [form.terms[0][0] for form in reversed(loop_vars(shape)) if form.terms]:
        c = steps[0].coefficient(cast(Var, var))
        if c:
            sign = -1 if c > 0 else 1
            break
    for step in steps:
        step = step * sign
        unit = gcd(*(c for _, c in step.terms)) or 1
        yield Form.make(((atom, c // unit) for atom, c in step.terms), step.const // unit)


def _number(shape: tuple[int, ...], index: Index) -> Form:
    """The row-major number of an element."""
    weights = [prod(shape[k + 1 :]) for k in range(len(shape))]
    total = Form()
    for form, weight in zip(index, weights, strict=True):
        total = total + form * weight
    return total
