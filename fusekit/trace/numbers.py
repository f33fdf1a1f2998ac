"""Numbers that do not fork plans: recordings that differ only in scalar operands and view offsets.

``signature`` splits a recording into what must be equal and a vector of numbers; ``generalise`` makes the graph in
which chosen numbers of the vector are parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fusekit.ir import Number
from fusekit.trace.blocks import input_spans
from fusekit.trace.entries import exactly
from fusekit.trace.graph_of import graph_of
from fusekit.trace.program import Call, Place, Program, Ref
from fusekit.trace.recording import Recording
from fusekit.trace.schema import bound
from fusekit.trace.sites import Site, sites_by_call
from fusekit.trace.spans import meeting

Scalar = int | float


@dataclass(frozen=True, slots=True)
class Slots:
    """The vector of numbers, and which slot of it each site takes: (call number, argument) -> slot.

    View offsets of one extent and one value share a slot, so that a cache written and read at one position has one
    parameter for both; whether they are equal is part of the signature.
    """

    values: tuple[Scalar, ...]
    of: dict[tuple[int, str], int]


@dataclass(frozen=True, slots=True)
class Signature:
    """What two recordings share that are one program but for its numbers. ``pattern``: how the bytes of the inputs
    meet, as (first input, second input, bytes apart, one storage?, one tensor?)."""

    without_pattern: tuple[Any, ...]
    pattern: tuple[tuple[int, int, int, bool, bool], ...]


def signature(recording: Recording) -> tuple[Signature, tuple[Scalar, ...]]:
    """(what must be equal, the numbers that need not be). Values of constants are inputs, so they may differ too."""
    program = recording.program
    slots = slots_of(program)
    by_call = sites_by_call(program)
    rows = tuple(_row(number, call, by_call[number], slots) for number, call in enumerate(program.calls))
    inputs = tuple((place[2:], kind) for place, kind in _inputs(program))
    exact = tuple((place.storage, place.offset, program.rooms[place.storage].nbytes) for place, _ in _inputs(program))
    outputs = tuple(_frozen(leaf) for leaf in program.outputs)
    facts = (rows, inputs, exact if recording.is_exact else (), outputs, recording.out_spec, recording.ambient)
    return Signature(facts, pattern_of(program)), slots.values


def differing(one: Sequence[Scalar], other: Sequence[Scalar]) -> tuple[int, ...]:
    """Slots in which two vectors of one signature differ, by type and bits (0.0 is not -0.0, NaN is NaN)."""
    return tuple(k for k, (a, b) in enumerate(zip(one, other, strict=True)) if not is_same(a, b))


def generalise(recording: Recording, which: Iterable[int]) -> Recording:
    """The recording with the slots ``which`` as parameters: ``Number(k)`` is the k-th of them in ascending order.

    A view's offset becomes ``base + stride * n<k>``, with the exact range in which the view stays inside its parent.
    """
    program, parameters = recording.program, tuple(sorted(set(which)))
    slots = slots_of(program)
    numbers = {slot: Number(k, slots.values[slot]) for k, slot in enumerate(parameters)}
    sites = {site: numbers[slot] for site, slot in slots.of.items() if slot in numbers}
    return replace(recording, graph=graph_of(program, sites), parameters=parameters, sites=sites)


def slots_of(program: Program) -> Slots:
    """The numbers of a program, in the order of its calls."""
    values: list[Scalar] = []
    of: dict[tuple[int, str], int] = {}
    views: dict[tuple[int, Scalar], int] = {}
    for number, sites in enumerate(sites_by_call(program)):
        for site in sites:
            key = None if site.extent is None else (site.extent, site.value)
            slot = views.get(key, len(values)) if key else len(values)
            if slot == len(values):
                values.append(site.value)
            if key:
                views[key] = slot
            of[number, site.argument] = slot
    return Slots(tuple(values), of)


def is_same(one: Any, other: Any) -> bool:
    """``exactly(one) == exactly(other)``, without texts for what most numbers are."""
    if type(one) is type(other) and (type(one) is int or (type(one) is float and one == one != 0)):
        return one == other
    return exactly(one) == exactly(other)


def _inputs(program: Program) -> Iterator[tuple[Place, str]]:
    for number, _, kind in program.inputs:
        yield program.first[number], kind


def pattern_of(program: Program) -> tuple[tuple[int, int, int, bool, bool], ...]:
    """How the inputs' bytes meet."""
    return meeting(input_spans(program))


def _row(number: int, call: Call, found: Sequence[Site], slots: Slots) -> tuple[Any, ...]:
    sites = {site.argument: site for site in found}
    given = []
    for argument, value in bound(call.target, call.args, call.kwargs):
        site = sites.get(argument.name)
        if site is not None:
            given.append((argument.name, _token(site, slots.of[number, argument.name])))
        elif argument.name != "end" or not _is_offset(sites):  # a slice is its start, its step and its length
            given.append((argument.name, _frozen(value)))
    places = tuple(place[2:] for place in call.places)  # neither storage number nor offset
    missing = tuple((name, _token(site, slots.of[number, name])) for name, site in sites.items())
    return str(call.target), tuple(given), missing, call.results, places


def _is_offset(sites: dict[str, Site]) -> bool:
    return any(site.extent is not None for site in sites.values())


def _token(site: Site, slot: int) -> tuple[Any, ...]:
    return "number", slot, type(site.value), site.extent


def _frozen(value: Any) -> Any:
    """A hashable stand-in that tells numbers apart by bits."""
    if type(value) is Ref:
        return value
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item) for item in value)
    if type(value) in (bool, int, float, complex):
        return exactly(value)
    try:
        hash(value)
    except TypeError:
        return (type(value), id(value))
    return value
