"""The id graph: iteration domains up to exact equality, the transforms between them, and indices derived over it.

Only bijections stand in it. A slice or a padding (a resize) must not: two parts of one axis would get each other's
index, silently. They stay index forms of the program, which values are pulled through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fusekit.errors import IllegalTransform
from fusekit.ids import NodeId
from fusekit.index import Form
from fusekit.ir import AlignedSplit, Guard, IterDomain, Merge, Split, Transform


@dataclass(frozen=True, slots=True)
class Expr:
    """A transform with the iteration domains that it takes and makes, as on the edges of a graph."""

    transform: Transform
    takes: tuple[NodeId, ...]
    makes: tuple[NodeId, ...]

    @property
    def whole(self) -> NodeId:
        return self.makes[0] if isinstance(self.transform, Merge) else self.takes[0]

    @property
    def parts(self) -> tuple[NodeId, NodeId]:
        """Outer and inner."""
        ids = self.takes if isinstance(self.transform, Merge) else self.makes
        return ids[0], ids[1]


@dataclass(frozen=True)
class Derived:
    """Index forms by iteration domain, and the bounds under which they are right."""

    index: Mapping[NodeId, Form]
    bounds: tuple[Guard, ...]

    def of(self, ids: Iterable[NodeId]) -> tuple[Form, ...]:
        """The index of each; raises IllegalTransform for one that nothing derives."""
        ids = tuple(ids)
        if missing := [i for i in ids if i not in self.index]:
            raise IllegalTransform(
                f"no index for {missing[0]}", None, "its transforms lead to no axis with a known index"
            )
        return tuple(self.index[i] for i in ids)


@dataclass(frozen=True)
class IdGraph:
    """Iteration domains by id, transforms in the order in which they were made, and pairs that are one axis."""

    ids: Mapping[NodeId, IterDomain] = field(default_factory=dict[NodeId, IterDomain])
    exprs: tuple[Expr, ...] = ()
    equal: Mapping[NodeId, NodeId] = field(default_factory=dict[NodeId, NodeId])

    def find(self, i: NodeId) -> NodeId:
        """The one id that stands for all that equal ``i``."""
        while i in self.equal:
            i = self.equal[i]
        return i

    def same(self, a: NodeId, b: NodeId) -> IdGraph:
        """With ``a`` and ``b`` one axis; both keep their ids."""
        first, second = self.find(a), self.find(b)
        if first == second:
            return self
        if self.ids[first].extent != self.ids[second].extent:
            extents = f"extents {self.ids[first].extent} and {self.ids[second].extent}"
            raise IllegalTransform(f"{a} and {b} are not one axis: {extents}", a, "map axes of one extent")
        return replace(self, equal={**self.equal, second: first})

    def with_ids(self, ids: Mapping[NodeId, IterDomain]) -> IdGraph:
        """With these added, or with new payloads for those that are there."""
        return replace(self, ids={**self.ids, **ids})

    def with_expr(self, expr: Expr) -> IdGraph:
        return replace(self, exprs=(*self.exprs, expr))

    def fresh(self, wanted: str) -> NodeId:
        """``wanted`` where it is free, else with a number."""
        name, number = wanted, 0
        while name in self.ids:
            number += 1
            name = f"{wanted}.{number}"
        return NodeId(name)

    def derive(self, known: Mapping[NodeId, Form]) -> Derived:
        """The closure of ``known`` over every transform, in whichever direction its inputs are known.

        The first derivation of an id wins. A whole that is made from its parts has a bound unless its range proves it.
        """
        index: dict[NodeId, Form] = {}
        for i, form in known.items():
            index.setdefault(self.find(i), form)
        bounds: list[Guard] = []
        todo = list(self.exprs)
        while todo:
            left = [expr for expr in todo if not self._step(expr, index, bounds)]
            if len(left) == len(todo):
                break
            todo = left
        return Derived(
            {i: index[self.find(i)] for i in self.ids if self.find(i) in index}, tuple(dict.fromkeys(bounds))
        )

    def _step(self, expr: Expr, index: dict[NodeId, Form], bounds: list[Guard]) -> bool:
        """Derives what one transform gives; False while too little is known."""
        whole, (outer, inner) = self.find(expr.whole), map(self.find, expr.parts)
        shift = self._shift(expr, index)
        if shift is None:
            return False
        n = self.ids[inner].extent
        if outer in index and inner in index:
            form = index[outer] * n + index[inner] - shift
            if whole not in index:
                index[whole] = form
                if not isinstance(expr.transform, Merge):
                    bounds += _bound(form, self.ids[whole].extent)
            return True
        if whole not in index:
            return False
        form = index[whole] + shift
        index.setdefault(outer, form // n if n else form)
        index.setdefault(inner, form % n if n else form)
        return True

    def _shift(self, expr: Expr, index: Mapping[NodeId, Form]) -> Form | None:
        """How far the row's first piece starts before the row; None while the row is not known."""
        match expr.transform:
            case AlignedSplit(factor, pitch):
                row = index.get(self.find(expr.takes[1]))
                return None if row is None else row * pitch % factor
            case Split() | Merge():
                return Form()


def _bound(form: Form, extent: int) -> list[Guard]:
    low, high = form.bounds
    return [] if low >= 0 and high < extent else [Guard(form, extent)]
