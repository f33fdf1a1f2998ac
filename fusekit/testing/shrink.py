"""Makes a failing program smaller: fewer lines, outputs, arguments, while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from fusekit.testing.programs import NAMES, Placement, RandomProgram

MOST_TRIES = 150


def shrink(program: RandomProgram, fails: Callable[[RandomProgram], bool], tries: int = MOST_TRIES) -> RandomProgram:
    """The smallest program found by leaving things out one after another; the same program gives the same one."""
    while True:
        for smaller in _smaller(program):
            tries -= 1
            if tries < 0:
                return program
            if fails(smaller):
                program = smaller
                break
        else:
            return program


def _smaller(program: RandomProgram) -> Iterator[RandomProgram]:
    steps, outputs = program.steps, program.outputs
    half = len(steps) // 2
    if half > 1:
        yield replace(program, steps=steps[:half])
        yield replace(program, steps=steps[half:])
    for k in reversed(range(len(steps))):
        yield replace(program, steps=steps[:k] + steps[k + 1 :])
    if len(outputs) > 1:
        for k in range(len(outputs)):
            yield replace(program, outputs=outputs[:k] + outputs[k + 1 :])
    if outputs and not outputs[0].isdigit():
        yield replace(program, outputs=("3",))
    last = len(program.arguments) - 1
    text = program.source.split("\n", 1)[1]
    if last and not _uses(text, NAMES[last]):
        yield replace(program, placements=tuple(_without_last(one) for one in program.placements))
    for call, placement in enumerate(program.placements):
        plain = replace(placement, buffers=tuple(replace(b, joined=False, is_special=False) for b in placement.buffers))
        if plain != placement:
            yield replace(
                program, placements=tuple(plain if k == call else p for k, p in enumerate(program.placements))
            )
    first, *_, last = calls = program.placements
    if len(calls) > 2:
        for k in range(len(calls)):
            yield replace(program, placements=calls[:k] + calls[k + 1 :])
    elif first != last:
        yield replace(program, placements=(first, first))
        yield replace(program, placements=(last, last))


def _uses(text: str, name: str) -> bool:
    padded = "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
    return name in padded


def _without_last(placement: Placement) -> Placement:
    return replace(placement, arguments=placement.arguments[:-1])
