"""Memory SSA at the level of elements: what each block holds at each point of the program, as values.

A block has an *epoch* (what its real memory holds; steps when real memory is written) and a list of pending writes,
each (region, value) over what came before. A read resolves against the pending writes, last first: a write that shares
no byte is skipped; one that holds all of the read gives its value; one that holds part of it gives an overlay; where no
closed relation exists, the pending writes go to real memory first. ``flush`` writes pending versions out, together with
every live value that still reads what is about to be overwritten: nothing ever reads a stale epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fusekit.ids import NodeId
from fusekit.ir import Layout
from fusekit.memory import Kind, hull, nested, ranges_meet, relate
from fusekit.passes.values import Value, Values
from fusekit.why import Reason

LIVE_OVERLAYS = 16


@dataclass
class BlockState:
    """``writes``: pending (region, value) pairs over the contents of ``epoch``; ``version``: for the memo."""

    id: NodeId
    epoch: int = 0
    version: int = 0
    writes: list[tuple[Layout, Value]] = field(default_factory=lambda: list[tuple[Layout, Value]]())


@dataclass(frozen=True)
class Store:
    """A region of a block and the value that goes there."""

    block: NodeId
    region: Layout
    value: Value


@dataclass(frozen=True)
class Flush:
    """Stores that happen at one point of the program: every value is of the memory before all of them."""

    stores: tuple[Store, ...]
    reason: Reason
    taken_along: tuple[tuple[NodeId, NodeId], ...]  # (block, the dying block that its values still read)
    epochs: tuple[NodeId, ...]  # blocks whose real memory changes


class Memory:
    """The state of all blocks while the pass walks the program. ``emit`` receives every flush, in order.

    ``unset``: has the block no contents but what was written to it since the program began?
    """

    def __init__(
        self,
        values: Values,
        alive: Callable[[NodeId], bool],
        emit: Callable[[Flush], None],
        unset: Callable[[NodeId], bool],
    ):
        self.values, self._alive, self._emit, self._unset = values, alive, emit, unset
        self._blocks: dict[NodeId, BlockState] = {}
        self._pending: dict[NodeId, BlockState] = {}  # those with writes, in the order of their first
        self._memo: dict[tuple[NodeId, int, int, Layout], Value] = {}
        self._makers: dict[tuple[NodeId, Layout], NodeId | None] = {}
        self._loaded: dict[tuple[NodeId, int], dict[Layout, None]] = {}

    def state(self, block: NodeId) -> BlockState:
        found = self._blocks.get(block)
        if found is None:
            found = self._blocks[block] = BlockState(block)
        return found

    # ---- reading

    def can_read(self, block: NodeId, layout: Layout) -> bool:
        """Has every pending write a closed relation with this read?"""
        return all(relate(layout, region).kind is not Kind.NONE for region, _ in self.state(block).writes)

    def read(self, block: NodeId, layout: Layout) -> Value:
        """The contents of a layout now; ``can_read`` must hold."""
        state = self.state(block)
        return self._resolve(state, layout, len(state.writes))

    def _resolve(self, state: BlockState, layout: Layout, upto: int) -> Value:
        key = (state.id, state.version, upto, layout)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._search(state, layout, upto)
        return found

    def _search(self, state: BlockState, layout: Layout, upto: int) -> Value:
        for k in range(upto - 1, -1, -1):
            region, value = state.writes[k]
            relation = relate(layout, region)
            if relation.kind is Kind.DISJOINT:
                continue
            if relation.kind is Kind.INSIDE:
                return self.values.bits(self.values.window(value, relation.index, layout.shape), layout.dtype)
            below = self._resolve(state, layout, k)
            above = self.values.bits(value, layout.dtype)
            return self.values.overlay(below, above, relation.index, relation.guards)
        if not state.epoch and self._unset(state.id):  # nobody wrote it: any value will do
            return self.values.fill(0, layout.shape, layout.dtype)
        self._loaded.setdefault((state.id, state.epoch), {})[layout] = None
        return self.values.load(state.id, state.epoch, layout)

    # ---- writing

    def room_for(self, block: NodeId, region: Layout) -> Reason | None:
        """None where a write of ``region`` may become pending, else why the block must be flushed first."""
        state = self.state(block)
        for other, _ in state.writes:
            if relate(region, other).kind is Kind.NONE or relate(other, region).kind is Kind.NONE:
                return Reason.of("flush-no-relation")
        if len(state.writes) >= LIVE_OVERLAYS:
            return Reason.of("flush-overlays", count=LIVE_OVERLAYS)
        return None

    def write(self, block: NodeId, region: Layout, value: Value) -> None:
        """A pending write; what it covers whole is dropped."""
        if not region.numel:
            return
        assert (value.shape, value.dtype) == (region.shape, region.dtype), (value, region)
        state = self.state(block)
        kept = [w for w in state.writes if relate(w[0], region).kind is not Kind.INSIDE]
        state.writes = [*kept, (region, value)]
        self._makers[block, region] = self.values.current
        state.version += 1
        self._pending[block] = state

    # ---- byte ranges

    def is_near(self, block: NodeId, layout: Layout, maker: NodeId | None = None) -> bool:
        """Does the byte range of a layout cross a pending write through another one? (Not if ``maker`` wrote it.)"""
        regions = (region for region, _ in self.state(block).writes if _is_near(layout, region))
        return any(maker is None or self._makers.get((block, region)) != maker for region in regions)

    def near(self, block: NodeId, region: Layout) -> set[NodeId]:
        """Blocks that a write of ``region`` must find in memory: this one, and those whose values read near it."""
        found = {block} if self.is_near(block, region) else set[NodeId]()
        now = block, self.state(block).epoch
        if any(_is_near(region, layout) for layout in self._loaded.get(now, ())):
            found |= {b for b, s in self._pending.items() if any(now in v.reads for _, v in s.writes)}
        return found

    # ---- real memory

    def flush(
        self,
        blocks: Iterable[NodeId],
        reason: Reason,
        overwritten: Iterable[NodeId] = (),
        through: Mapping[NodeId, Sequence[Layout]] | None = None,
    ) -> None:
        """Pending writes of ``blocks`` go to real memory; a library call then changes ``overwritten`` blocks.

        Every live block with a pending value that still reads a dying (block, epoch) is taken along. ``through``:
        layouts, by block, through which the contents are stored where that can be.
        """
        chosen = {b for b in blocks if self.state(b).writes}
        dying = chosen | set(overwritten)
        along: list[tuple[NodeId, NodeId]] = []
        while more := list(self._dependents(dying, chosen)):
            along += more
            chosen |= {b for b, _ in more}
            dying |= chosen
        own = through or {}
        pending = [state for b, state in self._pending.items() if b in chosen]
        stores = tuple(store for state in pending for store in self._stores(state, own.get(state.id, ())))
        if stores or dying:
            self._emit(Flush(stores, reason, tuple(along), tuple(dying)))
        for b in dying:
            state = self.state(b)
            state.writes, state.epoch, state.version = [], state.epoch + 1, state.version + 1
            self._pending.pop(b, None)
        open_reads = {read for state in self._pending.values() for _, value in state.writes for read in value.reads}
        self._loaded = {read: layouts for read, layouts in self._loaded.items() if read in open_reads}

    def _dependents(self, dying: set[NodeId], chosen: set[NodeId]) -> Iterator[tuple[NodeId, NodeId]]:
        stale = {(b, self.state(b).epoch) for b in dying}
        if not stale:
            return
        for b, state in list(self._pending.items()):
            if not self._alive(b):
                del self._pending[b]  # nothing will read it: its writes are never made
            elif b not in chosen:
                reads = (read for _, value in state.writes for read in value.reads)
                if hit := next((block for block, epoch in reads if (block, epoch) in stale), None):
                    yield b, hit

    def _stores(self, state: BlockState, through: Sequence[Layout]) -> Iterator[Store]:
        """The greatest pending regions, each with the final version's value over it; in place of those that a layout
        of ``through`` holds, that.

        Regions that overlap without one covering the other store equal values twice, which is harmless: there is no
        write-after-write to order.
        """
        own = [layout for layout in dict.fromkeys(through) if self._is_pending(state, layout)]
        for layout in own:
            yield Store(state.id, layout, self._resolve(state, layout, len(state.writes)))
        regions = _merged([region for region, _ in state.writes])
        for k, region in enumerate(regions):
            if any(relate(region, layout).kind is Kind.INSIDE for layout in own):
                continue
            if any(_is_covered(region, other, j < k) for j, other in enumerate(regions) if j != k):
                continue
            yield Store(state.id, region, self._resolve(state, region, len(state.writes)))

    def _is_pending(self, state: BlockState, layout: Layout) -> bool:
        """Can the elements of the layout be stored through it, each once? They must be those of one pending write."""
        if not nested(layout) or not all(s for _, s in layout.axes()):
            return False
        kinds = [relate(layout, region).kind for region, _ in state.writes]
        kinds = [kind for kind in kinds if kind is not Kind.DISJOINT]
        return kinds == [Kind.INSIDE]


def _is_near(one: Layout, other: Layout) -> bool:
    return ranges_meet(one, other) and not one.is_same_map(other)


def _is_covered(region: Layout, other: Layout, earlier: bool) -> bool:
    """Does ``other`` hold all of ``region``? Of two equal ones the earlier is kept."""
    if relate(region, other).kind is not Kind.INSIDE:
        return False
    return earlier or relate(other, region).kind is not Kind.INSIDE


def _merged(regions: list[Layout]) -> list[Layout]:
    """Overlapping boxes of one grid become one box while their union is exactly a box."""
    while True:
        pairs = ((a, b, hull(a, b)) for k, a in enumerate(regions) for b in regions[:k])
        found = next(((a, b, union) for a, b, union in pairs if union is not None), None)
        if found is None:
            return regions
        regions = [r for r in regions if r is not found[0] and r is not found[1]] + [found[2]]
