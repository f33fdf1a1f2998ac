"""Conditions on whole vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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


def in_lanes(guards: Iterable[Guard], lanes: Var | None) -> tuple[Guard, ...]:
    """The guards that lanes may meet or miss one by one."""
    return tuple(guard for guard in guards if lanes is not None and lanes in guard.form.free)


def near(guards: Sequence[Guard], lanes: Var | None) -> tuple[Guard, ...]:
    """What holds for a vector if the guards hold for some lane of it; those without the lane stay."""
    found: list[Guard] = []
    for guard in guards:
        parted = _parted(guard, lanes)
        if parted is None:
            found += [] if lanes in guard.form.free else [guard]
            continue
        low, reach = parted
        found.append(Guard(low + reach, guard.extent + reach))
    return tuple(found)


def whole(guards: Sequence[Guard], lanes: Var | None) -> tuple[Guard, ...] | None:
    """What makes the guards hold for every lane of a vector; None where nothing does."""
    found: list[Guard] = []
    for guard in guards:
        parted = _parted(guard, lanes)
        if parted is None:
            if lanes in guard.form.free:
                return None
            found.append(guard)
            continue
        low, reach = parted
        if guard.extent <= reach:
            return None
        found.append(Guard(low, guard.extent - reach))
    return tuple(found)


def _parted(guard: Guard, lanes: Var | None) -> tuple[Form, int] | None:
    """(the least value over the lanes, how far the greatest is from it); None for a guard that is the same for all, or
    that divides its lane."""
    c = guard.form.coefficient(lanes) if lanes is not None and lanes in guard.form.free else None
    if not c or lanes is None:
        return None
    rest, reach = guard.form - Form.of(lanes) * c, abs(c) * (lanes.extent - 1)
    return (rest if c > 0 else rest - reach), reach
