"""Races decided by isl (islpy): maps from iterations to bytes, under a budget of operations."""
# pyright: basic
# islpy has no types.

from __future__ import annotations

from typing import Any

from fusekit.index import Div, Form, Var
from fusekit.ir import Guard
from fusekit.memory.access import BEFORE_INNER, BEFORE_LOOP, Access, Race, Unless, Verdict


def decide(
    load: Access, store: Access, loop: tuple[Var, ...], threads: frozenset[Var], single: bool, budget: int
) -> Race:
    """The verdict after at most ``budget`` operations; ``single``: elements are the same bytes or share none."""
    import islpy as isl

    context = isl.Context()  # its own: the budget counts from zero, and threads stay apart
    context.set_max_operations(budget)
    try:
        return _ask(isl, context, load, store, loop, threads, single)
    except isl.Error:
        return Race(load, store, Verdict.TOO_HARD, False, False, "")


def _ask(
    isl: Any, context: Any, load: Access, store: Access, loop: tuple[Var, ...], threads: frozenset[Var], single: bool
) -> Race:
    outer = loop[: min(load.depth, store.depth)]
    reads, writes = (isl.Map(_map_text(x, outer, loop, single), context=context) for x in (load, store))
    meet = reads.apply_range(writes.reverse())
    if meet.is_empty():
        return Race(load, store, Verdict.NEVER)
    if min(store.depth, len(loop)) < min(load.depth, len(loop)):  # nobody says which of the two comes first
        return Race(load, store, Verdict.ACROSS, False, False, "")
    crossing = meet.subtract(isl.Map.identity(meet.get_space()))
    if crossing.is_empty():
        if len(outer) == len(loop):
            return Race(load, store, Verdict.SAME_ITERATION)
        return Race(load, store, Verdict.ACROSS, remedy=BEFORE_INNER if outer else BEFORE_LOOP)
    if threads:  # they run in no order
        together = crossing.is_subset(_alike(isl, crossing, outer, threads))
        return Race(load, store, Verdict.ACROSS, False, False, "", together)
    space = meet.get_space().domain()
    forward = crossing.is_subset(isl.Map.lex_lt(space))
    backward = not forward and crossing.is_subset(isl.Map.lex_gt(space))
    return Race(load, store, Verdict.ACROSS, forward, backward, "")


def _alike(isl: Any, crossing: Any, outer: tuple[Var, ...], threads: frozenset[Var]) -> Any:
    """Pairs of iterations of one block, in one pass of every loop."""
    found = isl.Map.universe(crossing.get_space())
    for k, var in enumerate(outer):
        if var not in threads:
            found = found.equate(isl.dim_type.in_, k, isl.dim_type.out, k)
    return found


def _map_text(access: Access, outer: tuple[Var, ...], loop: tuple[Var, ...], single: bool) -> str:
    """Iterations of the outer loops -> bytes (``single``: first bytes of elements) in isl's notation."""
    assert access.address is not None
    free = set(access.address.free).union(*(form.free for form in _guard_forms(access)))
    variables = list(dict.fromkeys([*loop, *sorted(free, key=lambda v: v.name)]))
    parameters = [v.name for v in variables if v.kind == "number" and v not in loop]
    inner = [v.name for v in variables if v not in outer and v.name not in parameters]
    conditions = [f"0 <= {v.name} < {v.extent}" for v in variables] + [_guard_text(g) for g in access.guards]
    address = _text(access.address)
    if not single:
        inner.append("p")
        address += " + p"
        conditions.append(f"0 <= p < {access.width}")
    quantified = f"exists {', '.join(inner)} : " if inner else ""
    names = ", ".join(v.name for v in outer)
    body = " and ".join([*conditions, f"a = {address}"])
    return f"[{', '.join(parameters)}] -> {{ [{names}] -> [a] : {quantified}{body} }}"


def _guard_forms(access: Access) -> list[Form]:
    return [g.form for guard in access.guards for g in (guard.guards if isinstance(guard, Unless) else (guard,))]


def _guard_text(guard: Guard | Unless) -> str:
    if isinstance(guard, Unless):
        return f"not ({' and '.join(_guard_text(g) for g in guard.guards) or 'true'})"
    return f"0 <= {_text(guard.form)} < {guard.extent}"


def _text(form: Form) -> str:
    parts = [str(form.const)] if form.const or not form.terms else []
    for atom, c in form.terms:
        if isinstance(atom, Var):
            parts.append(f"{c}*{atom.name}")
        elif isinstance(atom, Div):
            parts.append(f"{c}*floor(({_text(atom.of)})/{atom.by})")
        else:
            parts.append(f"{c}*(({_text(atom.of)}) mod {atom.by})")
    return " + ".join(parts)
