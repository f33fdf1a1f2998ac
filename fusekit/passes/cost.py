"""How many values one element of a value needs: what a loop body would have to compute."""

from __future__ import annotations

from functools import lru_cache

from fusekit.index import Form, Var, loop_vars
from fusekit.passes.values import OVERLAY, WINDOW, Index, Value, broadcast_index, put, value_index

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
        todo.extend(_needs(v, index))
    return min(len(seen), limit + 1)


def _needs(v: Value, index: Index) -> list[tuple[Value, Index]]:
    if v.kind == WINDOW:
        return [(v.operands[0], put(value_index(v), index, v.shape))]
    if v.kind == OVERLAY:
        return [(v.operands[0], index), (v.operands[1], put(value_index(v), index, v.shape))]
    return [(o, broadcast_index(o.shape, index)) for o in v.operands]
