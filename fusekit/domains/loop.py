"""Chains of transforms that start at a logical domain: ``Axes``, and the loop domain, which adds who runs each axis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

from fusekit.domains.exact import Derived, Expr, IdGraph
from fusekit.domains.transforms import MergeAxes, Parallelize, ReorderAxes, SplitAligned, SplitBy, TransformBy
from fusekit.errors import IllegalTransform
from fusekit.ids import ITERDOMAIN, NodeId
from fusekit.index import Form, Var
from fusekit.ir import AlignedSplit, IterDomain, Kind, Merge, Parallel, Split, Transform
from fusekit.ir.domains import aligned_extents, split_extents

A = TypeVar("A", bound="Axes")

LANES = (1, 2, 4, 8, 16)
MOST_THREADS = 1024
MOST_UNROLLED = 256
MOST = {
    Parallel.BIDx: 2**31 - 1, Parallel.BIDy: 65535, Parallel.BIDz: 65535,
    Parallel.TIDx: 1024, Parallel.TIDy: 1024, Parallel.TIDz: 64, Parallel.UNROLL: MOST_UNROLLED,
}  # fmt: skip


@dataclass(frozen=True)
class Axes:
    """``logical``, and what its transforms made of it: ``axes``. A value: every transform gives a new one."""

    graph: IdGraph
    logical: tuple[NodeId, ...]
    axes: tuple[NodeId, ...]

    @classmethod
    def of(cls: type[A], shape: Sequence[int], reduced: Iterable[int] = (), prefix: str = "") -> A:
        """Untransformed axes ``#<prefix>i0, ...``; the dimensions ``reduced`` are reductions.

        No dimension at all still has one axis, of one element, that stands for no logical one.
        """
        reduced = frozenset(reduced)
        ids = {
            NodeId(f"{ITERDOMAIN}{prefix}i{k}"): IterDomain(n, Kind.REDUCTION if k in reduced else Kind.ITERATION)
            for k, n in enumerate(shape)
        }
        if ids:
            return cls(IdGraph(ids), tuple(ids), tuple(ids))
        one = NodeId(f"{ITERDOMAIN}{prefix}one")
        return cls(IdGraph({one: IterDomain(1, Kind.BROADCAST)}), (), (one,))

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(self.graph.ids[i].extent for i in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the logical axes."""
        return tuple(self.graph.ids[i].extent for i in self.logical)

    def __len__(self) -> int:
        return len(self.axes)

    def payload(self, axis: int) -> IterDomain:
        return self.graph.ids[self.axes[axis]]

    def apply(self: A, transforms: Iterable[TransformBy]) -> A:
        """The transforms one after another. Raises IllegalTransform."""
        out = self
        for transform in transforms:
            out = out.then(transform)
        return out

    def then(self: A, transform: TransformBy) -> A:
        match transform:
            case SplitBy(axis, factor, inner):
                return self._split(self._at(axis, transform), factor, Split(factor, inner), transform)
            case SplitAligned(axis, factor, row, pitch):
                return self._split_aligned(
                    self._at(axis, transform), self._at(row, transform), factor, pitch, transform
                )
            case MergeAxes(axis):
                return self._merge(axis, transform)
            case ReorderAxes(order):
                if sorted(order) != list(range(len(self.axes))):
                    self._refuse(
                        transform, f"the order {order} is no permutation", f"name all {len(self.axes)} axes once"
                    )
                return replace(self, axes=tuple(self.axes[k] for k in order))
            case Parallelize(types):
                return self._parallelize(types, transform)

    # ---- one transform each

    def _split(self: A, axis: int, factor: int, payload: Split, by: TransformBy) -> A:
        if factor < 1:
            self._refuse(by, f"a factor of {factor}", "split by 1 or more")
        outer, inner = split_extents(self.payload(axis).extent, payload)
        return self._cut(axis, payload, (self.axes[axis],), (outer, inner))

    def _split_aligned(self: A, axis: int, row: int, factor: int, pitch: int, by: TransformBy) -> A:
        if factor < 1 or pitch < 0:
            self._refuse(by, f"a factor of {factor} and a pitch of {pitch}", "split by 1 or more, at a pitch from 0 on")
        if row == axis:
            self._refuse(by, "an axis is no row of itself", "name the axis of the rows")
        payload = AlignedSplit(factor, pitch)
        extents = aligned_extents(self.payload(axis).extent, payload)
        return self._cut(axis, payload, (self.axes[axis], self.axes[row]), extents)

    def _cut(self: A, axis: int, payload: Transform, takes: tuple[NodeId, ...], extents: tuple[int, int]) -> A:
        whole = self.axes[axis]
        outer = self.graph.fresh(f"{whole}o")
        inner = self.graph.fresh(f"{whole}i")
        kind = self.graph.ids[whole].kind
        ids = {outer: IterDomain(extents[0], kind), inner: IterDomain(extents[1], kind)}
        graph = self.graph.with_ids(ids).with_expr(Expr(payload, takes, (outer, inner)))
        return replace(self, graph=graph, axes=(*self.axes[:axis], outer, inner, *self.axes[axis + 1 :]))

    def _merge(self: A, axis: int, by: TransformBy) -> A:
        self._at(axis, by)
        if axis + 1 >= len(self.axes):
            self._refuse(by, f"axis {axis} is the last one", f"merge one of 0 to {len(self.axes) - 2}")
        outer, inner = self.axes[axis : axis + 2]
        kinds = [self.graph.ids[i].kind for i in (outer, inner)]
        proper = [kind for kind in kinds if kind is not Kind.BROADCAST]
        if len(set(proper)) > 1:
            self._refuse(
                by, f"it would join the reduction and the iteration of {outer} and {inner}", "merge axes of one kind"
            )
        whole = self.graph.fresh(_joined(outer, inner))
        extent = self.graph.ids[outer].extent * self.graph.ids[inner].extent
        payload = IterDomain(extent, proper[0] if proper else Kind.BROADCAST)
        graph = self.graph.with_ids({whole: payload}).with_expr(Expr(Merge(), (outer, inner), (whole,)))
        return replace(self, graph=graph, axes=(*self.axes[:axis], whole, *self.axes[axis + 2 :]))

    def _parallelize(self: A, types: tuple[Parallel, ...], by: TransformBy) -> A:
        if len(types) != len(self.axes):
            self._refuse(by, f"{len(types)} types for {len(self.axes)} axes", "give one type an axis")
        for parallel in types:
            if parallel.is_unique and types.count(parallel) > 1:
                self._refuse(by, f"two axes on {parallel.name}", "merge them, or make one SERIAL")
        for parallel, extent in zip(types, self.extents, strict=True):
            self._fits(parallel, extent, by)
        threads = prod(e for p, e in zip(types, self.extents, strict=True) if p.is_thread)
        if threads > MOST_THREADS:
            self._refuse(by, f"{threads} threads a block", f"a block has at most {MOST_THREADS}")
        ids = {i: replace(self.graph.ids[i], parallel=p) for i, p in zip(self.axes, types, strict=True)}
        return replace(self, graph=self.graph.with_ids(ids))

    def _fits(self, parallel: Parallel, extent: int, by: TransformBy) -> None:
        if parallel is Parallel.VECTORIZE and extent not in LANES:
            self._refuse(by, f"a vector of {extent}", f"vectors have {', '.join(map(str, LANES))} lanes: split first")
        if extent > MOST.get(parallel, extent):
            self._refuse(by, f"{extent} on {parallel.name}", f"it takes at most {MOST[parallel]}: split first")

    def _at(self, axis: int, by: TransformBy) -> int:
        if not 0 <= axis < len(self.axes):
            self._refuse(by, f"there is no axis {axis}", f"axes are 0 to {len(self.axes) - 1}")
        return axis

    def _refuse(self, by: TransformBy, what: str, fix: str) -> None:
        raise IllegalTransform(f"{by}: {what}", str(self), fix)

    def __str__(self) -> str:
        return f"[{', '.join(f'{i} {self.graph.ids[i].extent}' for i in self.axes)}]"


class LoopDomain(Axes):
    """The loops of a kernel, outermost first."""

    def variables(self) -> dict[NodeId, Form]:
        """The index of every loop; 0 for a loop of one step.

        Else a variable named by who runs it: ``bx``, ``tx``, or ``s0``, ``u1``, ``v2``, where the number is the axis.
        """
        found: dict[NodeId, Form] = {}
        for k, i in enumerate(self.axes):
            payload = self.graph.ids[i]
            found[i] = Form() if payload.extent == 1 else Form.of(Var(_variable(payload.parallel, k), payload.extent))
        return found

    def derive(self) -> Derived:
        """The index of every iteration domain at an iteration, and the bounds that it must meet."""
        return self.graph.derive(self.variables())

    def index(self) -> tuple[Form, ...]:
        """The logical index at an iteration; right where the bounds of ``derive`` hold."""
        return self.derive().of(self.logical)

    def reduced(self) -> tuple[NodeId, ...]:
        """The loops that a reduction runs over."""
        return tuple(i for i in self.axes if self.graph.ids[i].kind is Kind.REDUCTION)

    def loops_of(self, forms: Iterable[Form]) -> tuple[NodeId, ...]:
        """The loops whose variables occur: the loop domain, replayed, of a tensor that is needed at this index."""
        free = frozenset[Var]().union(*(form.free for form in forms))
        return tuple(i for i, form in self.variables().items() if not form.free.isdisjoint(free))


def _variable(parallel: Parallel, axis: int) -> str:
    if parallel.name[1:3] == "ID":
        return f"{parallel.name[0].lower()}{parallel.name[3]}"
    return f"{parallel.name[0].lower()}{axis}"


_PLAIN = re.compile(r"(.*[^\d])(\d+)")


def _joined(outer: NodeId, inner: NodeId) -> str:
    """``#i0`` and ``#i1`` give ``#i01``; others are joined by ``_`` as long as that stays short."""
    a, b = outer, inner.rpartition(".")[2].lstrip(ITERDOMAIN)
    plain = _PLAIN.fullmatch(a), _PLAIN.fullmatch(b)
    if plain[0] and plain[1] and b[: plain[1].end(1)] == "i" and plain[0][1].endswith("i"):
        return a + plain[1][2]
    name = f"{a}_{b}"
    return name if len(name) <= 20 else f"{a[: a.rfind('.') + 1] or ITERDOMAIN}m"
