"""Index forms where a guard is known to hold."""

from __future__ import annotations

from collections.abc import Iterable

from fusekit.index import Form, Var, substitute
from fusekit.ir import Guard


def assume(form: Form, guard: Guard) -> Form:
    """The form where the guard holds: a variable of the guard is replaced by one that ranges over what it allows."""
    for atom, c in guard.form.terms:
        if isinstance(atom, Var) and c in (1, -1) and guard.form.coefficient(atom) == c and atom in form.free:
            inner = Form.of(Var(f"{atom.name}'", guard.extent, atom.kind))
            rest = guard.form - Form.of(atom) * c
            return substitute(form, {atom: (inner - rest) * c})
    return form


def assume_all(index: Iterable[Form], guards: Iterable[Guard]) -> tuple[Form, ...]:
    """Several forms where all guards hold, one guard after another."""
    found = tuple(index)
    for guard in guards:
        found = tuple(assume(form, guard) for form in found)
    return found
