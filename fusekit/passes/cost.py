"""How many values one element of a value needs: what a loop body would have to compute."""

from __future__ import annotations

from functools import lru_cache

from fusekit.index import Form, Var, loop_vars
from fusekit.passes.values import GATHER, OVERLAY, REDUCE, TAKE, WINDOW, Index, Value, broadcast_index, put, value_index

PULLS = 300  # distinct (value, index) pairs in one loop body
ATOMS = 48  # div and mod atoms in one index


@lru_cache(maxsize=1 << 14)
def heaviness(form: Form) -> int:
    """Atoms of a form, those inside divisions too."""
    return sum(1 if isinstance(atom, Var) else 1 + heaviness(atom.of) for atom, _ in form.terms)


def pulls(value: Value, limit: int = PULLS) -> int:
    """Distinct (value, index) pairs below one element of ``value``; ``limit + 1`` for anything above the limit."""
    seen: set[tuple[int, Index]] = set()
    todo: list[tuple[Value, Index]] = [(value, loop_vars(value.shape))]
    while todo and len(seen) <= limit:
        v, index = todo.pop()
        key = (v.number, index)
        if key in seen:
            continue
        seen.add(key)
        if max(map(heaviness, index), default=0) > ATOMS:
            return limit + 1
        todo.extend(_needs(v, index, len(seen)))
    return min(len(seen), limit + 1)


def _needs(v: Value, index: Index, pull: int) -> list[tuple[Value, Index]]:
    """The operands that one element takes, each with its index; ``pull`` numbers the pull."""
    if v.kind == WINDOW:
        return [(v.operands[0], put(value_index(v), index, v.shape))]
    if v.kind == OVERLAY:
        return [(v.operands[0], index), (v.operands[1], put(value_index(v), index, v.shape))]
    if v.kind == REDUCE:
        return [(v.operands[0], reduced_index(v, index))]
    if v.kind in (TAKE, GATHER):
        return _looked_up(v, index, pull)
    return [(o, broadcast_index(o.shape, index)) for o in v.operands]


def reduced_index(v: Value, index: Index) -> Index:
    """Where the operand of a reduction is read: its own variables ``r<value>_<dimension>`` in the dimensions reduced.

    A value is never below itself, so these names clash with none that ``index`` can hold.
    """
    dims, outer = v.detail[1], iter(index)
    assert isinstance(dims, tuple)
    cells = loop_vars(v.operands[0].shape)
    own = {d: Form.of(Var(f"r{v.number}_{d}", v.operands[0].shape[d])) if cells[d].terms else Form() for d in dims}
    return tuple(own[k] if k in own else next(outer) for k in range(len(cells)))


def _looked_up(v: Value, index: Index, pull: int) -> list[tuple[Value, Index]]:
    """The index tensor, and the source at a position that only the data know: a variable of this pull alone."""
    source, positions = v.operands
    dim = v.detail[0]
    assert isinstance(dim, int)
    found = Form.of(Var(f"t{pull}", source.shape[dim]))
    inner = len(positions.shape) if v.kind == TAKE else 1
    if v.kind == GATHER:
        return [(positions, index), (source, (*index[:dim], found, *index[dim + 1 :]))]
    return [(positions, index[dim : dim + inner]), (source, (*index[:dim], found, *index[dim + inner :]))]
