"""Memory blocks of a recording: inputs whose bytes meet are one block."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fusekit.ir import Block
from fusekit.memory import join
from fusekit.trace.program import Program
from fusekit.trace.spans import Span

ABSOLUTE = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_.default)
"""Overloads that count from the start of a storage."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Blocks of the inputs; for each input, in order, (block number, bytes from the block's start to its storage)."""

    blocks: tuple[Block, ...]
    where: tuple[tuple[int, int], ...]


def joined_blocks(program: Program) -> Joined:
    """Arguments and captures are joined where their bytes meet on one device, whatever the storage objects; what has no
    bytes, and constants, join nothing. Blocks stand in the order of the inputs.

    Two tensors that lie apart in one storage are two blocks: the key does not say how far apart, so that calls with
    another distance share the plan. Where the program counts from the start of a storage, whole storages are joined.
    """
    spans = input_spans(program)
    kinds = [kind for _, _, kind in program.inputs]
    devices = [program.first[number].device for number, _, _ in program.inputs]
    groups = [[k] for k, kind in enumerate(kinds) if kind == "constant"]
    for device in dict.fromkeys(devices):
        here = [k for k, kind in enumerate(kinds) if kind != "constant" and devices[k] == device]
        groups += [[here[k] for k in group] for group in join([(spans[k].start, spans[k].end) for k in here])]
    blocks: list[Block] = []
    where: dict[int, tuple[int, int]] = {}
    for number, group in enumerate(sorted(groups, key=min)):
        rooms = [program.rooms[program.first[program.inputs[k][0]].storage] for k in group]
        base = min(room.address or 0 for room in rooms)
        end = max((room.address or 0) + room.nbytes for room in rooms)
        kind = min((kinds[k] for k in group), key=("argument", "capture", "constant").index)
        blocks.append(Block(end - base, str(rooms[0].device), kind))
        where.update({k: (number, (room.address or 0) - base) for k, room in zip(group, rooms, strict=True)})
    return Joined(tuple(blocks), tuple(where[k] for k in range(len(kinds))))


def is_absolute(program: Program) -> bool:
    """May the program reach bytes of an input's storage outside the tensor that it takes?"""
    reached = {call.places[0].storage for call in program.calls if call.target in ABSOLUTE}
    return bool(reached) and any(program.first[number].storage in reached for number, _, _ in program.inputs)


def input_spans(program: Program) -> list[Span]:
    """The bytes of each input; whole storages for a program that uses ``as_strided``, which may reach all of them."""
    whole = is_absolute(program)
    found = []
    for k, (number, _, _) in enumerate(program.inputs):
        place = program.first[number]
        room = program.rooms[place.storage]
        start = room.address or 0
        span = Span(start, start + room.nbytes, place.storage, k)
        found.append(span if whole else Span.of_place(place, start, place.storage, k))
    return found


def separate_blocks(program: Program) -> Joined:
    """Every input in a block of its own, as large as its storage: for plans that must be right for any overlap."""
    rooms = [(program.rooms[program.first[number].storage], kind) for number, _, kind in program.inputs]
    blocks = tuple(Block(room.nbytes, str(room.device), kind) for room, kind in rooms)
    return Joined(blocks, tuple((k, 0) for k in range(len(blocks))))
