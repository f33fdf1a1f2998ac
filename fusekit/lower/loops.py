"""The loops of a kernel: their order, and which of them are one loop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from fusekit.index import Div, Form, Mod, Var
from fusekit.ir import Layout

ZERO = Form()


@dataclass(frozen=True, slots=True)
class Loops:
    """``order``: loop variables, outermost first. ``index``: the index in ``space`` at an iteration."""

    space: tuple[int, ...]
    order: tuple[Var, ...]
    index: tuple[Form, ...]

    def depth(self, free: Iterable[Var]) -> int:
        """How many loops are around a statement whose index has these variables."""
        free = set(free)
        return max((k + 1 for k, var in enumerate(self.order) if var in free), default=0)


def loops_over(space: tuple[int, ...], layout: Layout) -> Loops:
    """One loop a dimension, long steps in ``layout`` outside: the innermost loop walks along memory."""
    dims = [k for k, n in enumerate(space) if n > 1]
    dims.sort(key=lambda k: -abs(layout.strides[k]))
    names = {k: Var(f"i{depth}", space[k]) for depth, k in enumerate(dims)}
    index = tuple(Form.of(names[k]) if k in names else ZERO for k in range(len(space)))
    return Loops(space, tuple(names[k] for k in dims), index)


def collapse(loops: Loops, forms: Iterable[Form]) -> Loops | None:
    """Neighbouring loops joined wherever every form steps through them as through one; None when there are none."""
    forms = list(forms)
    groups: list[list[Var]] = []
    for var in loops.order:
        if groups and all(_is_one_step(form, groups[-1][-1], var) for form in forms):
            groups[-1].append(var)
        else:
            groups.append([var])
    if len(groups) == len(loops.order):
        return None
    at: dict[Var, Form] = {}
    order = tuple(Var(f"i{k}", prod(var.extent for var in group)) for k, group in enumerate(groups))
    for whole, group in zip(order, groups, strict=True):
        rest = whole.extent
        for var in group:
            rest //= var.extent
            at[var] = Form.of(whole) // rest % var.extent
    index = tuple(at[form.terms[0][0]] if form.terms else ZERO for form in loops.index)  # type: ignore[index]
    return Loops(loops.space, order, index)


def _is_one_step(form: Form, outer: Var, inner: Var) -> bool:
    a, b = form.coefficient(outer), form.coefficient(inner)
    return a is not None and b is not None and a == b * inner.extent


def has_division(form: Form) -> bool:
    return any(isinstance(atom, Div | Mod) for atom, _ in form.terms)
