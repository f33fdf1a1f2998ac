"""The index at which each tensor of a segment is needed, and from it the domains that a picture shows.

Code needs no replay, since values are pulled at an index. A tensor's loop domain is what that index says: the
reference's loops whose variables occur in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from fusekit.domains.loop import LoopDomain
from fusekit.domains.reference import REDUCE, Index, Reference, place, roots, space_of
from fusekit.ids import NodeId
from fusekit.index import Form, Var, loop_vars, substitute
from fusekit.ir import Graph, Guard, TensorDomain

MOST = 4000  # (tensor, index) pairs that one segment is searched for


def accesses(graph: Graph, segment: NodeId, reference: Reference, index: Sequence[Form]) -> dict[NodeId, list[Index]]:
    """Every tensor of the segment (values, and places that are loaded or stored) with the indices it is needed at.

    ``index`` is the logical index in the reference's space. The search ends after ``MOST`` pairs, and a root
    that the space has no room for is left out.
    """
    starts: list[tuple[NodeId, Index]] = []
    for root in roots(graph, segment):
        if not reference.has_room(space_of(graph, root)):
            continue
        at = place(space_of(graph, root), reference, index).index
        starts += [(tensor, at) for tensor in graph.operands(root)]
    return needed_from(graph, starts)


def needed_from(graph: Graph, starts: Iterable[tuple[NodeId, Index]]) -> dict[NodeId, list[Index]]:
    """Every tensor that these (tensor, index) pairs need, themselves too, as in ``accesses``."""
    found: dict[NodeId, list[Index]] = {}
    todo = list(starts)
    count = 0
    while todo and count < MOST:
        tensor, at = todo.pop()
        known = found.setdefault(tensor, [])
        if at in known:
            continue
        known.append(at)
        count += 1
        if graph.is_value(tensor):
            todo += _needs(graph, tensor, at)
    return found


def _needs(graph: Graph, tensor: NodeId, at: Index) -> Iterator[tuple[NodeId, Index]]:
    """What an element of a value needs; a reduction is a root of its own, which the search has started from."""
    node = graph.producer(tensor)
    op, operands = graph.op(node), graph.operands(node)
    match op.target:
        case "fk.load":
            yield operands[0], at
        case "fk.window":
            yield operands[0], _through(graph, tensor, at, op.kwarg("index"))
        case "fk.overlay":
            yield operands[0], at
            yield operands[1], _through(graph, tensor, at, op.kwarg("index"))
        case "fk.take" | "fk.gather":
            yield from _looked_up(graph, tensor, at)
        case _ if op.target != REDUCE:
            for operand in operands:
                yield operand, _broadcast(graph.tensor(operand).shape, at)
        case _:
            pass


def _looked_up(graph: Graph, tensor: NodeId, at: Index) -> Iterator[tuple[NodeId, Index]]:
    """The index tensor, and the source at a position that only the data know: a variable of the look-up's own."""
    op, (source, index) = graph.op(graph.producer(tensor)), graph.operands(graph.producer(tensor))
    dim, rank = cast(int, op.kwarg("dim")), len(graph.tensor(index).shape)
    found = Form.of(Var(f"at_{tensor[1:]}", graph.tensor(source).shape[dim], "found"))
    if op.target == "fk.gather":
        yield index, at
        yield source, (*at[:dim], found, *at[dim + 1 :])
    else:
        yield index, at[dim : dim + rank]
        yield source, (*at[:dim], found, *at[dim + rank :])


def _through(graph: Graph, tensor: NodeId, at: Index, forms: object) -> Index:
    own = loop_vars(graph.tensor(tensor).shape)
    env = {cast(Var, form.terms[0][0]): new for form, new in zip(own, at, strict=True) if form.terms}
    return tuple(substitute(form, env) for form in cast("tuple[Form, ...]", forms))


def guards(graph: Graph, needed: dict[NodeId, list[Index]]) -> Iterator[Form]:
    """What the choices between a value and the one put over it depend on, at the indices of ``accesses``."""
    for tensor, indices in needed.items():
        if graph.is_value(tensor) and graph.op(graph.producer(tensor)).target == "fk.overlay":
            where = cast("tuple[Guard, ...]", graph.op(graph.producer(tensor)).kwarg("where", ()))
            for at in indices:
                yield from _through(graph, tensor, at, tuple(guard.form for guard in where))


def _broadcast(shape: tuple[int, ...], at: Index) -> Index:
    own = at[len(at) - len(shape) :]
    return tuple(Form() if n == 1 else form for n, form in zip(shape, own, strict=True))


def tensor_domain(
    graph: Graph, segment: NodeId, tensor: NodeId, reference: Reference, loop: LoopDomain
) -> TensorDomain:
    """Domains of a tensor in a segment, for a picture: the graph's own where it holds some, else derived.

    ``logical`` names the reference's axes that the tensor runs along as a whole; an axis that is cut out of them, or
    composed, has no id. A stored or loaded place is allocated as its layout says.
    """
    if (own := graph.domain(tensor, segment)).logical:
        return own
    needed = accesses(graph, segment, reference, loop.index()).get(tensor, [])
    if not needed:
        return TensorDomain()
    at = {form: i for i, form in zip(loop.logical, loop.index(), strict=True) if form.terms}
    logical = tuple(at[form] for form in needed[0] if form in at)
    loops = loop.loops_of(form for index in needed for form in index)
    if graph.is_value(tensor):
        return TensorDomain((), logical, loops)
    layout = graph.layout(tensor)
    width = layout.dtype.width
    pairs = [(stride, at[form]) for form, stride in zip(needed[0], layout.strides, strict=True) if form in at]
    pairs.sort(key=lambda pair: -abs(pair[0]))
    extents = [loop.graph.ids[i].extent for _, i in pairs]
    steps = [*(abs(stride) for stride, _ in pairs[1:]), 0]
    dense = tuple(
        abs(stride) == (step * n if step else width)
        for (stride, _), step, n in zip(pairs, steps, [*extents[1:], 1], strict=True)
    )
    strides = tuple(stride // width for stride, _ in pairs)
    return TensorDomain((), logical, loops, tuple(i for _, i in pairs), dense, strides)
