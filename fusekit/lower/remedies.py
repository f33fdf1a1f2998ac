"""The nest of a segment that is safe at the least cost: as it is, or with iterations that swap elements paired."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from fusekit.ids import NodeId
from fusekit.lower.build import Nest, Segment
from fusekit.lower.hazards import Protected, protect
from fusekit.lower.launches import why_not_another
from fusekit.lower.orbits import orbits_of
from fusekit.lower.refuse import CannotLower
from fusekit.memory import Race, Refused
from fusekit.memory.access import LAST_BLOCK, LAUNCH, NONE_NEEDED, PAIRING, SNAPSHOT


def safest(segment: Segment, make: Callable[[Segment], Nest], ordered: bool) -> Protected:
    """The cheapest by further launches, then by bytes moved. Raises CannotLower, as ``make`` does for the segment."""
    plain = protect(make(segment), ordered)
    if not (plain.snapshots or plain.later):
        return plain
    orbits = orbits_of(segment.graph, segment.roots)
    why = orbits if isinstance(orbits, str) else "the schedule cannot run it"
    if not isinstance(orbits, str):
        with suppress(CannotLower):
            paired = protect(make(replace(segment, orbits=orbits)), ordered)
            if paired.cost < plain.cost:
                return _paired(paired, plain)
            why = "other loads need a snapshot all the same"
    saved = frozenset(NodeId(str(r.load.block)) for r in plain.races if r.remedy == SNAPSHOT)
    launch = why_not_another(segment.graph, segment.roots, saved, plain.cost[1])
    more = (Refused(PAIRING, why), Refused(LAUNCH, launch))
    return replace(plain, races=tuple(_also(one, more) for one in plain.races))


def _paired(paired: Protected, plain: Protected) -> Protected:
    """Where a snapshot was needed, pairing is what makes iterations not meet."""
    costly = [race for race in plain.races if race.remedy in (SNAPSHOT, LAST_BLOCK)]
    saved = {race.load.block for race in costly}
    launches, size = plain.cost
    dear = Refused(SNAPSHOT if launches else LAST_BLOCK, f"{'one more launch, and ' if launches else ''}{size:,} bytes")
    said = (*(one for one in costly[0].considered if one.remedy != dear.remedy), dear)
    races = (
        replace(one, remedy=PAIRING, considered=said) if one.load.block in saved and one.remedy == NONE_NEEDED else one
        for one in paired.races
    )
    return replace(paired, races=tuple(races))


def _also(one: Race, more: tuple[Refused, ...]) -> Race:
    return replace(one, considered=(*one.considered, *more)) if one.remedy == SNAPSHOT else one
