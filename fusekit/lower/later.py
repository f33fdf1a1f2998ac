"""Stores that are left until every load is done: values wait in scratch memory, and move to their place at the end.

On a GPU the last block to come moves them. Only for bytes that the kernel's loads may meet, and few of them; all other
stores of the same tensor go straight to memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

from fusekit.dtypes import DType
from fusekit.index import Form
from fusekit.ir import Guard, Layout
from fusekit.lower.build import Nest, Root
from fusekit.lower.items import Item
from fusekit.lower.loops import is_block, is_thread
from fusekit.lower.program import Cases, Hold, Load, Store, Test, is_vector
from fusekit.memory import Kind, meets, relate
from fusekit.schedule.plan import open_guards

PASSES = 4  # elements that each thread of the last block moves, at most
SHARE = 4  # on a CPU: one element for so many iterations may wait
MOST_SPANS = 4
MOST_BLOCKS = 4096  # each announces itself at one address; on an H200 16,384 of them cost 0.02 ms, a snapshot 0.003
Span = tuple[int, int]


def span_of(item: Item) -> Span:
    """The bytes that a load may read: of its tensor, those that its index reaches."""
    statement = item.statement
    assert isinstance(statement, Load)
    low, high = statement.address.bounds
    return max(low, item.extent[0]), min(high + statement.dtype.width, item.extent[1])


def leave(nest: Nest, loads: Sequence[Item], stores: Sequence[Root]) -> tuple[Nest, tuple[Hold, ...]] | str:
    """The nest in which the stores to what the loads of one block read come last; or why they cannot."""
    if any(one.over in ("blocks", "grid") for folded in nest.folds for one in folded.combine):
        return "blocks put results together already"
    if nest.checks and nest.loops.axes:
        return "a bad index ends some blocks early"
    if any(not _load(item).address.free.isdisjoint(nest.data) for item in loads):
        return "data decide which bytes are read"
    made = _regions(nest, loads, stores)
    if isinstance(made, str):
        return made
    if (why := _too_many(nest, made)) is not None:
        return why
    memory = nest.names.memory(stores[0].block) if stores[0].block is not None else ""
    later = tuple(Hold(nest.names.fresh(f"{memory}_later"), memory, *span, dtype) for span, dtype in made.items())
    parted = _redirected(nest, stores, later)
    if any(nest.loops.lanes in item.free for item in parted.items[len(nest.items) :]):
        return "lanes of one vector would part"
    return parted, later


def _load(item: Item) -> Load:
    assert isinstance(item.statement, Load)
    return item.statement


def _regions(nest: Nest, loads: Sequence[Item], stores: Sequence[Root]) -> dict[Span, DType] | str:
    """Spans of bytes that stores fill without a gap, each by elements of one dtype."""
    made: dict[Span, DType] = {}
    for first, last in _joined(map(span_of, loads)):
        met = [root for root in stores if root.region is not None and _meets(root.region, (first, last))]
        unit = max([_unit(root, nest) for root in met], default=1)
        low, high = first // unit * unit, -(-last // unit) * unit
        low, high = max(low, min(_region(r).extent[0] for r in met)), min(high, max(_region(r).extent[1] for r in met))
        dtypes = {root.statement.dtype if isinstance(root.statement, Store) else None for root in met}
        whole = [_covers(_region(root), (low, high)) for root in met]
        if len(dtypes) != 1 or not all(whole) or (low % unit or high % unit):
            return f"bytes {first:,} to {last:,} are stored in part"
        made[low, high] = _region(met[0]).dtype
    return made


def _region(root: Root) -> Layout:
    assert root.region is not None
    return root.region


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Spans that touch, as one."""
    out: list[Span] = []
    for first, last in sorted(spans):
        if out and first <= out[-1][1]:
            out[-1] = out[-1][0], max(last, out[-1][1])
        else:
            out.append((first, last))
    return out


def _unit(root: Root, nest: Nest) -> int:
    """Bytes that one store writes at once."""
    store, lanes = root.statement, nest.loops.lanes
    assert isinstance(store, Store)
    return store.dtype.width * (lanes.extent if lanes is not None and store.lanes else 1)


def _meets(region: Layout, span: Span) -> bool:
    return meets(_bytes(region, span), region) is not False


def _bytes(region: Layout, span: Span) -> Layout:
    """The elements of a span, one after the other from its first byte."""
    width = region.dtype.width
    return Layout.of(Form.of(span[0]), (max(span[1] - span[0], 0) // width,), (width,), region.dtype)


def _covers(region: Layout, span: Span) -> bool:
    is_whole = not (span[1] - span[0]) % region.dtype.width
    return is_whole and relate(_bytes(region, span), region).kind is Kind.INSIDE


def _too_many(nest: Nest, made: dict[Span, DType]) -> str | None:
    count = sum((last - first) // dtype.width for (first, last), dtype in made.items())
    if len(made) > MOST_SPANS:
        return f"{len(made)} spans of bytes are read"
    blocks = prod(axis.var.extent for axis in nest.loops.axes if is_block(axis))
    if blocks > MOST_BLOCKS and any(is_thread(axis) for axis in nest.loops.axes):
        return f"{blocks:,} blocks would wait for one another"
    threads = [axis.var.extent for axis in nest.loops.axes if is_thread(axis)]
    if any(map(is_block, nest.loops.axes)) or threads:
        most, who = PASSES * prod(threads), "one block moves at once"
    else:
        most, who = prod(nest.loops.space) // SHARE, "are worth a second store"
    return f"{count:,} elements are more than {who}" if count > most else None


# ---- stores that part -----------------------------------------------------------------------------------------------


def _redirected(nest: Nest, stores: Sequence[Root], later: Sequence[Hold]) -> Nest:
    items, roots, cases = list(nest.items), list[Root](), dict(nest.cases)
    chosen = {id(root) for root in stores}
    for root in nest.roots:
        if id(root) not in chosen:
            roots.append(root)
            continue
        for one in later:
            guard = _inside(root, nest, one)
            found = None if guard is None else open_guards([guard])
            if found is None:
                continue
            store = replace(root.statement, memory=one.name)
            if not found:
                roots.append(replace(root, statement=store))
                break
            name = nest.names.fresh("is_later")
            items.append(Item(Test(name, found), (), frozenset(found[0].form.free), root.path, root.step))
            cases[name] = frozenset([frozenset()])
            roots.append(replace(root, statement=store, cases=_and(root.cases, name, True)))
            root = replace(root, cases=_and(root.cases, name, False))
        else:
            roots.append(root)
    return replace(nest, items=tuple(items), roots=tuple(roots), cases=cases)


def _inside(root: Root, nest: Nest, one: Hold) -> Guard | None:
    """Where a store goes to scratch memory; a vector does so whole."""
    store, lanes = root.statement, nest.loops.lanes
    assert isinstance(store, Store)
    address = store.address
    if lanes is not None and store.lanes:
        if not is_vector(address, store.dtype.width, lanes):
            return Guard(address - one.first, one.size)  # lanes part: the nest is built again without vectors
        address = address - Form.of(lanes) * store.dtype.width
    return Guard(address - one.first, one.size)


def _and(cases: Cases, name: str, holds: bool) -> Cases:
    return frozenset(case | {(name, holds)} for case in cases)
