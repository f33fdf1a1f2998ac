"""The loops of a kernel: what a schedule and a target make of the reference's iteration space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fusekit.domains import LoopDomain, Reference
from fusekit.ids import NodeId
from fusekit.index import Form, Var, substitute
from fusekit.ir import Guard, Kind
from fusekit.lower.program import LaunchAxis
from fusekit.lower.refuse import CannotLower
from fusekit.lower.target import Target
from fusekit.schedule.plan import Space

MOST_COPIES = 256  # statements that one root may become by unrolling


@dataclass(frozen=True, slots=True)
class Loops(Space):
    """``axes``: indices that the launch gives; ``expand``: loops that are unrolled; ``lanes``: the one of a vector.

    ``shared``: loops that the schedule gives to blocks. ``ids``: the index of every iteration domain.
    """

    axes: tuple[LaunchAxis, ...] = ()
    expand: tuple[Var, ...] = ()
    lanes: Var | None = None
    shared: frozenset[Var] = frozenset()
    ids: Mapping[NodeId, Form] = field(default_factory=dict[NodeId, Form])

    @property
    def given(self) -> frozenset[Var]:
        """Variables of the launch's axes."""
        return frozenset(axis.var for axis in self.axes)

    def reordered(self, order: Sequence[Var]) -> Loops:
        """In another order, the loops named i0, i1, ... from the outside, and the lanes v."""
        named = {var: Var(f"i{k}", var.extent) for k, var in enumerate(order)}
        if self.lanes is not None:
            named[self.lanes] = Var("v", self.lanes.extent)
        names = {var: Form.of(new) for var, new in named.items()}
        return replace(
            self,
            index=tuple(substitute(form, names) for form in self.index),
            ids={i: substitute(form, names) for i, form in self.ids.items()},
            bounds=tuple(Guard(substitute(guard.form, names), guard.extent) for guard in self.bounds),
            order=tuple(named[var] for var in order),
            folded=frozenset(named.get(var, var) for var in self.folded),
            shared=frozenset(named.get(var, var) for var in self.shared),
            lanes=named[self.lanes] if self.lanes is not None else None,
        )


def loops_of(reference: Reference, domain: LoopDomain, target: Target, vectors: bool = True) -> Loops:
    """The loops of a schedule's domain. ``vectors``: may a loop be lanes? (Else it is unrolled.)"""
    found = domain.variables()
    derived = domain.derive()
    order: list[Var] = []
    expand: list[Var] = []
    axes: list[LaunchAxis] = []
    folded: set[Var] = set()
    shared: set[Var] = set()
    lanes: Var | None = None
    for i, form in found.items():
        payload = domain.graph.ids[i]
        if not form.terms:
            continue
        var = form.terms[0][0]
        assert isinstance(var, Var)
        if payload.kind is Kind.REDUCTION:
            folded.add(var)
        role = payload.parallel
        if role in target.implicit:
            axes.append(LaunchAxis(var, role))
        elif role in target.lanes and vectors:
            lanes = var
        elif role in target.expand or role in target.lanes:
            expand.append(var)
        else:
            order.append(var)
            if role in target.shared:
                shared.add(var)
    _check_copies(expand)
    # The one element of an axis is at 0, also where a split made more of it: other iterations are nobody's.
    index = tuple(Form() if n == 1 else form for n, form in zip(domain.shape, derived.of(domain.logical), strict=True))
    return Loops(
        reference.shape, index, _needed(derived.bounds), tuple(order), frozenset(folded),
        tuple(axes), tuple(expand), lanes, frozenset(shared), derived.index,
    )  # fmt: skip


def _needed(bounds: Sequence[Guard]) -> tuple[Guard, ...]:
    """Without the bounds that another one implies: splits of a split that divides all end where the first one does."""
    left = list(bounds)
    for guard in bounds:
        if any(other != guard and _implies(other, guard) for other in left):
            left.remove(guard)
    return tuple(left)


def _implies(known: Guard, guard: Guard) -> bool:
    """Does ``0 <= f < n`` prove ``0 <= c*f + rest < m``?"""
    first = next((atom for atom, _ in known.form.terms if isinstance(atom, Var)), None)
    if first is None or known.form.bounds[0] < 0:
        return False
    whole, part = guard.form.coefficient(first), known.form.coefficient(first)
    if not whole or not part or whole % part or whole // part < 1:
        return False
    c = whole // part
    low, high = (guard.form - known.form * c).bounds
    return low >= 0 and c * (known.extent - 1) + high < guard.extent


def _check_copies(expand: Sequence[Var]) -> None:
    copies = 1
    for var in expand:
        copies *= var.extent
    if copies > MOST_COPIES:
        raise CannotLower(f"unrolled loops would copy every statement {copies} times")


def is_thread(axis: LaunchAxis) -> bool:
    return axis.parallel.is_thread


def is_block(axis: LaunchAxis) -> bool:
    return axis.parallel.is_block
