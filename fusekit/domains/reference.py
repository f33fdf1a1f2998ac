"""The iteration space of a segment: the logical domain of one reference, from which every root gets its index.

With reductions, the reference is the largest operand of one; else it is the largest store. A root of the same shape
runs at the same index, one of the same number of elements row-major, a smaller one where its other dimensions are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from fusekit.domains.loop import LoopDomain
from fusekit.errors import IllegalTransform
from fusekit.ids import NodeId
from fusekit.index import Form
from fusekit.ir import Graph, Guard, core

Index = tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """``root`` is the fk.store or fk.reduce whose space this is; ``reduced``: its dimensions that are folded."""

    root: NodeId
    shape: tuple[int, ...]
    reduced: frozenset[int]

    @property
    def kept(self) -> tuple[int, ...]:
        """Dimensions that are not folded."""
        return tuple(k for k in range(len(self.shape)) if k not in self.reduced)

    def has_room(self, shape: tuple[int, ...]) -> bool:
        """Does the space have an iteration for each element of a root over ``shape``?

        A fold of nothing still has its results: they run over the kept dimensions alone.
        """
        return prod(shape) <= max(prod(self.shape), prod(self.shape[k] for k in self.kept))

    def loops(self, prefix: str = "") -> LoopDomain:
        """The untransformed loop domain."""
        return LoopDomain.of(self.shape, self.reduced, prefix)


@dataclass(frozen=True, slots=True)
class Placed:
    """A root runs at ``index`` of its own space, in the iterations where all ``guards`` hold."""

    index: Index
    guards: tuple[Guard, ...] = ()


def roots(graph: Graph, segment: NodeId) -> tuple[NodeId, ...]:
    """Reductions and stores of a segment, in program order."""
    return tuple(op for op in graph.members(segment) if isinstance(graph.what(op), core.Store | core.Reduce))


def reductions(graph: Graph, segment: NodeId) -> tuple[NodeId, ...]:
    return tuple(op for op in roots(graph, segment) if isinstance(graph.what(op), core.Reduce))


def space_of(graph: Graph, root: NodeId) -> tuple[int, ...]:
    """The shape that a root runs over: of what it takes."""
    return graph.tensor(graph.operands(root)[0]).shape


def reduced_dims(graph: Graph, root: NodeId) -> frozenset[int]:
    """The operand's dimensions that a root folds: none for a store."""
    what = graph.what(root)
    return frozenset(what.dims) if isinstance(what, core.Reduce) else frozenset()


def reference_of(graph: Graph, segment: NodeId) -> Reference | None:
    """The reference of a segment; None for one that computes nothing."""
    candidates = reductions(graph, segment) or roots(graph, segment)
    if not candidates:
        return None
    root = max(candidates, key=lambda op: (prod(space_of(graph, op)), len(space_of(graph, op)), -graph.position(op)))
    return Reference(root, space_of(graph, root), reduced_dims(graph, root))


def place(shape: tuple[int, ...], reference: Reference, index: Sequence[Form]) -> Placed:
    """Where a root over ``shape`` runs, at the iteration whose logical index in the reference's space is ``index``.

    Raises IllegalTransform for a root with more elements than the space has iterations.
    """
    index, space = tuple(index), reference.shape
    if not reference.has_room(shape):
        what = f"{list(shape)} has more elements than the loops over {list(space)}"
        raise IllegalTransform(what, reference.root, "run it in a segment of its own")
    if shape == space:
        return Placed(index)
    kept = tuple(index[k] for k in reference.kept)
    sizes = tuple(space[k] for k in reference.kept)
    if reference.reduced:
        if shape == sizes:
            return Placed(kept)
        if shape == tuple(1 if k in reference.reduced else n for k, n in enumerate(space)):
            return Placed(tuple(Form() if k in reference.reduced else form for k, form in enumerate(index)))
        if prod(shape) == prod(sizes) and prod(shape) != prod(space):
            return Placed(_unflatten(_flatten(kept, sizes), shape))
    return _padded(shape, space, index) or _row_major(shape, space, index)


def _padded(shape: tuple[int, ...], space: tuple[int, ...], index: Index) -> Placed | None:
    """Dimensions that match the last or the first ones of the space; the others are entered at 0 only."""
    missing = len(space) - len(shape)
    for start in (missing, 0) if missing >= 0 else ():
        full = (1,) * start + shape + (1,) * (missing - start)
        if all(a in (1, b) for a, b in zip(full, space, strict=True)):
            own = zip(index[start : start + len(shape)], shape, strict=True)
            guards = (Guard(form, 1) for form, a, b in zip(index, full, space, strict=True) if a == 1 < b)
            return Placed(tuple(Form() if n == 1 else form for form, n in own), tuple(guards))
    return None


def _row_major(shape: tuple[int, ...], space: tuple[int, ...], index: Index) -> Placed:
    """Element number k runs at iteration number k."""
    flat = _flatten(index, space)
    guards = (Guard(flat, prod(shape)),) if prod(shape) < prod(space) else ()
    return Placed(_unflatten(flat, shape), guards)


def _flatten(index: Sequence[Form], space: Sequence[int]) -> Form:
    flat = Form()
    for form, n in zip(index, space, strict=True):
        flat = flat * n + form
    return flat


def _unflatten(flat: Form, shape: Sequence[int]) -> Index:
    digits: list[Form] = []
    for k, n in enumerate(shape):
        quotient = flat // prod(shape[k + 1 :]) if prod(shape[k + 1 :]) else flat
        digits.append(Form() if n == 1 else quotient if k == 0 else quotient % max(n, 1))
    return tuple(digits)
