"""A picture without any layout engine: parts in layers, arrows beside them, in pure Python. Plain, and never wrong."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fusekit.draw.beside import Point, Rect, route, rows_of
from fusekit.draw.looks import CARD_RADIUS, LIGHT, NAME, SMALL, TINY, TITLE, shorten, text_width
from fusekit.draw.parts import Card, Cut, Edge, Frame, Hazard, Part, Picture, Pill, Record, Tile
from fusekit.draw.svg import canvas, element, seal, words
from fusekit.escape import clean, prose

GAP_X, GAP_Y, PAD, MARGIN, HEAD = 26.0, 30.0, 8.0, 16.0, 52.0
LINE = 14.0


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    size: float
    color: str = "ink"
    mono: bool = False
    bold: bool = False

    @property
    def width(self) -> float:
        return text_width(self.text, self.size, mono=self.mono, bold=self.bold)


@dataclass(slots=True)
class _Box:
    part: Part
    lines: list[_Line]
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0

    @property
    def rect(self) -> Rect:
        return Rect(self.x, self.y, self.width, self.height)


def plain_svg(picture: Picture) -> str:
    """The same parts and arrows as ``dot`` would draw; what is in a segment says so in its box."""
    boxes = {part.key: _box(part, home) for part, home in _placed(picture.parts)}
    edges = [e for e in picture.edges if e.tail in boxes and e.head in boxes and e.look not in ("spine", "maybe")]
    layers = _layers(list(boxes), edges)
    _place(boxes, _sorted(layers, edges))
    title, note = shorten(picture.title, 90), shorten(picture.note, 150)
    head = max(text_width(title, TITLE, bold=True), text_width(note, SMALL))
    width = max([head, *(b.x + b.width for b in boxes.values())]) + 2 * MARGIN
    height = max([HEAD, *(b.y + b.height for b in boxes.values())]) + MARGIN
    root = canvas(width, height)
    root.append(words(MARGIN, 26, title, TITLE, bold=True))
    root.append(words(MARGIN, 41, note, SMALL, "muted"))
    rows = rows_of(box.rect for box in boxes.values())
    for edge in picture.edges:
        if edge.look != "hidden" and edge.tail in boxes and edge.head in boxes:
            root.append(_arrow(edge, route(boxes[edge.tail].rect, boxes[edge.head].rect, rows)))
    for box in boxes.values():
        root.append(_draw(box))
    return seal(root, picture.title, picture.desc or picture.note, "plain")


def _placed(parts: tuple[Part | Frame, ...], home: str = "") -> Iterator[tuple[Part, str]]:
    for part in parts:
        if isinstance(part, Frame):
            inner = "  ".join(w for w in (part.badge, part.tab.id, part.tab.scheduler) if w)
            yield from _placed(part.parts, " / ".join(w for w in (home, inner) if w))
        else:
            yield part, home


# ---- boxes --------------------------------------------------------------------------------------------------------


def _box(part: Part, home: str) -> _Box:
    lines = [line for line in _lines(part) if line.text]
    if home:
        lines.append(_Line(f"in {shorten(home)}", TINY, "muted"))
    return _Box(part, lines, max(line.width for line in lines) + 2 * PAD, len(lines) * LINE + PAD)


def _lines(part: Part) -> list[_Line]:
    mark = {"added": "+ ", "removed": "× ", "changed": "Δ "}.get(getattr(part, "mark", ""), "")
    match part:
        case Card():
            first = _Line(f"{mark}{shorten(part.name)}  {part.line}".rstrip(), NAME, bold=True)
            was = [_Line(f"was {shorten(part.was)}", SMALL, "muted", mono=True)] if part.was else []
            return [first, *was, *(_Line(shorten(d), SMALL, "muted", mono=True) for d in part.detail.split("\n"))]
        case Pill():
            name = f"{mark}{part.block}  {shorten(part.name)}".strip()
            return [
                _Line(name, NAME, bold=True),
                _Line(f"{shorten(part.type)} {part.remark}".strip(), SMALL, "muted", mono=True),
            ]
        case Hazard():
            return [
                _Line(f"{mark}{part.kinds}{'' if part.held else ' ?'}", SMALL, "hazard", bold=True),
                _Line(shorten(part.where), SMALL, "muted"),
            ]
        case Cut():
            return [_Line("═  " + shorten(part.reason, 70), SMALL)]
        case Record():
            rows = [_Line(f"{shorten(a, 60)}    {shorten(b, 60)}", SMALL, mono=True) for a, b in part.rows]
            return [_Line(part.title, SMALL, part.accent, bold=True), *rows]
        case Tile():
            tab = "   ".join(w for w in (part.tab.id, part.tab.scheduler, part.tab.launches, part.tab.traffic) if w)
            names = [chip.name for chip in part.chips]
            rows = [", ".join(shorten(n, 16) for n in names[k : k + 6]) for k in range(0, len(names), 6)]
            return [_Line(mark + shorten(tab, 80), NAME, bold=True), *(_Line(row, SMALL, "muted") for row in rows)]


def _draw(box: _Box) -> ET.Element:
    part = box.part
    group = element("g", id=clean(part.key), class_=f"node fk-{type(part).__name__.lower()}", data_op=clean(part.node))
    if part.tip:
        group.append(element("title", prose(part.tip)))
    kind, mark = getattr(part, "kind", ""), getattr(part, "mark", "")
    color = {"added": "added", "changed": "changed"}.get(mark) or {
        Hazard: "hazard",
        Record: "hazard",
        Pill: "memory",
    }.get(type(part), "line")
    dashed = kind in ("view", "constant") or mark == "removed"
    fill = {Hazard: "hazard_tint", Pill: "memory_tint", Cut: "paper"}.get(type(part), "card")
    group.append(element(
        "rect", x=box.x, y=box.y, width=box.width, height=box.height, fill=LIGHT[fill], stroke=LIGHT[color],
        rx=float(CARD_RADIUS if not isinstance(part, Pill | Hazard) else min(box.height / 2, 11)),
        stroke_width=2.0 if mark == "added" else 1.0, stroke_dasharray="5 3" if dashed else "none",
    ))  # fmt: skip
    for k, line in enumerate(box.lines):
        group.append(
            words(box.x + PAD, box.y + 15 + k * LINE, line.text, line.size, line.color, mono=line.mono, bold=line.bold)
        )
    if kind == "in-place":
        group.append(
            element(
                "rect", x=box.x + 4, y=box.y + box.height - 4, width=box.width - 8, height=2.5, fill=LIGHT["memory"]
            )
        )
    return group


def _arrow(edge: Edge, points: Sequence[Point]) -> ET.Element:
    color = LIGHT[
        {
            "order": "hazard",
            "race": "hazard",
            "new": "added",
            "spine": "memory",
            "maybe": "memory",
            "memory": "memory",
        }.get(edge.look, "line")
    ]
    group = element(
        "g",
        id=f"{clean(edge.tail)}->{clean(edge.head)}",
        class_=f"edge fk-{edge.look}",
        data_from=clean(edge.tail),
        data_to=clean(edge.head),
    )
    if edge.tip:
        group.append(element("title", prose(edge.tip)))
    dash = {"stroke_dasharray": "5 3"} if edge.look in ("ghost", "race", "maybe", "memory") else {}
    corners = _points(points)
    group.append(element("polyline", points=corners, fill="none", stroke=color, stroke_width=1.2, **dash))
    if not edge.headless and edge.look not in ("spine", "maybe"):
        group.append(element("polygon", points=_points(_tip(points[-2], points[-1])), fill=color))
    return group


def _tip(before: Point, end: Point) -> tuple[Point, Point, Point]:
    """The head of an arrow that arrives from ``before``."""
    (x0, y0), (x1, y1) = before, end
    length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-6)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    left, right = (x1 - 6 * ux + 2.5 * uy, y1 - 6 * uy - 2.5 * ux), (x1 - 6 * ux - 2.5 * uy, y1 - 6 * uy + 2.5 * ux)
    return end, left, right


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


# ---- layers -------------------------------------------------------------------------------------------------------


def _layers(keys: list[str], edges: list[Edge]) -> list[list[str]]:
    """Each part one layer below the lowest of what it follows; an arrow that would close a circle does not count."""
    below: dict[str, list[str]] = {key: [] for key in keys}
    waits = dict.fromkeys(keys, 0)
    for edge in edges:
        below[edge.tail].append(edge.head)
        waits[edge.head] += 1
    rank, left = dict.fromkeys(keys, 0), dict.fromkeys(keys)
    while left:
        ready = next((key for key in left if not waits[key]), None) or next(iter(left))
        del left[ready]
        for head in below[ready]:
            waits[head] -= 1
            if head in left:
                rank[head] = max(rank[head], rank[ready] + 1)
    layers: list[list[str]] = [[] for _ in range(max(rank.values(), default=-1) + 1)]
    for key in keys:
        layers[rank[key]].append(key)
    return [layer for layer in layers if layer]


def _sorted(layers: list[list[str]], edges: list[Edge]) -> list[list[str]]:
    """Within a layer, by the mean place of what is above."""
    above: dict[str, list[str]] = {}
    for edge in edges:
        above.setdefault(edge.head, []).append(edge.tail)
    place: dict[str, float] = {}
    out = []
    for layer in layers:
        means = {key: [place[t] for t in above.get(key, ()) if t in place] for key in layer}
        order = sorted(layer, key=lambda k: (sum(means[k]) / len(means[k]) if means[k] else 0.5, layer.index(k)))
        place |= {key: (n + 0.5) / len(order) for n, key in enumerate(order)}
        out.append(order)
    return out


def _place(boxes: dict[str, _Box], layers: list[list[str]]) -> None:
    totals = [sum(boxes[k].width for k in layer) + GAP_X * (len(layer) - 1) for layer in layers]
    widest, y = max(totals, default=0.0), HEAD
    for layer, total in zip(layers, totals, strict=True):
        x = MARGIN + (widest - total) / 2
        for key in layer:
            boxes[key].x, boxes[key].y = x, y
            x += boxes[key].width + GAP_X
        y += max(boxes[k].height for k in layer) + GAP_Y
