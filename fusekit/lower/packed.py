"""Rows of halves that stay packed, two in a register, from one pass over them to a later one."""

from __future__ import annotations

from collections.abc import Iterable

from fusekit.dtypes import F32, DType
from fusekit.lower.expressions import Apply, Convert, Name
from fusekit.lower.program import Assign, Combine, Load, Program, Statement
from fusekit.lower.scalars import HALVES
from fusekit.lower.uses import reads, walk

PACK_FROM = 48
"""Elements of a thread's part of a row from which two share a register: unpacking them at each use costs less then."""


def packed(program: Program, can_pack: Iterable[str]) -> dict[str, DType]:
    """Names of vectors that are held packed, with their dtype: loads among ``can_pack``, and copies of these."""
    if program.lanes is None:
        return {}
    allowed, loads, copies = set(can_pack), dict[str, Load](), dict[str, str]()
    passes: dict[str, set[int]] = {}
    done = 0
    for statement in walk(program.body):
        done += isinstance(statement, Combine) and statement.over == "threads"
        if isinstance(statement, Load) and statement.name in allowed and statement.dtype in HALVES:
            loads[statement.name] = statement
        source = copied(statement)
        if source is not None and (origin := copies.get(source, source)) in loads:
            copies[statement.name] = origin  # type: ignore[union-attr]
            continue
        for name in reads(statement):
            passes.setdefault(copies.get(name, name), set()).add(done)
    again = {name for name in loads if len(passes.get(name, ())) > 1}
    if len(again) * program.lanes.extent < PACK_FROM:
        return {}
    held = {name: name for name in again} | {name: origin for name, origin in copies.items() if origin in again}
    return {name: loads[origin].dtype for name, origin in held.items()}


def copied(statement: Statement) -> str | None:
    """The vector of which this one is a copy in every register; None for anything else."""
    if not isinstance(statement, Assign) or not statement.lanes:
        return None
    value = statement.value
    if isinstance(value, Apply) and value.scalar.body == "{0}":
        value = value.operands[0]
    match value:
        case Name(name):
            return name
        case Convert(Name(name), source, dtype) if source in HALVES and dtype in (source, F32):
            return name
        case _:
            return None
