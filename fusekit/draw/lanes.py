"""The view "memory": one lane a block, program order from left to right, the touched part of a block as height.

Everything has its place by arithmetic, so no layout engine is asked.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2

from fusekit.draw.dot import wrap
from fusekit.draw.looks import LIGHT, NAME, SMALL, TINY, TITLE, shorten, text_width
from fusekit.draw.notes import Notes, op_facts
from fusekit.draw.races import Row, badge, measure, record, rows_of
from fusekit.draw.segments import Kernels, segment_tip, tab_of
from fusekit.draw.svg import box, canvas, element, number, seal, words
from fusekit.draw.touches import Column, Lane, Touch, columns_of, flows_of, lanes_of, orders_of
from fusekit.draw.words import bytes_text, letter_of, plural
from fusekit.escape import clean, prose
from fusekit.ids import NodeId
from fusekit.ir import Block, Graph

MARGIN, TOP, HEAD, LEFT, GAP = 16.0, 74.0, 34.0, 210.0, 22.0
BOX, COLUMN, NOTE_WIDTH = 40.0, 84.0, 60
NOTE = (
    "program order from left to right; height: which bytes of the block (not to scale); "
    "R reads, W writes; dashed: some of these bytes"
)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where columns and rows of lanes are."""

    x: dict[int, tuple[float, float]]  # column -> left, width
    y: dict[NodeId, list[float]]  # block -> top of each part, and the bottom
    width: float
    height: float


def lanes_svg(graph: Graph, notes: Notes, kernels: Kernels, title: str, note: str) -> tuple[str, str]:
    """(the finished SVG, its description)."""
    columns = columns_of(graph, notes)
    lanes, hidden = lanes_of(graph, columns)
    frame = _measure(graph, columns, lanes, kernels)
    said = (
        note
        or notes.summary(graph)
        or NOTE + (f"; {plural(hidden, 'block')} of fewer accesses not drawn" if hidden else "")
    )
    rows = wrap(said, max(NOTE_WIDTH, int((frame.width - 2 * MARGIN) / (0.58 * SMALL))))[:2]
    width = max(
        frame.width,
        *(text_width(row, SMALL) + 2 * MARGIN for row in rows),
        text_width(shorten(title, 90), TITLE, bold=True) + 2 * MARGIN,
    )
    races, more = rows_of(graph, kernels)
    wide, high = measure(races, more)
    width = max(width, wide + 2 * MARGIN)
    root = canvas(width, frame.height + high)
    root.append(words(MARGIN, 26, shorten(title, 90), TITLE, bold=True))
    root.extend(words(MARGIN, 41 + 12 * k, row, SMALL, "muted") for k, row in enumerate(rows))
    root.extend(_bands(graph, notes, kernels, columns, frame))
    root.extend(_headers(graph, notes, columns, frame))
    for lane in lanes:
        root.extend(_lane(graph, lane, frame))
    boxes = {(t.column, lane.block): _rect(t, lane, frame) for lane in lanes for t in lane.touches}
    root.extend(_flows(graph, columns, lanes, boxes))
    chips, arrows = _orders(graph, notes, columns, lanes, boxes, _numbers(columns, races))
    root.extend(arrows)
    for lane in lanes:
        root.extend(_box(graph, notes, columns, lane, touch, boxes[touch.column, lane.block]) for touch in lane.touches)
    root.extend(chips)
    root.extend(record(races, more, MARGIN, frame.height))
    told = [_sentence(graph, columns, lane) for lane in lanes] + [f"{r.text}: {r.said}." for r in races]
    desc = f"{title}. {said}. " + " ".join(told)
    return seal(root, title, desc, "fusekit"), desc


def _sentence(graph: Graph, columns: list[Column], lane: Lane) -> str:
    touched = ", ".join(f"{columns[t.column].label} {t.mode}" for t in lane.touches)
    return f"Block {letter_of(graph, lane.block)}, {bytes_text(graph.block(lane.block).nbytes)}: {touched}."


# ---- measures -----------------------------------------------------------------------------------------------------


def _measure(graph: Graph, columns: list[Column], lanes: list[Lane], kernels: Kernels) -> _Frame:
    widths = [max(COLUMN, text_width(shorten(c.label, 16), SMALL, mono=True) + 14) for c in columns]
    for segment, members in _segment_columns(columns):
        tab = tab_of(graph, segment, kernels)
        wanted = text_width(f"{tab.id}   {tab.scheduler}   {tab.launches}", NAME, bold=True) + 16
        short = wanted - sum(widths[k] for k in members)
        for k in members if short > 0 else ():
            widths[k] += short / len(members)
    x, at = {}, LEFT
    for k, width in enumerate(widths):
        x[k] = at, width
        at += width
    y, down = {}, TOP + HEAD + 14
    for lane in lanes:
        y[lane.block] = [down]
        for low, high in lane.parts:
            down += 26 + min(3.0 * log2(max((high - low) / 4, 1)), 34) if len(lane.parts) > 1 else 36
            y[lane.block].append(down)
        down += GAP
    return _Frame(x, y, at + MARGIN, down + 4)


def _segment_columns(columns: list[Column]) -> Iterator[tuple[NodeId, list[int]]]:
    segments = dict.fromkeys(c.segment for c in columns if c.segment)
    for segment in segments:
        yield segment, [k for k, c in enumerate(columns) if c.segment == segment]


def _rect(touch: Touch, lane: Lane, frame: _Frame) -> tuple[float, float, float, float]:
    left, width = frame.x[touch.column]
    tops = frame.y[lane.block]
    y0, y1 = tops[touch.first] + 3, tops[touch.last + 1] - 3
    return left + (width - BOX) / 2, y0, BOX, y1 - y0


# ---- pieces -------------------------------------------------------------------------------------------------------


def _bands(graph: Graph, notes: Notes, kernels: Kernels, columns: list[Column], frame: _Frame) -> Iterator[ET.Element]:
    for parity, (segment, members) in enumerate(_segment_columns(columns)):
        left = frame.x[members[0]][0] + 2
        right = sum(frame.x[members[-1]]) - 2
        tab = tab_of(graph, segment, kernels)
        group = element(
            "g", id=clean(segment), class_="fk-segment", data_op=clean(segment), data_segment=clean(segment)
        )
        group.append(element("title", prose(segment_tip(graph, notes, segment))))
        empty = tab.launches == "no kernel"
        fill, dash = ("paper", "5 3") if empty else (f"tone{parity % 2}", "none")
        group.append(box(left, TOP - 8, right - left, frame.height - TOP, 6, fill, "hair", dash=dash))
        group.append(words(left + 8, TOP + 8, tab.id, NAME, bold=True))
        after = left + 8 + text_width(tab.id + "  ", NAME, bold=True)
        group.append(words(after, TOP + 8, f"{tab.scheduler}   {tab.launches}", SMALL, "muted"))
        yield group


def _headers(graph: Graph, notes: Notes, columns: list[Column], frame: _Frame) -> Iterator[ET.Element]:
    for k, column in enumerate(columns):
        left, width = frame.x[k]
        group = element("g", id=f"{clean(column.node)}/head", class_="fk-op", data_op=clean(column.node))
        group.append(element("title", prose(notes.tip(*_facts(graph, column), about=column.ops))))
        color = {"added": "added", "changed": "changed"}.get(notes.mark(column.node), "ink")
        if column.node != column.segment:  # a whole segment: its band says so
            group.append(
                words(left + width / 2, TOP + 28, shorten(column.label, 16), SMALL, color, mono=True, anchor="middle")
            )
        if column.line:
            group.append(words(left + width / 2, TOP + 40, column.line, TINY, "muted", anchor="middle"))
        yield group


def _facts(graph: Graph, column: Column) -> tuple[str, ...]:
    return op_facts(graph, column.ops[0]) if len(column.ops) == 1 else (f"{plural(len(column.ops), 'op')}",)


def _lane(graph: Graph, lane: Lane, frame: _Frame) -> Iterator[ET.Element]:
    tops, block = frame.y[lane.block], graph.block(lane.block)
    right = frame.width - MARGIN
    group = element("g", id=clean(lane.block), class_="fk-lane", data_op=clean(lane.block))
    group.append(element("title", prose(f"{lane.block} {block.kind}, {block.nbytes:,} bytes on {block.device}")))
    group.append(box(LEFT - 6, tops[0], right - LEFT + 8, tops[-1] - tops[0], 5, "none", "memory"))
    group.extend(_badge(letter_of(graph, lane.block), block, tops[0]))
    for k, name in enumerate(lane.names):
        middle = (tops[k] + tops[k + 1]) / 2 + 3
        group.append(words(LEFT - 12, middle, shorten(name, 20), TINY, "memory", anchor="end"))
        if k:
            group.append(element("line", x1=LEFT - 6, x2=right + 2, y1=tops[k], y2=tops[k], stroke=LIGHT["hair"]))
    yield group


def _badge(letter: str, block: Block, top: float) -> Iterator[ET.Element]:
    """The letter of a block, as on its pills, with what it is."""
    width = max(18.0, 10 + 7.0 * len(letter))
    yield box(MARGIN, top, width, 18, 9, "paper", "memory", wide=1.2)
    yield words(MARGIN + width / 2, top + 12.5, letter, TINY, "memory", bold=True, anchor="middle")
    yield words(MARGIN + width + 6, top + 10, block.kind, SMALL)
    yield words(MARGIN + width + 6, top + 24, bytes_text(block.nbytes), TINY, "muted")


def _box(
    graph: Graph, notes: Notes, columns: list[Column], lane: Lane, touch: Touch, rect: tuple[float, float, float, float]
) -> ET.Element:
    column = columns[touch.column]
    group = element("g", id=f"{clean(column.node)}/{clean(lane.block)}", class_="fk-access", data_op=clean(column.node))
    names = ", ".join(dict.fromkeys(graph.tensor(t).name or t[1:] for t in touch.tensors))
    verb = {"R": "reads", "W": "writes", "RW": "reads and writes"}[touch.mode]
    low, high = touch.extent
    fact = f"{verb} {names}: bytes {low:,} to {high - 1:,}{'' if touch.dense else ', not all of them'}"
    group.append(element("title", prose(notes.tip(fact, *_facts(graph, column), about=column.ops))))
    x, y, w, h = rect
    fill = {"R": "paper", "W": "memory", "RW": "memory_tint"}[touch.mode]
    stroke = "added" if notes.mark(column.node) == "added" else "memory"
    wide, dash = (2.0 if touch.mode == "RW" else 1.0), ("none" if touch.dense else "3 2")
    group.append(box(x, y, w, h, 5, fill, stroke, wide=wide, dash=dash))
    color = "paper" if touch.mode == "W" else "memory"
    group.append(words(x + w / 2, y + h / 2 + 3, touch.mode, TINY, color, bold=True, anchor="middle"))
    return group


Rect = tuple[float, float, float, float]
Rects = dict[tuple[int, NodeId], Rect]


def _flows(graph: Graph, columns: list[Column], lanes: list[Lane], boxes: Rects) -> Iterator[ET.Element]:
    """Data written by an op and read by another under the same name: thin and grey, since nothing is at risk."""
    for first, then, block in flows_of(graph, columns, lanes):
        yield _line(boxes[first, block], boxes[then, block], "line", 1.0, columns[first].node, columns[then].node)


Numbers = dict[tuple[int, int, NodeId], list[Row]]
"""(column of a load, of a store, block) -> rows of the race record about them."""


def _numbers(columns: list[Column], races: list[Row]) -> Numbers:
    found: Numbers = {}
    for row in races:
        column = {op: k for k, c in enumerate(columns) if c.segment in (None, row.segment) for op in c.ops}
        for block, load, store in row.pairs:
            if load in column and store in column:
                rows = found.setdefault((column[load], column[store], block), [])
                if row not in rows:
                    rows.append(row)
    return found


def _orders(
    graph: Graph, notes: Notes, columns: list[Column], lanes: list[Lane], boxes: Rects, numbers: Numbers
) -> tuple[list[ET.Element], list[ET.Element]]:
    """(chips with the letters, arrows) of the orderings that do not follow from others; at the arrow from a load to a
    store of one launch the numbers of their rows in the race record, or else at the store's corner."""
    chips, arrows, taken = [], [], list(boxes.values())
    left = dict(numbers)
    for first, then, block, ordering, ops in orders_of(graph, columns, lanes):
        a, b = boxes[first, block], boxes[then, block]
        rows = left.pop((first, then, block), [])
        between = [r for (k, home), r in boxes.items() if home == block and first < k < then]
        arrow = _line(a, b, "hazard", 1.5, columns[first].node, columns[then].node, between)
        kinds = " ".join(ordering.kinds)
        said = "\n".join((f"{kinds}{f' on {ordering.where}' if ordering.where else ''}", *notes.reasons(*ops)))
        arrow.insert(0, element("title", prose(said)))
        arrows.append(arrow)
        width = text_width(kinds, TINY, bold=True) + 8
        room = width + 15 * len(rows)
        spot = _free_spot(a, b, room, taken, between)
        if spot is None and rows:  # the numbers go to the store's corner
            left[first, then, block], rows, room = rows, [], width
            spot = _free_spot(a, b, room, taken, between)
        if spot:
            taken.append((*spot, room, 13.0))
            chips += [e for k, row in enumerate(rows) for e in badge(spot[0] + width + 9 + 15 * k, spot[1] + 6.5, row)]
            group = element(
                "g",
                id=f"{clean(ops[0])}=>{clean(ops[1])}",
                class_="fk-hazard",
                data_op=f"{clean(ops[0])}=>{clean(ops[1])}",
            )
            group.append(element("title", prose(said)))
            group.append(box(*spot, width, 13, 6.5, "hazard_tint", "hazard"))
            group.append(words(spot[0] + width / 2, spot[1] + 9.5, kinds, TINY, "hazard", bold=True, anchor="middle"))
            chips.append(group)
    corners: dict[tuple[int, NodeId], int] = {}
    for (_, then, block), rows in left.items():
        if (then, block) not in boxes:
            continue
        x, y, w, _ = boxes[then, block]
        for row in rows:
            place = corners[then, block] = corners.get((then, block), -1) + 1
            chips += badge(x + w - 1 - 15 * place, y + 2, row)
    return chips, arrows


def _ends(a: Rect, b: Rect, between: Sequence[Rect] = ()) -> tuple[float, float, float, float]:
    """From the side of one box to that of the other: level where that passes no box between them, else straight."""
    y0, y1 = a[1] + a[3] / 2, b[1] + b[3] / 2
    if any(_crosses((a[0] + a[2], y0, b[0], y1), box) for box in between):
        low, high = max(a[1], b[1]) + 6, min(a[1] + a[3], b[1] + b[3]) - 6
        edges = [y for box in between for y in (box[1] - 6, box[1] + box[3] + 6)]
        levels = [
            y
            for y in (low, high, *edges)
            if low <= y <= high and not any(v - 5 < y < v + h + 5 for _, v, _, h in between)
        ]
        if levels:
            y0 = y1 = min(levels, key=lambda y: abs(y - (y0 + y1) / 2))
    return a[0] + a[2], y0, b[0], y1


def _crosses(line: tuple[float, float, float, float], box: Rect) -> bool:
    x0, y0, x1, y1 = line
    sides = [y0 + (x - x0) / max(x1 - x0, 1e-6) * (y1 - y0) for x in (box[0], box[0] + box[2])]
    return min(sides) < box[1] + box[3] + 2 and max(sides) > box[1] - 2


def _free_spot(a: Rect, b: Rect, width: float, taken: list[Rect], between: list[Rect]) -> tuple[float, float] | None:
    """A place for a chip on the arrow where it covers nothing; None: its words are in the tooltip only."""
    x0, y0, x1, y1 = _ends(a, b, between)
    for t in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8):
        x, y = x0 + t * (x1 - x0) - width / 2, y0 + t * (y1 - y0) - 6.5
        if all(x + width < u - 1 or u + w < x - 1 or y + 13 < v or v + h < y for u, v, w, h in taken):
            return x, y
    return None


def _line(a: Rect, b: Rect, color: str, width: float, tail: str, head: str, between: Sequence[Rect] = ()) -> ET.Element:
    x0, y0, x1, y1 = _ends(a, b, between)
    length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-6)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    group = element(
        "g", class_=f"edge fk-{'order' if color == 'hazard' else 'data'}", data_from=clean(tail), data_to=clean(head)
    )
    path = f"M{number(x0)},{number(y0)}L{number(x1 - 5 * ux)},{number(y1 - 5 * uy)}"
    group.append(element("path", d=path, fill="none", stroke=LIGHT[color], stroke_width=width))
    points = ((x1, y1), (x1 - 7 * ux + 3 * uy, y1 - 7 * uy - 3 * ux), (x1 - 7 * ux - 3 * uy, y1 - 7 * uy + 3 * ux))
    group.append(element("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), fill=LIGHT[color]))
    return group
