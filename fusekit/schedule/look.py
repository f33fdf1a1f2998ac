"""What a scheduler looks at: the reference of a segment, and how each access walks through memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import cast

from fusekit.domains import Reference, accesses, guards, reduced_dims, reductions, reference_of, roots, space_of
from fusekit.ids import NodeId
from fusekit.index import Form, Var, loop_vars
from fusekit.ir import Graph, core

VECTOR_BYTES = 16


@dataclass(frozen=True, slots=True)
class Access:
    """A load from, or a store to, ``place``; ``address`` in bytes, over the variables of the reference's dimensions."""

    place: NodeId
    address: Form
    width: int
    is_store: bool


@dataclass(frozen=True)
class Look:
    """One look at a segment; ``index`` is the logical index that ``accesses`` and ``tests`` are written in."""

    reference: Reference
    index: tuple[Form, ...]
    accesses: tuple[Access, ...]
    tests: tuple[Form, ...]
    order: tuple[int, ...]

    def step(self, access: Access, dim: int) -> int | None:
        """Bytes of one step along a dimension; None where the address goes there by division."""
        return self._step(access.address, dim)

    def _step(self, form: Form, dim: int) -> int | None:
        own = self.index[dim]
        return form.coefficient(cast(Var, own.terms[0][0])) if own.terms else 0

    def is_one_step(self, outer: int, inner: int) -> bool:
        """Does every access, and every choice, go through both dimensions as through one?"""
        extent = self.reference.shape[inner]
        if extent == 1 or self.reference.shape[outer] == 1:
            return True
        forms = (*(a.address for a in self.accesses), *self.tests)
        pairs = ((self._step(form, outer), self._step(form, inner)) for form in forms)
        return all(a is not None and b is not None and a == b * extent for a, b in pairs)

    def groups(self, dims: tuple[int, ...]) -> list[list[int]]:
        """Neighbours in ``dims`` that are one loop for every access, together."""
        found: list[list[int]] = []
        for dim in dims:
            if found and self.is_one_step(found[-1][-1], dim):
                found[-1].append(dim)
            else:
                found.append([dim])
        return found

    def extent(self, dims: list[int] | tuple[int, ...]) -> int:
        return prod(self.reference.shape[k] for k in dims)

    def lanes(self, dims: list[int], only_stores: bool = False) -> int:
        """Elements of one vector along the innermost of the joined ``dims``: 16 bytes of the widest access there, less
        where extents or addresses do not divide. ``only_stores``: loads may be element by element."""
        along = [a for a in self.accesses if dims and abs(self.step(a, dims[-1]) or 0) == a.width]
        along = [a for a in along if a.is_store or not only_stores]
        n = VECTOR_BYTES // max((a.width for a in along), default=VECTOR_BYTES)
        extent = self.extent(dims)
        while n > 1 and (extent % n or not all(self._is_aligned(a, dims, n) for a in along)):
            n //= 2
        return max(n, 1)

    def _is_aligned(self, access: Access, dims: list[int], n: int) -> bool:
        rest = access.address
        for dim in dims:
            step = self.step(access, dim)
            if step is None or step < 0:
                return False
            rest = rest - self.index[dim] * step
        return rest.is_divisible(n * access.width)

    def across(self) -> tuple[Access, int] | None:
        """A load that walks in single steps along another dimension than the innermost, with that dimension."""
        if len(self.order) < 2 or not any(self._unit(a) == self.order[-1] for a in self.accesses):
            return None
        for access in self.accesses:
            unit = self._unit(access)
            if unit not in (None, self.order[-1]) and self.step(access, self.order[-1]):
                return access, cast(int, unit)
        return None

    def _unit(self, access: Access) -> int | None:
        """The dimension along which an access goes from element to element."""
        units = (
            k for k in self.order if self.reference.shape[k] > 1 and abs(self.step(access, k) or 0) == access.width
        )
        return next(units, None)


def look(graph: Graph, segment: NodeId) -> Look | None:
    """A look at a segment, taken once; None for one that computes nothing."""
    return graph.once(("look", segment), lambda: _look(graph, segment))


def _look(graph: Graph, segment: NodeId) -> Look | None:
    reference = reference_of(graph, segment)
    if reference is None:
        return None
    index = loop_vars(reference.shape)
    found: dict[Access, None] = {}
    stored = {graph.operands(op)[1] for op in roots(graph, segment) if len(graph.operands(op)) > 1}
    needed = accesses(graph, segment, reference, index)
    tests = tuple(dict.fromkeys(guards(graph, needed)))
    for tensor, indices in needed.items():
        if not graph.is_value(tensor):
            layout = graph.layout(tensor)
            for at in indices:
                found[Access(tensor, layout.address(at), layout.dtype.width, tensor in stored)] = None
    draft = Look(reference, index, tuple(found), tests, ())
    return replace(draft, order=_order(draft))


def _order(seen: Look) -> tuple[int, ...]:
    """Dimensions with long steps outside, as the widest store walks (with reductions: as the widest load does)."""
    reference = seen.reference
    dims = range(len(reference.shape))

    def weight(access: Access) -> tuple[int, bool]:
        walked = (reference.shape[k] for k in dims if seen.step(access, k) != 0)
        return prod(walked), access.is_store != bool(reference.reduced)

    main = max(seen.accesses, key=weight, default=None)
    steps = {k: 0 if main is None else abs(seen.step(main, k) or 0) for k in dims}
    single = [k for k in dims if reference.shape[k] == 1]
    rest = sorted((k for k in dims if reference.shape[k] != 1), key=lambda k: -steps[k] if steps[k] else -(2**62))
    return (*single, *rest)


def folds_alike(graph: Graph, segment: NodeId) -> tuple[NodeId, NodeId] | None:
    """Two reductions that fold other axes, or None."""
    ops = reductions(graph, segment)
    kinds = {op: (space_of(graph, op), reduced_dims(graph, op)) for op in ops}
    return next(((ops[0], op) for op in ops if kinds[op] != kinds[ops[0]]), None)


def larger_root(graph: Graph, segment: NodeId) -> NodeId | None:
    """A root that the space of the reference has no room for."""
    reference = reference_of(graph, segment)
    found = (op for op in roots(graph, segment) if reference and not reference.has_room(space_of(graph, op)))
    return next(found, None)


def resized_by(graph: Graph, segment: NodeId) -> NodeId | None:
    """The first op that reads a part of a value, or puts one into another; None when all is read whole."""
    for op in graph.members(segment):
        match graph.what(op):
            case core.Overlay():
                return op
            case core.Window(index):
                shape = graph.tensor(graph.operands(op)[0]).shape
                if any(_is_part(form, n) for form, n in zip(index, shape, strict=True)):
                    return op
            case _:
                pass
    return None


def _is_part(form: Form, extent: int) -> bool:
    low, high = form.bounds
    return low > 0 or high < extent - 1
