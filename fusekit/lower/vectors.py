"""Conditions on whole vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fusekit.index import Form, Var
from fusekit.ir import Guard


def without_lane(guards: Iterable[Guard], lanes: Var | None) -> Iterator[Guard]:
    """A bound that all lanes of a vector meet or miss together loses its lane."""
    for guard in guards:
        c = guard.form.coefficient(lanes) if lanes is not None and lanes in guard.form.free else None
        if c is None or c <= 0 or lanes is None:
            yield guard
            continue
        rest, step = guard.form - Form.of(lanes) * c, c * lanes.extent
        yield Guard(rest, guard.extent) if rest.is_divisible(step) and guard.extent % step == 0 else guard
