"""Costly values that a later pass over the same loops needs again: kept in an array instead of computed again.

Registers do that on a GPU, where unrolled loops are no passes; on a CPU a row fits the first cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from fusekit.ids import NodeId
from fusekit.index import Form, Var
from fusekit.lower.arrange import is_costly
from fusekit.lower.items import Item, Path
from fusekit.lower.names import Names
from fusekit.lower.program import ALWAYS, Assign, Cases, Tile, TileLoad, TileStore

MOST_KEPT = 8192  # elements: 32 KB of float32


@dataclass(frozen=True, slots=True)
class Kept:
    """An array in the loops ``path``; ``store`` stands where item ``of`` is made."""

    tile: Tile
    path: Path
    store: TileStore
    of: Item


def keep(
    items: Sequence[Item],
    keys: Mapping[str, object],
    cases: Mapping[str, Cases],
    order: Sequence[Var],
    names: Names,
    only: Sequence[NodeId] | None,
) -> tuple[list[Item], list[Kept]]:
    """The items with later ones that read arrays, and the arrays. ``only``: the values that may be kept; None: all."""
    made: dict[object, Item] = {}
    kept: dict[str, Kept] = {}
    out: list[Item] = []
    for item in items:
        key = keys.get(item.name)
        if not _is_worth(item, cases) or key is None or (only is not None and not _is_among(key, only)):
            out.append(item)
            continue
        first = made.setdefault(key, item)
        loops = None if first is item else _repeated(first.path, item.path, order)
        if loops is None:
            out.append(item)
            continue
        if first.name not in kept:
            kept[first.name] = _kept(first, loops, names)
        found = kept[first.name]
        load = TileLoad(item.name, found.tile.name, found.store.at, found.tile.dtype)
        out.append(replace(item, statement=load, uses=()))
    return out, list(kept.values())


def _is_worth(item: Item, cases: Mapping[str, Cases]) -> bool:
    return isinstance(item.statement, Assign) and is_costly(item) and cases[item.name] == ALWAYS


def _is_among(key: object, only: Sequence[NodeId]) -> bool:
    return isinstance(key, tuple) and key[0] in only


def _repeated(first: Path, again: Path, order: Sequence[Var]) -> tuple[Path, tuple[Var, ...]] | None:
    """(loops around both, loops that run once more), where the later one runs over nothing else."""
    common = next((k for k, (a, b) in enumerate(zip(first, again, strict=False)) if a != b), None)
    if common is None or len(first) != len(again) or first > again:
        return None
    if [at for _, at in first[common:]] != [at for _, at in again[common:]]:
        return None
    loops = tuple(order[at] for _, at in first[common:])
    return (first[:common], loops) if prod(var.extent for var in loops) <= MOST_KEPT else None


def _kept(item: Item, loops: tuple[Path, tuple[Var, ...]], names: Names) -> Kept:
    at = Form()
    for var in loops[1]:
        at = at * var.extent + Form.of(var)
    statement = item.statement
    assert isinstance(statement, Assign)
    tile = Tile(names.fresh(f"kept_{item.name}"), statement.dtype, prod(var.extent for var in loops[1]))
    return Kept(tile, loops[0], TileStore(tile.name, at, item.name, statement.dtype), item)


def used(items: Sequence[Item], taken: set[str], cases: Mapping[str, Cases]) -> list[Item]:
    """Those items that something takes, in the same order, with the tests that say when they matter."""
    needed, before = set(taken), -1
    while len(needed) != before:  # a test may stand behind what it decides about
        before = len(needed)
        for item in reversed(items):
            if item.name in needed:
                needed.update(name for name, _ in item.uses)
                needed.update(test for _, case in item.uses for test, _ in case)
                needed.update(test for case in cases.get(item.name, ALWAYS) for test, _ in case)
    return [item for item in items if item.name in needed]
