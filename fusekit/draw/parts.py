"""What a picture is made of, as data. Views build these; ``dot`` and ``plain`` draw them and decide nothing else.

``key`` is unique in a picture; ``node`` is the graph's node that the part stands for (one node may appear twice, such
as an argument that is read and later written back). ``mark`` is "", "added", "removed" or "changed".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Card:
    """An op. ``kind``: pointwise, reduction, view, in-place, library, constant. ``was``: its detail before a change."""

    key: str
    node: str
    name: str
    kind: str
    detail: str = ""
    line: str = ""
    mark: str = ""
    was: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Pill:
    """A tensor. Filled: it owns its block; hollow: a view. ``crosses``: the edge of the function goes through it."""

    key: str
    node: str
    name: str
    type: str = ""
    block: str = ""
    view: bool = False
    crosses: bool = False
    remark: str = ""
    mark: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Hazard:
    """An order that must hold, as a node on its arrow. ``kinds``: RAW, WAR, WAW; not ``held``: nothing protects it."""

    key: str
    node: str
    kinds: str
    where: str = ""
    held: bool = True
    mark: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Cut:
    """Why two segments are two: a double bar on the edge between them, with its reason."""

    key: str
    node: str
    reason: str
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """Facts beside the drawing: a title, then rows of (what, about it)."""

    key: str
    node: str
    title: str
    rows: tuple[tuple[str, str], ...]
    accent: str = "hazard"
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Tab:
    """What stands on a segment: its id, scheduler, launches and bytes; the same at every zoom."""

    id: str
    scheduler: str = ""
    launches: str = ""
    traffic: str = ""


@dataclass(frozen=True, slots=True)
class Chip:
    """An op at far zoom: its icon and name inside a tile."""

    node: str
    kind: str
    name: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Tile:
    """A segment, or a run of ops, at far zoom: one node, its ops as chips in program order."""

    key: str
    node: str
    tab: Tab
    chips: tuple[Chip, ...]
    launches: bool = True
    parity: int = 0
    mark: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """A box around parts. ``kind``: segment, empty (a segment that launches nothing), capsule, maybe (a capsule whose
    relation is not known), phase (a part of a segment that runs apart from its loop)."""

    key: str
    node: str
    kind: str
    tab: Tab
    parts: tuple[Part | Frame, ...]
    parity: int = 0
    mark: str = ""
    badge: str = ""
    tip: str = ""


Part = Card | Pill | Hazard | Cut | Record | Tile


@dataclass(frozen=True, slots=True)
class Edge:
    """From key to key; ``look`` names a row of ``looks.EDGES``. ``headless``: the arrow goes on behind its head."""

    tail: str
    head: str
    look: str = "data"
    headless: bool = False
    weight: int = 1  # how much the layout pulls its ends into one line
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything drawn, in a fixed order; ``desc`` is what a reader who cannot see it is told."""

    title: str
    note: str
    parts: tuple[Part | Frame, ...]
    edges: tuple[Edge, ...]
    desc: str = ""
    rows: tuple[tuple[str, ...], ...] = ()  # keys that stand side by side

    def walk(self) -> Iterator[Part | Frame]:
        """Frames before what is in them."""
        yield from _walk(self.parts)


def _walk(parts: tuple[Part | Frame, ...]) -> Iterator[Part | Frame]:
    for part in parts:
        yield part
        if isinstance(part, Frame):
            yield from _walk(part.parts)
