"""A store whose value is a permutation of something, over the space of that: through another layout of its place.

``softmax(x).transpose(1, 2).reshape(b, t, h * d)`` is folded over (b, h, t, d) and stored over (b, t, h * d): no nest
of loops holds both. Stored over (b, h, t, d), through the strides that the place then has, it is one kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from fusekit.ids import NodeId
from fusekit.index import Div, Form, Var, loop_vars, put
from fusekit.ir import Graph, Tensor, core
from fusekit.passes.rewrite import Rewriter, layout_at
from fusekit.passes.values import Index, Value


def turned(graph: Graph, store: NodeId) -> Iterator[Graph]:
    """The graph with the store over the space of each tensor of which its value begins with a permutation."""
    value = Rewriter(graph, "segment").value(graph.operands(store)[0])
    found: dict[tuple[Index, tuple[int, ...]], None] = {}
    for view, index in _views(value):
        source = view.operands[0].shape
        if (back := way_back(index, source, view.shape)) is not None:
            found[back, source] = None
    for back, shape in found:
        if (made := _turned(graph, store, back, shape)) is not None:
            yield made


def way_back(index: Index, source: tuple[int, ...], shape: tuple[int, ...]) -> Index | None:
    """Where in ``shape`` each element of ``source`` comes by, for a view that has every element once, in another order;
    None for any other view."""
    if prod(source) != prod(shape) or not prod(shape):
        return None
    own: Index = loop_vars(source)
    back: dict[Var, Form] = {}
    for at, form in zip(own, index, strict=True):
        if at.terms:
            digit = _digit(form)
            if digit is None:
                return None
            var, step = digit
            back[var] = back.get(var, Form()) + at * step
    variables = [form.terms[0][0] if form.terms else None for form in loop_vars(shape)]
    found = tuple(back.get(var, Form()) if isinstance(var, Var) else Form() for var in variables)
    return found if put(index, found, shape) == own and found != own else None


def _digit(form: Form) -> tuple[Var, int] | None:
    """(variable, weight) of a form that is one digit of a variable."""
    step = 1
    while not form.const and len(form.terms) == 1 and form.terms[0][1] == 1:
        atom = form.terms[0][0]
        if isinstance(atom, Var):
            return atom, step
        step *= atom.by if isinstance(atom, Div) else 1
        form = atom.of
    return None


def _is_computed(v: Value, shape: tuple[int, ...]) -> bool:
    return isinstance(v.what, core.Elementwise) and v.shape == shape


def _views(value: Value) -> Iterator[tuple[Value, Index]]:
    """The views, each with its index, over the space of ``value`` that it is computed of, element by element."""
    seen: set[int] = set()
    todo = [value]
    while todo:
        v = todo.pop()
        if v.number in seen:
            continue
        seen.add(v.number)
        if _is_computed(v, value.shape):
            todo += v.operands
        elif isinstance(v.what, core.Window) and v.shape == value.shape:
            yield v, v.what.index


def _turned(graph: Graph, store: NodeId, back: Index, shape: tuple[int, ...]) -> Graph | None:
    """The graph with the store over ``shape``, whose elements come by at ``back``."""
    rewriter = Rewriter(graph, "segment")
    place = graph.operands(store)[1]
    block, lives = graph.block_of(place), graph.lives(place)
    layout = layout_at(graph.layout(place).address(back), shape, graph.layout(place).dtype)
    if layout is None or lives is None:
        return None
    value = _over(rewriter, rewriter.value(graph.operands(store)[0]), back, shape)
    base = rewriter.draft.add_tensor(
        Tensor(layout.dtype, shape), id=f"{place}.base", block=block, layout=layout, role=lives.role
    )
    rewriter.store(store, value, base)
    rewriter.draft.sweep()
    return rewriter.draft.finish().graph


def _over(rewriter: Rewriter, value: Value, back: Index, shape: tuple[int, ...]) -> Value:
    """The value over ``shape``: computed there, of operands that are read at ``back``."""
    values, made = rewriter.values, dict[int, Value]()
    todo = [value]
    while todo:
        v = todo[-1]
        missing = [o for o in v.operands if o.number not in made] if _is_computed(v, value.shape) else []
        if missing and v.number not in made:
            todo += missing
            continue
        todo.pop()
        if v.number in made:
            continue
        values.current = v.of
        if _is_computed(v, value.shape):
            made[v.number] = values.raw(v.what, tuple(made[o.number] for o in v.operands), shape, v.dtype)
        else:
            made[v.number] = values.window(v, core.broadcast_index(v.shape, back), shape) if v.shape else v
    return made[value.number]
