"""Races inside one launch: loads of old contents against stores to the same bytes by another iteration.

Cheap proofs come first; the rest is decided by isl (islpy) under a budget of operations. Guards are taken into
account, and every verdict holds for all values of the parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from fusekit.index import Form, Var
from fusekit.index.form import Atom
from fusekit.memory.access import BACKWARD, FORWARD, SNAPSHOT, Access, Race, Verdict
from fusekit.memory.equation import Term, has_solution
from fusekit.memory.inverse import are_nested, shift
from fusekit.memory.polyhedra import decide

BUDGET = 200_000  # operations of isl


class Remedies(NamedTuple):
    """The races, each with its remedy; run the loops ``backward``? Loads that need a snapshot."""

    races: tuple[Race, ...]
    backward: bool
    snapshots: frozenset[Access]


def race(
    load: Access,
    store: Access,
    loop: tuple[Var, ...],
    budget: int = BUDGET,
    threads: frozenset[Var] = frozenset(),
) -> Race | None:
    """How a load and a store of one launch meet; None where their byte ranges do not.

    ``loop``: the variables of the loops, outermost first; of one iteration, all loads run before all stores. Other
    variables of an address are inner or reduction variables, whose every value counts, or parameters. ``threads``:
    those of the loop that number the threads of one block.
    """
    if load.block != store.block or not _ranges_meet(load, store):
        return None
    found = _cheap(load, store, loop, threads)
    return found or decide(load, store, loop, threads, _is_aligned(load, store), budget)


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
    return replace(race, remedy=order)


# ---- cheap proofs ---------------------------------------------------------------------------------------------------


def _ranges_meet(load: Access, store: Access) -> bool:
    (a, b), (c, d) = _byte_range(load), _byte_range(store)
    return c < b and a < d


def _byte_range(access: Access) -> tuple[int, int]:
    if access.address is None:
        return access.extent
    low, high = access.address.bounds
    return low, high + access.width


def _cheap(load: Access, store: Access, loop: tuple[Var, ...], threads: frozenset[Var]) -> Race | None:
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
    if threads:  # who is in one block, carries of the address over the end of a row hide
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
    return Race(load, store, Verdict.ACROSS, ahead, not ahead, "")


def _may_meet(load: Access, store: Access) -> bool:
    """Is there a common byte if guards are ignored, and divisions take any value of their range?"""
    assert load.address is not None and store.address is not None
    terms: list[Term] = []
    target = store.address.const - load.address.const
    shared: dict[Atom, int] = {}
    for sign, form in ((1, load.address), (-1, store.address)):
        for atom, c in form.terms:
            if isinstance(atom, Var) and atom.kind == "number":
                shared[atom] = shared.get(atom, 0) + sign * c
                continue
            target, term = _unknown(atom, sign * c, target)
            terms.append(term)
    for atom, c in shared.items():
        target, term = _unknown(atom, c, target)
        terms.append(term)
    spare = load.width + store.width - 2
    return has_solution([*terms, (1, spare)], target + store.width - 1, 500) is not False


def _unknown(atom: Atom, c: int, target: int) -> tuple[int, Term]:
    low, high = Form.of(atom).bounds
    return target - c * low, (c, high - low)


def _is_aligned(load: Access, store: Access) -> bool:
    """Is every distance a multiple of the one width?"""
    assert load.address is not None and store.address is not None
    width = load.width
    start = store.address.const - load.address.const
    steps = [c for address in (load.address, store.address) for _, c in address.terms]
    return width == store.width and not any(c % width for c in [start, *steps])


def _steps(address: Form, loop: tuple[Var, ...], width: int) -> list[tuple[Var, int]] | None:
    """The step of each loop, in bytes, if they nest (distinct iterations, distinct elements); None otherwise."""
    steps: list[tuple[Var, int]] = []
    for var in loop:
        step = address.coefficient(var)
        if step is None:
            return None
        steps.append((var, step))
    if any(v.kind != "number" and v not in loop for v in address.free):
        return None
    axes = sorted(((abs(s), var.extent) for var, s in steps if var.extent > 1), reverse=True)
    return steps if are_nested(axes, width) else None
