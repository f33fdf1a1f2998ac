"""How many values one element of a value needs, and how often: what a loop body would have to compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

from fusekit.index import Form, Var, loop_vars
from fusekit.passes.base import items
from fusekit.passes.values import GATHER, OVERLAY, REDUCE, TAKE, WINDOW, Index, Value, broadcast_index, put, value_index

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
        if v.kind == REDUCE:
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
    """The operands that one element takes, each with its index; ``pull`` numbers the pull."""
    if v.kind == WINDOW:
        return [(v.operands[0], put(value_index(v), index, v.shape))]
    if v.kind == OVERLAY:
        return [(v.operands[0], index), (v.operands[1], put(value_index(v), index, v.shape))]
    if v.kind == REDUCE:
        return [(v.operands[0], reduced_index(v, index, pull))]
    if v.kind in (TAKE, GATHER):
        return _looked_up(v, index, pull)
    return [(o, broadcast_index(o.shape, index)) for o in v.operands]


def reduced_index(v: Value, index: Index, pull: int) -> Index:
    """Where a reduction reads its operand: at variables of this pull alone, r<pull>_<dimension>, where it reduces."""
    dims, outer = items(v.detail[1]) or (), iter(index)
    own = [Form.of(Var(f"r{pull}_{d}", n)) if n != 1 else Form() for d, n in enumerate(v.operands[0].shape)]
    return tuple(own[d] if d in dims else next(outer) for d in range(len(own)))


def _looked_up(v: Value, index: Index, pull: int) -> list[tuple[Value, Index]]:
    """The index tensor, and the source at a position that only the data know: a variable of this pull alone."""
    source, positions = v.operands
    dim = v.detail[0]
    assert isinstance(dim, int)
    found = Form.of(Var(f"t{pull}", source.shape[dim], "found"))
    inner = len(positions.shape) if v.kind == TAKE else 1
    if v.kind == GATHER:
        return [(positions, index), (source, (*index[:dim], found, *index[dim + 1 :]))]
    return [(positions, index[dim : dim + inner]), (source, (*index[:dim], found, *index[dim + inner :]))]
