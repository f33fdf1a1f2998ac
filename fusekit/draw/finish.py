"""The SVG that Graphviz gives -> the SVG that a reader gets.

Round corners, icons, badges, brackets, segment bars; edges behind tabs; ids and ``data-op`` of the graph's nodes;
tooltips; text that can be selected; a dark palette. Idempotent it is not: it takes raw Graphviz only.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable

from fusekit.draw.looks import (
    BADGE_HOLD,
    BOLD,
    CAPSULE_RADIUS,
    CARD_RADIUS,
    FRAME_RADIUS,
    ICONS,
    LIGHT,
    MONO,
    MONO_STACK,
    text_width,
)
from fusekit.draw.parts import Frame, Picture, Tile
from fusekit.draw.svg import SVG, G, element, icon, number, seal
from fusekit.draw.zigzag import zigzag
from fusekit.escape import clean, dot_name, prose, unlabel

C = LIGHT
_ICONS = {icon.hold: name for name, icon in ICONS.items()}


def finish(svg: str, picture: Picture, engine: str) -> str:
    """The finished SVG; ``engine`` drew the raw one."""
    root = ET.fromstring(svg)
    top = root.find(G)
    assert top is not None, "Graphviz draws one graph"
    groups = list(top.findall(G))
    for group in (top, *groups):
        _finish_group(group)
    _name_parts(groups, picture)
    _name_edges(groups, picture)
    _lift_tabs(top)
    return seal(root, picture.title, picture.desc or picture.note, engine)


# ---- shapes -------------------------------------------------------------------------------------------------------


def _finish_group(group: ET.Element) -> None:
    cls = (group.get("class") or "").split()
    for title in group.findall(f"{{{SVG}}}title"):
        group.remove(title)
    for place, child in enumerate(list(group)):
        tag = child.tag.rpartition("}")[2]
        if tag == "text":
            _finish_text(child)
        elif tag == "path" and "fk-race" in cls:
            child.set("d", zigzag(child.get("d") or ""))
        elif tag == "polygon":
            _finish_polygon(group, place, child, cls)
    if "fk-removed" in cls:
        group.set("opacity", "0.78")


def _finish_text(text: ET.Element) -> None:
    text.text = unlabel(text.text or "")
    face = text.attrib.pop("font-family", "")
    if face == BOLD:  # measured with the bold face; named by weight, since readers have other families
        text.set("font-weight", "600")
    if face == MONO:
        text.set("font-family", MONO_STACK)


def _finish_polygon(group: ET.Element, place: int, polygon: ET.Element, cls: list[str]) -> None:
    x, y, w, h = _box(polygon.get("points") or "")
    fill = polygon.get("fill") or ""
    if fill in _ICONS:
        _swap(group, polygon, icon(_ICONS[fill], x + w / 2 - 5, y + h / 2 - 5))
    elif fill == BADGE_HOLD:
        _swap(group, polygon, element(
            "rect", x=x, y=y, width=w, height=h, rx=h / 2, fill=C["paper"], stroke=C["memory"], stroke_width=1.2,
            class_="fk-badge",
        ))  # fmt: skip
    elif place and cls[:1] == ["node"] and "fk-tile" not in cls:
        _swap(group, polygon, element("rect", x=x, y=y, width=w, height=h, rx=1, fill=fill))
    elif place == 0 and cls[:1] in (["node"], ["cluster"]):
        kept = {k: v for k, v in polygon.attrib.items() if k != "points"}
        box = element("rect", x=x, y=y, width=w, height=h, rx=min(_radius(cls), h / 2))
        box.attrib.update(kept)
        _swap(group, polygon, box)
        for extra in _extras(cls, x, y, w, h):
            group.append(extra) if extra.tag.endswith("path") else group.insert(1, extra)


def _radius(cls: list[str]) -> float:
    if "fk-pill" in cls or "fk-hazard" in cls:
        return 99
    if cls[0] == "node":
        return FRAME_RADIUS if "fk-tile" in cls else CARD_RADIUS
    return CAPSULE_RADIUS if "fk-capsule" in cls or "fk-maybe" in cls else FRAME_RADIUS


def _extras(cls: list[str], x: float, y: float, w: float, h: float) -> Iterable[ET.Element]:
    """What a part has besides its box: bar of a segment, brackets at the function's edge, inner frames."""
    if "fk-segment" in cls or ("fk-tile" in cls and "fk-empty" not in cls):
        yield element("rect", x=x, y=y + 5, width=3.0, height=h - 10, rx=1.5, fill=C["ink"])
    if "fk-crosses" in cls:
        left, right = (
            f"M{number(x - 2)},{number(y - 3)}h-4v{number(h + 6)}h4",
            f"M{number(x + w + 2)},{number(y - 3)}h4v{number(h + 6)}h-4",
        )
        yield element("path", d=left + right, fill="none", stroke=C["ink"])
    inner = {"x": x + 3, "y": y + 3, "width": w - 6, "height": h - 6, "rx": 3, "fill": "none"}
    if "fk-library" in cls:
        yield element("rect", **inner, stroke=C["line"])
    if "fk-changed" in cls and "fk-op" in cls:
        yield element("rect", **inner, stroke=C["changed"], stroke_dasharray="2 2")


def _swap(group: ET.Element, old: ET.Element, new: ET.Element) -> None:
    at = list(group).index(old)
    group.remove(old)
    group.insert(at, new)


def _box(points: str) -> tuple[float, float, float, float]:
    pairs = [tuple(map(float, pair.split(","))) for pair in points.split()]
    xs, ys = [p[0] for p in pairs], [p[1] for p in pairs]
    return min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)


# ---- names --------------------------------------------------------------------------------------------------------


def _name_parts(groups: list[ET.Element], picture: Picture) -> None:
    found = {group.get("id"): group for group in groups}
    for part in picture.walk():
        group = found.get(dot_name(part.key))
        if group is None:
            continue
        group.set("id", clean(part.key))
        group.set("data-op", clean(part.node))
        if isinstance(part, Frame | Tile):
            group.set("data-segment", clean(part.node))
        if part.tip:
            group.insert(0, element("title", prose(part.tip)))
        if isinstance(part, Tile):
            _name_chips(group, part)


def _name_chips(group: ET.Element, tile: Tile) -> None:
    """Each chip a group of its own: Graphviz draws its box (twice: fill, border), its icon, then its name."""
    children = list(group)
    first = next((k for k, e in enumerate(children) if e.get("transform")), len(children))
    while first and children[first - 1].tag.endswith("}polygon"):
        first -= 1
    chips, current = iter(tile.chips), element("g")
    for child in children[first:]:
        group.remove(child)
        if child.tag.endswith("}polygon"):
            _join_box(current, child)
            continue
        current.append(child)
        if child.tag.endswith("}text") and (chip := next(chips, None)) is not None:
            current.attrib.update(
                {"id": f"{clean(tile.key)}/{clean(chip.node)}", "class": "fk-chip", "data-op": clean(chip.node)}
            )
            current.insert(0, element("title", clean(chip.name)))
            group.append(current)
            current = element("g")


def _join_box(chip: ET.Element, polygon: ET.Element) -> None:
    """Fill and border of a chip as one round box."""
    x, y, w, h = _box(polygon.get("points") or "")
    if (box := chip.find(f"{{{SVG}}}rect")) is None:
        chip.append(element("rect", x=x, y=y, width=w, height=h, rx=3, fill=polygon.get("fill") or C["card"]))
    else:
        box.set("stroke", polygon.get("stroke") or C["hair"])


def _name_edges(groups: list[ET.Element], picture: Picture) -> None:
    seen: dict[str, int] = {}
    for group in groups:
        name = group.get("id") or ""
        if not (group.get("class") or "").startswith("edge") or not name.startswith("edge"):
            continue
        edge = picture.edges[int(name[4:])]
        pair = f"{clean(edge.tail)}->{clean(edge.head)}"
        seen[pair] = seen.get(pair, 0) + 1
        group.set("id", pair if seen[pair] == 1 else f"{pair}~{seen[pair]}")
        group.set("data-from", clean(edge.tail))
        group.set("data-to", clean(edge.head))
        if edge.tip:
            group.insert(0, element("title", prose(edge.tip)))


# ---- tabs ---------------------------------------------------------------------------------------------------------


def _lift_tabs(top: ET.Element) -> None:
    """Edges cross a frame's label: its words go on a plate of the frame's colour, last, so that edges pass behind."""
    for frame in [g for g in top.findall(G) if (g.get("class") or "").startswith("cluster")]:
        box = frame.find(f"{{{SVG}}}rect")
        words = [e for e in frame if e.tag.endswith("}text") or e.get("transform") or e.get("class") == "fk-badge"]
        texts = [e for e in words if e.tag.endswith("}text")]
        if box is None or not texts:
            continue
        plate = element("g", id=f"{frame.get('id')}-tab", class_="fk-tab", data_op=frame.get("data-op") or "")
        plate.extend(_plates(texts, words, box))
        for word in words:
            frame.remove(word)
            plate.append(word)
        if (title := frame.find(f"{{{SVG}}}title")) is not None:
            plate.insert(0, element("title", title.text or ""))
        top.append(plate)


def _plates(texts: list[ET.Element], words: list[ET.Element], box: ET.Element) -> Iterable[ET.Element]:
    """One plate a line of words."""
    right_edge = float(box.get("x") or 0) + float(box.get("width") or 0) - 6
    left = min([*(float(e.get("x") or 0) for e in texts), *(_left(e) for e in words if e not in texts)])
    for y in dict.fromkeys(float(e.get("y") or 0) for e in texts):
        line = [e for e in texts if float(e.get("y") or 0) == y]
        end = min(max(float(e.get("x") or 0) + _width(e) for e in line), right_edge)
        yield element(
            "rect", x=left - 3, y=y - 11, width=end - left + 6, height=15.0, fill=box.get("fill") or C["paper"]
        )


def _left(e: ET.Element) -> float:
    found = re.match(r"translate\(([-\d.]+)", e.get("transform") or "")
    return float(found[1]) if found else float(e.get("x") or 0)


def _width(text: ET.Element) -> float:
    size = float(text.get("font-size") or 10)
    return text_width(
        text.text or "", size, mono=text.get("font-family") == MONO_STACK, bold=text.get("font-weight") is not None
    )
