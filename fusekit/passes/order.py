"""The order that accesses to real memory keep: an edge for each pair of which one writes, and that may share a byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fusekit.ids import NodeId
from fusekit.ir import Draft, Layout, Ordering
from fusekit.passes.base import shared_elements

Access = tuple[NodeId, Layout]
Meets = Callable[[Layout, Layout], "bool | None"]


@dataclass
class _Since:
    """Who read and who wrote the real memory of a block since it last changed whole."""

    readers: list[Access] = field(default_factory=lambda: list[Access]())
    writers: list[Access] = field(default_factory=lambda: list[Access]())


class Orders:
    """Adds edges to a draft. An op first follows what came before, and is then kept for what comes after."""

    def __init__(self, draft: Draft, meets: Meets):
        self._draft, self._meets = draft, meets
        self._blocks: dict[NodeId, _Since] = {}

    def _of(self, block: NodeId) -> _Since:
        return self._blocks.setdefault(block, _Since())

    def follow(self, op: NodeId, block: NodeId, layout: Layout, *, write: bool) -> None:
        """Edges to an access from all earlier ones of its block that it meets."""
        state = self._of(block)
        for writer, region in state.writers:
            self._edge(writer, op, "WAW" if write else "RAW", layout, region)
        for reader, region in state.readers if write else ():
            self._edge(reader, op, "WAR", layout, region)

    def read(self, op: NodeId, block: NodeId, layout: Layout) -> None:
        self._of(block).readers.append((op, layout))

    def made(self, op: NodeId, block: NodeId, layout: Layout) -> None:
        """The op is what the block's contents are from."""
        self._of(block).writers.append((op, layout))

    def wrote(self, op: NodeId, block: NodeId, region: Layout) -> None:
        """Later accesses order themselves after this write; what it covers whole is behind it."""
        state = self._of(block)
        state.readers = [(o, r) for o, r in state.readers if not r.is_same_map(region)]
        state.writers = [(o, r) for o, r in state.writers if not r.is_same_map(region)] + [(op, region)]

    def _edge(self, first: NodeId, then: NodeId, kind: str, layout: Layout, region: Layout) -> None:
        if first != then and self._meets(layout, region) is not False:
            self._draft.order(first, then, Ordering((kind,), shared_elements(layout, region)))
