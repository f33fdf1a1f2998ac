"""When values are read and computed within one pass over the loops: the placement ``loads`` of a schedule.

"top": what no result has to be waited for is read at once. "phase": at the head of the step that needs it, before
anything is folded. "use": each value is read and computed for the fold or the store that takes it next, which keeps few
of them in registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fusekit.lower.build import Nest, Root
from fusekit.lower.items import Item
from fusekit.lower.program import Cases, Load, Store, Test, TileStore


def at_top(items: Sequence[Item], cases: Mapping[str, Cases], first: int) -> tuple[Item, ...]:
    """The items with loads, and the tests that they hang on, in the first step of their pass.

    ``first``: which that is outside of all loops.
    """
    tests = {item.name: item for item in items if isinstance(item.statement, Test) and not item.uses}
    moved = set(tests)
    for item in items:
        if isinstance(item.statement, Load) and not item.uses:
            wanted = {test for case in cases[item.name] for test, _ in case}
            if all(test in tests and len(tests[test].path) <= len(item.path) for test in wanted):
                moved.add(item.name)
    return tuple(
        replace(item, step=min(item.step, 0 if item.path else first)) if item.name in moved else item for item in items
    )


def at_use(
    items: Sequence[Item], roots: Iterable[Root], cases: Mapping[str, Cases]
) -> Iterator[tuple[list[Item], Root | None]]:
    """Root after root with the items that it needs and that no earlier one needed; at last the rest, with None.

    An item needs its operands, and the tests under which it is computed, be it for other roots.
    """
    own = {item.name: item for item in items}
    left = dict(own)
    for root in roots:
        needed = set[str]()
        todo = [root.statement.value, *(test for case in root.cases for test, _ in case)]
        mask = None if isinstance(root.statement, TileStore) else root.statement.mask
        todo += [] if mask is None else [mask]
        while todo:
            name = todo.pop()
            if name in needed or name not in own:
                continue
            needed.add(name)
            uses = own[name].uses
            todo += [operand for operand, _ in uses]
            todo += [test for _, case in uses for test, _ in case]
            todo += [test for case in cases[name] for test, _ in case]
        yield [left.pop(item.name) for item in items if item.name in needed and item.name in left], root
    yield list(left.values()), None


def can_store_early(nest: Nest) -> bool:
    """May a store come before loads of its own pass? Where no block that is stored is read."""
    stored = {root.block for root in nest.roots if isinstance(root.statement, Store)}
    return not any(isinstance(item.statement, Load) and item.block in stored for item in nest.items)
