"""The loops of a kernel: what a schedule and a target make of the reference's iteration space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fusekit.domains import LoopDomain, Reference
from fusekit.index import Div, Form, Mod, Var, substitute
from fusekit.ir import Guard, Kind, Parallel
from fusekit.lower.program import LaunchAxis
from fusekit.lower.refuse import CannotLower
from fusekit.lower.target import Target

ZERO = Form()
MOST_COPIES = 256  # statements that one root may become by unrolling


@dataclass(frozen=True, slots=True)
class Loops:
    """``index``: the logical index in the reference's space at an iteration, right where all ``bounds`` hold.

    ``order``: loops that the kernel runs, outermost first; ``axes``: indices that the launch gives; ``expand``: loops
    that are unrolled; ``lanes``: the one that is a vector. ``folded``: variables of reduced axes of the reference.
    ``shared``: a loop that the schedule gives to blocks.
    """

    space: tuple[int, ...]
    index: tuple[Form, ...]
    bounds: tuple[Guard, ...]
    order: tuple[Var, ...]
    axes: tuple[LaunchAxis, ...] = ()
    expand: tuple[Var, ...] = ()
    lanes: Var | None = None
    folded: frozenset[Var] = frozenset()
    shared: frozenset[Var] = frozenset()

    def depth(self, free: Iterable[Var]) -> int:
        """How many loops are around a statement whose index has these variables."""
        free = set(free)
        return max((k + 1 for k, var in enumerate(self.order) if var in free), default=0)

    def place(self, var: Var) -> int | None:
        """The depth of a loop; None for what is no loop of the kernel."""
        return self.order.index(var) if var in self.order else None

    @property
    def given(self) -> frozenset[Var]:
        """Variables of the launch's axes."""
        return frozenset(axis.var for axis in self.axes)

    def reordered(self, order: Sequence[Var]) -> Loops:
        """In another order, the loops named i0, i1, ... from the outside."""
        names = {var: Form.of(Var(f"i{k}", var.extent)) for k, var in enumerate(order)}
        named = {var: Var(f"i{k}", var.extent) for k, var in enumerate(order)}
        return replace(
            self,
            index=tuple(substitute(form, names) for form in self.index),
            bounds=tuple(Guard(substitute(guard.form, names), guard.extent) for guard in self.bounds),
            order=tuple(named[var] for var in order),
            folded=frozenset(named.get(var, var) for var in self.folded),
            shared=frozenset(named.get(var, var) for var in self.shared),
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
    index = derived.of(domain.logical)
    return Loops(
        reference.shape, index, derived.bounds, tuple(order), tuple(axes), tuple(expand), lanes,
        frozenset(folded), frozenset(shared),
    )  # fmt: skip


def _check_copies(expand: Sequence[Var]) -> None:
    copies = 1
    for var in expand:
        copies *= var.extent
    if copies > MOST_COPIES:
        raise CannotLower(f"unrolled loops would copy every statement {copies} times")


def has_division(form: Form) -> bool:
    return any(isinstance(atom, Div | Mod) for atom, _ in form.terms)


def is_thread(axis: LaunchAxis) -> bool:
    return axis.parallel.is_thread


def is_block(axis: LaunchAxis) -> bool:
    return axis.parallel.is_block


__all__ = ["Loops", "Parallel", "has_division", "is_block", "is_thread", "loops_of"]
