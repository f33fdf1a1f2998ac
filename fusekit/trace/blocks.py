"""Memory blocks of a recording: storages whose bytes meet are one block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusekit.ir import Block
from fusekit.memory import join
from fusekit.trace.program import Program, Room


@dataclass(frozen=True, slots=True)
class Joined:
    """Blocks of the inputs; for each input, in order, (block number, bytes from the block's start to its storage)."""

    blocks: tuple[Block, ...]
    where: tuple[tuple[int, int], ...]


def joined_blocks(program: Program) -> Joined:
    """Arguments and captures are joined where the byte spans of their storages meet on one device, whatever the
    storage objects; empty storages and constants join nothing. Blocks stand in the order of the inputs."""
    kinds: dict[int, str] = {}
    for number, _, kind in program.inputs:
        kinds.setdefault(program.first[number].storage, kind)
    groups = _groups([s for s in kinds if kinds[s] != "constant"], program.rooms)
    groups += [[s] for s in kinds if kinds[s] == "constant"]
    order = {storage: k for k, storage in enumerate(kinds)}
    groups.sort(key=lambda group: min(order[s] for s in group))
    blocks: list[Block] = []
    where: dict[int, tuple[int, int]] = {}
    for number, group in enumerate(groups):
        rooms = [program.rooms[s] for s in group]
        base = min(room.address or 0 for room in rooms)
        end = max((room.address or 0) + room.nbytes for room in rooms)
        kind = min((kinds[s] for s in group), key=("argument", "capture", "constant").index)
        blocks.append(Block(end - base, str(rooms[0].device), kind))
        where.update({s: (number, (program.rooms[s].address or 0) - base) for s in group})
    return Joined(tuple(blocks), tuple(where[program.first[number].storage] for number, _, _ in program.inputs))


def separate_blocks(program: Program) -> Joined:
    """Every input in a block of its own, as large as its storage: for plans that must be right for any overlap."""
    rooms = [(program.rooms[program.first[number].storage], kind) for number, _, kind in program.inputs]
    blocks = tuple(Block(room.nbytes, str(room.device), kind) for room, kind in rooms)
    return Joined(blocks, tuple((k, 0) for k in range(len(blocks))))


def _groups(storages: Sequence[int], rooms: Sequence[Room]) -> list[list[int]]:
    found: list[list[int]] = []
    for device in dict.fromkeys(rooms[s].device for s in storages):
        here = [s for s in storages if rooms[s].device == device]
        spans = [((rooms[s].address or 0), (rooms[s].address or 0) + rooms[s].nbytes) for s in here]
        found += [[here[k] for k in group] for group in join(spans)]
    return found
