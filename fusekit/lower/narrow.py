"""Costly loops of a CPU that only end in a wide sum: the sum gets a loop of its own.

LLVM takes vectors as long as the widest type of a loop allows. Beside an accumulator of float64 the exponentials of a
softmax would be computed four at a time; with the sum in a loop behind, over a row that is near, eight or sixteen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from fusekit.dtypes import F32, F64
from fusekit.index import Form
from fusekit.lower.arrange import is_costly_statement
from fusekit.lower.keep import MOST_KEPT
from fusekit.lower.names import Names
from fusekit.lower.program import Accumulate, Assign, For, If, Program, Statement, Tile, TileLoad, TileStore


def sums_apart(program: Program, names: Names) -> Program:
    """The program with such loops in two."""
    return replace(program, body=tuple(_apart(program.body, names)))


def _apart(body: Iterable[Statement], names: Names) -> Iterator[Statement]:
    for statement in body:
        match statement:
            case For() if wide := _wide_sums(statement):
                yield from _in_two(statement, wide, names)
            case For() | If():
                yield replace(statement, body=tuple(_apart(statement.body, names)))
            case _:
                yield statement


def _wide_sums(loop: For) -> list[Accumulate]:
    """Sums of float32 in float64 at the end of an innermost loop that computes something costly."""
    if loop.parallel or loop.var.extent > MOST_KEPT or any(isinstance(s, For) for s in loop.body):
        return []
    if not any(isinstance(s, Assign) and is_costly_statement(s) for s in loop.body):
        return []
    made = {s.name for s in loop.body if isinstance(s, Assign)}
    sums = [s for s in loop.body if isinstance(s, Accumulate) and s.at is None and not s.fold.is_arg]
    return [s for s in sums if s.dtype is F64 and s.source is F32 and s.value in made]


def _in_two(loop: For, sums: list[Accumulate], names: Names) -> Iterator[Statement]:
    """The arrays, the loop without the sums, the sums."""
    at, rest, later = Form.of(loop.var), [s for s in loop.body if s not in sums], list[Statement]()
    kept = {s.tile: s for s in rest if isinstance(s, TileStore) and s.at == at}
    homes = {s.value: tile for tile, s in kept.items()}
    for value in dict.fromkeys(one.value for one in sums):
        if value not in homes:
            homes[value] = names.fresh(f"row_of_{value}")
            yield Tile(homes[value], F32, loop.var.extent)
            rest.append(TileStore(homes[value], at, value, F32))
        again = names.fresh(value)
        later.append(TileLoad(again, homes[value], at, F32))
        later += [replace(one, value=again) for one in sums if one.value == value]
    yield replace(loop, body=tuple(rest))
    yield replace(loop, body=tuple(later))
