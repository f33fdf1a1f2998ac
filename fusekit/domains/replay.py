"""The index at which each tensor of a segment is needed, and from it the domains that a picture shows.

Code needs no replay, since values are pulled at an index. A tensor's loop domain is what that index says: the
reference's loops whose variables occur in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fusekit.domains.loop import LoopDomain
from fusekit.domains.reference import Index, Reference, place, roots, space_of
from fusekit.ids import NodeId
from fusekit.index import Form, Var
from fusekit.ir import Graph, TensorDomain, core

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


def _reads(graph: Graph, tensor: NodeId, at: Index) -> tuple[core.Read, ...]:
    """What an element of a value reads; a position that only the data know is a variable of the op's own."""
    source = graph.operands(graph.producer(tensor))[:1]

    def free(dim: int) -> Form:
        return Form.of(Var(f"at_{tensor[1:]}", graph.tensor(source[0]).shape[dim], "found"))

    return graph.reads(tensor, at, free)


def _needs(graph: Graph, tensor: NodeId, at: Index) -> Iterator[tuple[NodeId, Index]]:
    """What an element of a value needs; a reduction is a root of its own, which the search has started from."""
    node = graph.producer(tensor)
    if isinstance(graph.what(node), core.Reduce):
        return
    found = _reads(graph, tensor, at)
    for read in reversed(found) if isinstance(graph.what(node), core.Lookup) else found:
        yield graph.operands(node)[read.operand], read.index


def guards(graph: Graph, needed: dict[NodeId, list[Index]]) -> Iterator[Form]:
    """What the choices between a value and the one put over it depend on, at the indices of ``accesses``."""
    for tensor, indices in needed.items():
        if graph.is_value(tensor) and isinstance(graph.what(graph.producer(tensor)), core.Overlay):
            for at in indices:
                yield from (guard.form for read in _reads(graph, tensor, at) for guard in read.where)


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
