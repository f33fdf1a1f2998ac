"""Can the roots of a segment run in one nest of loops? The rule that segments are built by.

Every reduction must run inside the loops that it keeps, and every result must be wanted where it is made. The rule
looks at untransformed loops: what they allow, a schedule can only spoil.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod

from fusekit.domains import Reference, needed_from, reduced_dims, space_of
from fusekit.errors import CannotLower
from fusekit.ids import NodeId
from fusekit.index import Form, Var, loop_vars, print_form
from fusekit.ir import Graph, core
from fusekit.schedule.plan import Plan, Space, order_loops, plan_roots, set_steps
from fusekit.why import Reason


def cannot_nest(graph: Graph, ops: Iterable[NodeId]) -> Reason | None:
    """Why these ops (in program order) are not one nest of loops; None when they are."""
    roots = [op for op in ops if isinstance(graph.what(op), core.Store | core.Reduce)]
    reference = reference_among(graph, roots)
    if reference is None or all(not isinstance(graph.what(op), core.Reduce) for op in roots):
        return None
    try:
        _check(graph, roots, reference)
    except CannotLower as refusal:
        return Reason.of("cannot-nest", because=str(refusal))
    return None


def reference_among(graph: Graph, roots: Iterable[NodeId]) -> Reference | None:
    """The reference of some roots: the largest operand of a reduction, else the largest store."""
    roots = list(roots)
    candidates = [op for op in roots if isinstance(graph.what(op), core.Reduce)] or roots
    if not candidates:
        return None
    root = max(candidates, key=lambda op: (prod(space_of(graph, op)), len(space_of(graph, op)), -graph.position(op)))
    return Reference(root, space_of(graph, root), reduced_dims(graph, root))


def _check(graph: Graph, roots: list[NodeId], reference: Reference) -> None:
    """Raises CannotLower."""
    index = loop_vars(reference.shape)
    folded = frozenset().union(*(index[k].free for k in reference.reduced))
    loops = Space(reference.shape, index, (), tuple(_vars(index)), folded)
    plans = plan_roots(graph, roots, reference, loops)
    loops = replace(loops, order=order_loops(graph, loops, plans.values()))
    plans = set_steps(plans, loops)
    _check_results(graph, plans)


def _vars(index: Iterable[Form]) -> Iterable[Var]:
    return (var for form in index for var in form.free)


def _check_results(graph: Graph, plans: Mapping[NodeId, Plan]) -> None:
    """Is the result of every reduction wanted at the one index where it is made? Raises CannotLower."""
    found = needed_from(graph, [(plan.tensor, plan.index) for plan in plans.values()])
    for op, plan in plans.items():
        if not plan.is_fold:
            continue
        (result,) = graph.results(op)
        shape = graph.tensor(result).shape
        made = tuple(Form() if n == 1 else form for form, n in zip(plan.kept, shape, strict=True))
        for wanted in found.get(result, []):
            if tuple(Form() if n == 1 else form for form, n in zip(wanted, shape, strict=True)) != made:
                at, where = (", ".join(map(print_form, index)) for index in (wanted, made))
                raise CannotLower(f"{result} is wanted at [{at}] and made at [{where}]")
