"""Races inside one launch: loads of old contents against stores to the same bytes by another iteration.

Cheap proofs come first; the rest is decided by isl (islpy) under a budget of operations. Guards are taken into
account, and every verdict holds for all values of the parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from fusekit.index import Form
from fusekit.index.form import Atom, Div, Var
from fusekit.ir import Guard
from fusekit.memory.equation import has_solution
from fusekit.memory.inverse import are_nested, shift

BUDGET = 200_000
INNERMOST = 99
BEFORE_LOOP, BEFORE_INNER = "read before the loop", "read before the inner loop"
FORWARD, BACKWARD, SNAPSHOT, NONE_NEEDED = "loop order forward", "loop order backward", "snapshot", "none needed"
PAIRING, LAST_BLOCK, BARRIER = "pairing of orbits", "store left to the last block", "block barrier"


class Verdict(Enum):
    """When a load and a store touch one byte; TOO_HARD counts as ACROSS."""

    NEVER = "never"
    SAME_ITERATION = "same iteration"
    ACROSS = "across iterations"
    TOO_HARD = "too hard"


class Unless(NamedTuple):
    """Not all of ``guards`` hold."""

    guards: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """One access of a kernel to real memory, under *all* of its guards ("or" means several accesses).

    ``address``: the byte of ``block`` over the loop's variables, inner and reduction variables and parameters; None
    where data decides it. ``extent``: the bytes of the whole layout, which a snapshot keeps. ``depth``: how many loops
    are around it; a load in fewer than all of them runs before the loops inside it.
    """

    block: object
    address: Form | None
    width: int
    extent: tuple[int, int]
    guards: tuple[Guard | Unless, ...] = ()
    depth: int = INNERMOST


@dataclass(frozen=True, slots=True)
class Race:
    """``forward``: every conflict loads at an iteration before the store's, so loops that run upwards are right;
    ``backward`` the other way round. ``remedy`` is empty until ``remedies`` chose one. ``untried`` names a better
    remedy that is not built."""

    load: Access
    store: Access
    verdict: Verdict
    forward: bool = True
    backward: bool = True
    remedy: str = NONE_NEEDED
    untried: str = ""


class Remedies(NamedTuple):
    """The races, each with its remedy; run the loops ``backward``? Loads that need a snapshot."""

    races: tuple[Race, ...]
    backward: bool
    snapshots: frozenset[Access]


def is_parameter(var: Var) -> bool:
    """Is it a number of the call (n0, n1, ...), the same in all iterations?"""
    return var.name[:1] == "n" and var.name[1:].isdecimal()


def race(load: Access, store: Access, loop: tuple[Var, ...], budget: int = BUDGET) -> Race | None:
    """How a load and a store of one launch meet; None where their byte ranges do not.

    ``loop``: the variables of the loops, outermost first; of one iteration, all loads run before all stores. Other
    variables of an address are inner or reduction variables, whose every value counts, or parameters.
    """
    if load.block != store.block or not _ranges_meet(load, store):
        return None
    return _cheap(load, store, loop) or _decide(load, store, loop, budget)


def remedies(races: Iterable[Race], ordered: bool = True) -> Remedies:
    """The loop order with the fewest failing loads, and snapshots for those.

    ``ordered`` is False where iterations run in any order, as on a GPU.
    """
    races = tuple(races)
    open_races = [r for r in races if not r.remedy]
    if ordered:
        ahead = {r.load for r in open_races if not r.forward}
        back = {r.load for r in open_races if not r.backward}
        backward = len(back) < len(ahead)
        snapshots = frozenset(back if backward else ahead)
    else:
        backward, snapshots = False, frozenset(r.load for r in open_races)
    order = BACKWARD if backward else FORWARD
    return Remedies(tuple(_remedied(r, order, snapshots) for r in races), backward, snapshots)


def _remedied(race: Race, order: str, snapshots: frozenset[Access]) -> Race:
    if race.remedy:
        return race
    if race.load in snapshots:
        return replace(race, remedy=SNAPSHOT)
    return replace(race, remedy=order, untried="")


# ---- cheap proofs ---------------------------------------------------------------------------------------------------


def _ranges_meet(load: Access, store: Access) -> bool:
    (a, b), (c, d) = _byte_range(load), _byte_range(store)
    return c < b and a < d


def _byte_range(access: Access) -> tuple[int, int]:
    if access.address is None:
        return access.extent
    low, high = access.address.bounds
    return low, high + access.width


def _cheap(load: Access, store: Access, loop: tuple[Var, ...]) -> Race | None:
    if load.address is None or store.address is None:
        return Race(load, store, Verdict.TOO_HARD, False, False, "")
    if not _may_meet(load, store):
        return Race(load, store, Verdict.NEVER)
    whole = min(load.depth, store.depth) >= len(loop)
    if not whole or not _is_aligned(load, store):
        return None
    delta = load.address - store.address
    steps = _steps(store.address, loop, store.width)
    if steps is None or not delta.is_constant:
        return None
    if not delta.const:
        return Race(load, store, Verdict.SAME_ITERATION)
    if load.guards or store.guards:  # they may exclude what the steps allow
        return None
    return _moved(load, store, [step for step in steps if step[0].extent > 1], delta.const)


def _moved(load: Access, store: Access, steps: list[tuple[Var, int]], delta: int) -> Race | None:
    """The same steps from another start: whatever is loaded at x is stored at x + t, with one t."""
    falling = sorted(steps, key=lambda step: -abs(step[1]))
    spans = [(1 - var.extent, var.extent - 1) for var, _ in falling]
    found = shift([abs(s) for _, s in falling], spans, delta)
    if found is None:  # carries: t differs, but addresses that rise with the iteration still tell who is first
        rising = falling == steps and all(s > 0 for _, s in steps)
        return Race(load, store, Verdict.ACROSS, delta > 0, delta < 0, "") if rising else None
    moves = {var: t if s > 0 else -t for (var, s), t in zip(falling, found, strict=True)}
    if any(abs(t) >= var.extent for var, t in moves.items()):
        return Race(load, store, Verdict.NEVER)
    order = [moves[var] for var, _ in steps]
    ahead = next(t for t in order if t) > 0
    return Race(load, store, Verdict.ACROSS, ahead, not ahead, "", BARRIER if not order[0] else "")


def _may_meet(load: Access, store: Access) -> bool:
    """Is there a common byte if guards are ignored, and divisions take any value of their range?"""
    assert load.address is not None and store.address is not None
    terms = []
    target = store.address.const - load.address.const
    shared: dict[Atom, int] = {}
    for sign, form in ((1, load.address), (-1, store.address)):
        for atom, c in form.terms:
            if isinstance(atom, Var) and is_parameter(atom):
                shared[atom] = shared.get(atom, 0) + sign * c
                continue
            target, term = _unknown(atom, sign * c, target)
            terms.append(term)
    for atom, c in shared.items():
        target, term = _unknown(atom, c, target)
        terms.append(term)
    spare = load.width + store.width - 2
    return has_solution([*terms, (1, spare)], target + store.width - 1, 500) is not False


def _unknown(atom: Atom, c: int, target: int) -> tuple[int, tuple[int, int]]:
    low, high = Form.of(atom).bounds
    return target - c * low, (c, high - low)


def _is_aligned(load: Access, store: Access) -> bool:
    """Is every distance a multiple of the one width?"""
    assert load.address is not None and store.address is not None
    return load.width == store.width and (
        load.address.is_divisible(load.width)
        and store.address.is_divisible(load.width)
        or (load.address - store.address).is_divisible(load.width)
        and all(c % load.width == 0 for _, c in store.address.terms)
    )


def _steps(address: Form, loop: tuple[Var, ...], width: int) -> list[tuple[Var, int]] | None:
    """The step of each loop, in bytes, if they nest (distinct iterations, distinct elements); None otherwise."""
    steps = []
    for var in loop:
        step = address.coefficient(var)
        if step is None:
            return None
        steps.append((var, step))
    if any(not is_parameter(v) and v not in loop for v in address.free):
        return None
    axes = sorted(((abs(s), var.extent) for var, s in steps if var.extent > 1), reverse=True)
    return steps if are_nested(axes, width) else None


# ---- isl ------------------------------------------------------------------------------------------------------------


def _decide(load: Access, store: Access, loop: tuple[Var, ...], budget: int) -> Race:
    import islpy as isl

    context = isl.Context()  # its own: the budget counts from zero, and threads stay apart
    context.set_max_operations(budget)
    try:
        return _ask(isl, context, load, store, loop)
    except isl.Error:
        return Race(load, store, Verdict.TOO_HARD, False, False, "", _broadcast(load, loop))


def _ask(isl, context, load: Access, store: Access, loop: tuple[Var, ...]) -> Race:  # noqa: ANN001
    outer = loop[: min(load.depth, store.depth)]
    single = _is_aligned(load, store)
    reads, writes = (isl.Map(_map_text(x, outer, loop, single), context=context) for x in (load, store))
    meet = reads.apply_range(writes.reverse())
    if meet.is_empty():
        return Race(load, store, Verdict.NEVER)
    if min(store.depth, len(loop)) < min(load.depth, len(loop)):  # nobody says which of the two comes first
        return Race(load, store, Verdict.ACROSS, False, False, "", _broadcast(load, loop))
    crossing = meet.subtract(isl.Map.identity(meet.get_space()))
    if crossing.is_empty():
        if len(outer) == len(loop):
            return Race(load, store, Verdict.SAME_ITERATION)
        return Race(load, store, Verdict.ACROSS, remedy=BEFORE_INNER if outer else BEFORE_LOOP)
    space = meet.get_space().domain()
    forward = crossing.is_subset(isl.Map.lex_lt(space))
    backward = not forward and crossing.is_subset(isl.Map.lex_gt(space))
    untried = _broadcast(load, loop) or _better(isl, crossing, outer, not (forward or backward))
    return Race(load, store, Verdict.ACROSS, forward, backward, "", untried)


def _broadcast(load: Access, loop: tuple[Var, ...]) -> str:
    """A load that some loop does not move reads few bytes many times: those bytes can be stored last."""
    if load.address is None or all(var in load.address.free for var in loop if var.extent > 1):
        return ""
    return LAST_BLOCK


def _better(isl, crossing, outer: tuple[Var, ...], both_ways: bool) -> str:  # noqa: ANN001
    if both_ways and crossing.is_equal(crossing.reverse()):
        return PAIRING
    if len(outer) > 1:
        first = isl.Map.universe(crossing.get_space()).equate(isl.dim_type.in_, 0, isl.dim_type.out, 0)
        if crossing.is_subset(first):
            return BARRIER
    return ""


def _map_text(access: Access, outer: tuple[Var, ...], loop: tuple[Var, ...], single: bool) -> str:
    """Iterations of the outer loops -> bytes (``single``: first bytes of elements) in isl's notation."""
    assert access.address is not None
    free = set(access.address.free).union(*(form.free for form in _guard_forms(access)))
    variables = list(dict.fromkeys([*loop, *sorted(free, key=lambda v: v.name)]))
    parameters = [v.name for v in variables if is_parameter(v) and v not in loop]
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
