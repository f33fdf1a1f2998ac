"""Race records under the lanes: each load that may meet a store of its kernel, when they meet, and what protects it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusekit.draw.looks import SMALL, TINY, shorten, text_width
from fusekit.draw.svg import box, element, words
from fusekit.draw.words import plural, segment_text
from fusekit.escape import clean, prose
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.lower.record import access_text
from fusekit.memory import Verdict
from fusekit.memory.access import NONE_NEEDED, SNAPSHOT

if TYPE_CHECKING:
    from fusekit.draw.segments import Kernels
    from fusekit.memory import Race

MOST, LINE, HEAD = 12, 17.0, 24.0
SHARE = "load {load}  ×  store {store}"
Pair = tuple[NodeId, NodeId, NodeId]
"""(block, load, store)"""


@dataclass(frozen=True, slots=True)
class Row:
    """``token``: the colour of what is said: green where nothing had to be done, blue for a remedy inside the launch,
    vermilion for one that is a launch more."""

    number: int
    segment: NodeId
    text: str
    said: str
    token: str
    pairs: tuple[Pair, ...]
    tip: str


def rows_of(graph: Graph, kernels: Kernels) -> tuple[list[Row], int]:
    """(rows, pairs that are left out). Pairs that read alike are one row; those that never meet come last."""
    found: dict[tuple[NodeId, str, str], list[Race]] = {}
    for segment, kernel in kernels.items():
        for race in kernel.races if segment in graph else ():
            text = SHARE.format(load=access_text(graph, race.load), store=access_text(graph, race.store))
            found.setdefault((segment, text, _said(race)), []).append(race)
    ordered = sorted(found.items(), key=lambda item: item[1][0].verdict is Verdict.NEVER)
    rows = [
        Row(k + 1, segment, text, said, _token(races[0]), tuple(_pairs(races)), _tip(races[0]))
        for k, ((segment, text, said), races) in enumerate(ordered[:MOST])
    ]
    return rows, sum(len(races) for _, races in ordered[MOST:])


def _said(race: Race) -> str:
    remedy = "" if race.remedy in ("", NONE_NEEDED) else f": {race.remedy}"
    return f"{race.verdict.value}{remedy}"


def _token(race: Race) -> str:
    if race.remedy in ("", NONE_NEEDED):
        return "added"
    return "hazard" if race.remedy == SNAPSHOT else "memory"


def _pairs(races: list[Race]) -> Iterator[Pair]:
    for race in races:
        for load in race.load.ops:
            for store in race.store.ops:
                yield NodeId(str(race.load.block)), load, store


def _tip(race: Race) -> str:
    return "\n".join(f"not {one.remedy}: {one.why}" for one in race.considered)


# ---- drawing --------------------------------------------------------------------------------------------------------


def measure(rows: list[Row], left_out: int) -> tuple[float, float]:
    """Width and height of the record."""
    if not rows:
        return 0.0, 0.0
    texts, said = (max(text_width(t, SMALL, mono=mono) for t in column) for column, mono in _columns(rows))
    return 52 + texts + 18 + said, HEAD + LINE * (len(rows) + bool(left_out)) + 8


def _columns(rows: list[Row]) -> tuple[tuple[list[str], bool], tuple[list[str], bool]]:
    return ([shorten(row.text, 90) for row in rows], True), ([row.said for row in rows], False)


def record(rows: list[Row], left_out: int, x: float, y: float) -> Iterator[ET.Element]:
    """The record with its top left corner at (x, y)."""
    if not rows:
        return
    yield words(x, y + 12, "Race record", SMALL, bold=True)
    yield words(
        x + text_width("Race record  ", SMALL, bold=True),
        y + 12,
        "loads that may meet a store of the same launch",
        TINY,
        "muted",
    )
    start = x + 52 + max(text_width(text, SMALL, mono=True) for text in _columns(rows)[0][0]) + 18
    for k, row in enumerate(rows):
        middle = y + HEAD + LINE * k + 6
        group = element("g", id=f"{clean(row.segment)}/race{row.number}", class_="fk-race", data_op=clean(row.segment))
        group.append(element("title", prose(f"{row.text}\n{row.said}\n{row.tip}".strip())))
        group.extend(badge(x + 8, middle, row))
        group.append(words(x + 24, middle + 3.5, segment_text(row.segment), SMALL, "muted"))
        group.append(words(x + 52, middle + 3.5, shorten(row.text, 90), SMALL, mono=True))
        group.append(words(start, middle + 3.5, row.said, SMALL, row.token))
        yield group
    if left_out:
        last = y + HEAD + LINE * len(rows) + 9.5
        yield words(x + 52, last, f"and {plural(left_out, 'pair')} more", SMALL, "muted")


def badge(x: float, y: float, row: Row) -> Iterator[ET.Element]:
    """The number of a row in a circle around (x, y)."""
    yield box(x - 7, y - 7, 14, 14, 7, "paper", row.token, wide=1.2)
    yield words(x, y + 3, str(row.number), TINY, row.token, bold=True, anchor="middle")
