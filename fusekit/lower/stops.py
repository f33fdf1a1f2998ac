"""Loops that end early: where a split does not divide, the last pass of the inner loop is shorter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fusekit.ids import NodeId
from fusekit.index import Var
from fusekit.ir import Guard
from fusekit.lower.loops import Loops
from fusekit.schedule.plan import Plan


def find_stops(plans: Mapping[NodeId, Plan], loops: Loops) -> tuple[dict[NodeId, Plan], dict[Var, Guard]]:
    """Bounds that every root in a loop meets up to some iteration end the loop there, and are left out of the roots."""
    stops: dict[Var, Guard] = {}
    left = dict(plans)
    for place, var in enumerate(loops.order):
        inside = [plan for plan in left.values() if var in plan.loops]
        if not inside:
            continue
        for guard in inside[0].guards:
            if _ends(guard, var, place, loops) and all(guard in plan.guards for plan in inside):
                stops[var] = guard
                for plan in inside:
                    rest = tuple(g for g in plan.guards if g != guard)
                    left[plan.op] = replace(plan, guards=rest)
                break
    return left, stops


def _ends(guard: Guard, var: Var, place: int, loops: Loops) -> bool:
    """Does the guard hold for the first iterations of the loop, how many being known outside of it?"""
    if guard.form.coefficient(var) != 1 or guard.form.bounds[0] < 0 or guard.extent <= 0:
        return False
    others = guard.form.free - {var}
    return all(other in loops.order[:place] for other in others)
