"""How many values one element of a value needs, and how often: what a loop body would have to compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

from fusekit.index import Form, Var, loop_vars
from fusekit.ir import core
from fusekit.passes.values import Index, InMemory, Value

PULLS = 300  # distinct (value, index) pairs in one loop body
REPEATS = 4  # times that one element of a reduction is computed over again
ATOMS = 48  # div and mod atoms in one index


@lru_cache(maxsize=1 << 14)
def heaviness(form: Form) -> int:
    """Atoms of a form, those inside divisions too."""
    return sum(1 if isinstance(atom, Var) else 1 + heaviness(atom.of) for atom, _ in form.terms)


@dataclass
class Cost:
    """``pulls``: distinct (value, index) pairs below one element; ``repeats``: the most often that a loop nest computes
    one element of a reduction, with everything moved out of the loops that it does not depend on."""

    pulls: int = 0
    repeats: int = 1
    # variable of a reduction -> the loops around it
    around: dict[Var, frozenset[Var]] = field(default_factory=lambda: dict[Var, frozenset[Var]]())


def cost_of(value: Value, limit: int = PULLS) -> Cost:
    """The cost of ``value``; counting stops above ``limit`` pulls, and an index of too many atoms counts as that."""
    seen: set[tuple[int, Index]] = set()
    todo: list[tuple[Value, Index]] = [(value, loop_vars(value.shape))]
    cost = Cost()
    while todo and len(seen) <= limit:
        v, index = todo.pop()
        key = (v.number, index)
        if key in seen:
            continue
        seen.add(key)
        if max(map(heaviness, index), default=0) > ATOMS:
            cost.pulls = limit + 1
            return cost
        needs = _needs(v, index, len(seen))
        if isinstance(v.what, core.Reduce):
            _nest(cost, index, needs[0][1])
        todo.extend(needs)
    cost.pulls = min(len(seen), limit + 1)
    return cost


def pulls(value: Value, limit: int = PULLS) -> int:
    """Distinct (value, index) pairs below one element of ``value``; ``limit + 1`` for anything above the limit."""
    return cost_of(value, limit).pulls


def _nest(cost: Cost, index: Index, operand: Index) -> None:
    """A reduction at ``index`` runs inside every loop around the variables of ``index``, needed or not.

    ``(x - x.mean(0)).sum(1)`` reads the mean at the variable of the sum, whose loop stands inside that over the rows:
    each mean is computed once a row. The loops of the result, and those of one reduction, can be put in any order, so
    a reduction that reads only some of those repeats nothing.
    """
    free = _free(index)
    around = free.union(*(cost.around.get(var, frozenset()) for var in free))
    cost.repeats = max(cost.repeats, prod(var.extent for var in around - free))
    cost.around.update(dict.fromkeys(_free(operand) - free, around))


def _free(index: Index) -> frozenset[Var]:
    return frozenset[Var]().union(*(form.free for form in index))


def _needs(v: Value, index: Index, pull: int) -> list[tuple[Value, Index]]:
    """The operands that one element takes, each with its index.

    What a reduction runs over, and where a look-up finds its position, are variables of this pull alone: ``pull``
    numbers it.
    """
    what = v.what
    if isinstance(what, InMemory):
        return []

    def free(dim: int) -> Form:
        extent = v.operands[0].shape[dim]
        if isinstance(what, core.Reduce):
            return Form.of(Var(f"r{pull}_{dim}", extent)) if extent != 1 else Form()
        return Form.of(Var(f"t{pull}", extent, "found"))

    found = core.reads(what, index, v.shape, [o.shape for o in v.operands], free)
    return [(v.operands[read.operand], read.index) for read in found]
