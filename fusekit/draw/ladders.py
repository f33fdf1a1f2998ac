"""Ladders as SVG: every part has its place by arithmetic, so no layout engine is asked."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fusekit.draw.domains import Bar, Joint, Ladder, Side, ladders_of
from fusekit.draw.dot import wrap
from fusekit.draw.looks import LIGHT, NAME, SMALL, TINY, TITLE, shorten, text_width
from fusekit.draw.notes import Notes
from fusekit.draw.rungs import Key, Rungs, Spot, depth_of, rungs_of
from fusekit.draw.svg import box, canvas, element, number, seal, words
from fusekit.escape import clean, prose
from fusekit.ir import Graph

MARGIN, TOP, RAIL, APART = 18.0, 62.0, 64.0, 64.0
BAR, JOINT, STEP, CHIP = 24.0, 16.0, 76.0, 16.0
HEAD = 50.0  # from root to logical
FORK = 34.0  # from the logical axes to the dot
SIDES = 66.0  # from the dot to the axes that the sides start from
WORD = 14.0  # a line of words
NOTE = "the same name is the same axis; length by log2 of the extent; dashed: the logical axes that a side starts from"


@dataclass(frozen=True, slots=True)
class _Frame:
    """A ladder with its measures: ``y`` is its top; left edges of the sides and of the head."""

    ladder: Ladder
    head: Rungs
    loop: Rungs
    allocation: Rungs
    left: float
    right: float
    middle: float
    width: float
    chain: tuple[str, ...]

    @property
    def top(self) -> float:
        """Height of title and chain."""
        return 34.0 + 13 * len(self.chain)

    @property
    def head_step(self) -> float:
        return STEP if self.ladder.head.joints else HEAD

    @property
    def head_height(self) -> float:
        return self.head_step * self.head.rows / 2

    @property
    def sides_top(self) -> float:
        return self.top + self.head_height + BAR + FORK + SIDES

    @property
    def height(self) -> float:
        lines = max(len(self.ladder.loop.words), len(self.ladder.allocation.words))
        return self.sides_top + STEP * self.loop.rows / 2 + BAR + CHIP + 24 + WORD * lines + 26


def ladders_svg(graph: Graph, notes: Notes, title: str, note: str, segment: str | None) -> tuple[str, str]:
    """(the finished SVG, its description). Raises UnsupportedError for a segment that is not there."""
    ladders, left_out = ladders_of(graph, notes, segment)
    frames = [_measure(ladder) for ladder in ladders]
    said = "; ".join(word for word in (note or notes.summary(graph) or NOTE, left_out) if word)
    if not ladders:
        said = left_out
    width = max(
        [*(frame.width for frame in frames), text_width(shorten(title, 90), TITLE, bold=True) + 2 * MARGIN, 420.0]
    )
    rows = wrap(said, int((width - 2 * MARGIN) / (0.56 * SMALL)))[:3]
    top = TOP + 12 * (len(rows) - 1)
    root = canvas(width, top + sum(frame.height for frame in frames))
    root.append(words(MARGIN, 26, shorten(title, 90), TITLE, bold=True))
    root.extend(words(MARGIN, 41 + 12 * k, row, SMALL, "muted") for k, row in enumerate(rows))
    for frame in frames:
        root.append(_ladder(frame, top, width))
        top += frame.height
    desc = f"{title}. {said}. " + " ".join(_sentence(ladder) for ladder in ladders)
    return seal(root, title, desc, "fusekit"), desc


def _sentence(ladder: Ladder) -> str:
    def axes(bars: tuple[Bar, ...]) -> str:
        return (
            ", ".join(f"{b.name} {b.extent}{' reduced' if b.reduced else ''} {b.chip}".strip() for b in bars) or "none"
        )

    by = f" by {ladder.chain}" if ladder.chain else ""
    return (
        f"{ladder.title}: logical {axes(ladder.loop.start)}; loop {axes(ladder.loop.end)}{by}; "
        f"allocation {axes(ladder.allocation.end)}."
    )


def _measure(ladder: Ladder) -> _Frame:
    rows = max(depth_of(ladder.loop), depth_of(ladder.allocation))
    head = rungs_of(ladder.head, depth_of(ladder.head))
    loop, allocation = rungs_of(ladder.loop, rows), rungs_of(ladder.allocation, rows)
    wide_loop = max([loop.width, 132.0, *(_mono(word) for word in ladder.loop.words)])
    wide_allocation = max([allocation.width, 156.0, *(_mono(word) for word in ladder.allocation.words)])
    left = MARGIN + RAIL + (wide_loop - loop.width) / 2
    right = MARGIN + RAIL + wide_loop + APART + (wide_allocation - allocation.width) / 2
    middle = (left + loop.width / 2 + right + allocation.width / 2) / 2
    left_of_head = max(middle - head.width / 2, MARGIN + RAIL)
    width = max(MARGIN + RAIL + wide_loop + APART + wide_allocation, left_of_head + head.width) + 24 + RAIL + MARGIN
    width = max(width, text_width(shorten(ladder.title, 110), NAME, bold=True) + 2 * MARGIN)
    chain = (
        tuple(wrap(ladder.chain.replace(").", ") ."), int((width - 2 * MARGIN) / (0.61 * SMALL))))
        if ladder.chain
        else ()
    )
    chain = tuple(line.replace(") .", ").") for line in chain)
    return _Frame(ladder, head, loop, allocation, left, right, left_of_head, width, chain)


def _mono(word: str) -> float:
    return text_width(shorten(word, 90), SMALL, mono=True)


# ---- one ladder ---------------------------------------------------------------------------------------------------


def _ladder(frame: _Frame, y: float, width: float) -> ET.Element:
    ladder = frame.ladder
    group = element(
        "g", id=f"{clean(ladder.segment)}/{clean(ladder.node)}", class_="fk-ladder", data_op=clean(ladder.node),
        data_segment=clean(ladder.segment),
    )  # fmt: skip
    group.append(element("title", prose(ladder.tip)))
    group.append(words(MARGIN, y + 12, shorten(ladder.title, 110), NAME, bold=True))
    group.extend(words(MARGIN, y + 27 + 13 * k, line, SMALL, "ink", mono=True) for k, line in enumerate(frame.chain))
    top = y + frame.top
    below = y + frame.sides_top
    bottom = below + STEP * frame.loop.rows / 2
    last = top + frame.head_height
    group.extend(
        words(MARGIN, at + 16, name, SMALL, "muted")
        for at, name in ((top, "root"), (last, "logical"), (bottom, "loop"))
    )
    group.append(words(width - MARGIN, bottom + 16, "allocation", SMALL, "muted", anchor="end"))
    if not ladder.head.end:
        said = "no axes: one element"
        middle = frame.middle + frame.head.width / 2
        group.extend(words(middle, at + 16, said, SMALL, "muted", anchor="middle") for at in (top, last))
    group.extend(_side(ladder.head, frame.head, frame.middle, top, frame.head_step, "head", ladder))
    group.extend(_fork(frame, y))
    group.extend(_side(ladder.loop, frame.loop, frame.left, below, STEP, "loop", ladder))
    group.extend(_side(ladder.allocation, frame.allocation, frame.right, below, STEP, "allocation", ladder))
    under = bottom + BAR + CHIP + 24
    for side, rungs, x in ((ladder.loop, frame.loop, frame.left), (ladder.allocation, frame.allocation, frame.right)):
        for k, line in enumerate(side.words):
            group.append(
                words(
                    x + rungs.width / 2, under + WORD * k, shorten(line, 90), SMALL, "muted", mono=True, anchor="middle"
                )
            )
    return group


def _fork(frame: _Frame, y: float) -> Iterator[ET.Element]:
    """From the logical axes to a dot, from there to both sides."""
    last = y + frame.top + frame.head_height + BAR
    dot = last + FORK - 12
    x = frame.middle + frame.head.width / 2
    for spot in frame.head.spots.values():
        if spot.row == frame.head.rows:
            yield _path([(frame.middle + spot.x, last), (x, dot)], "line")
    for left, rungs, text, color in (
        (frame.left, frame.loop, "loop starts here", "ink"),
        (frame.right, frame.allocation, "allocation starts here", "memory"),
    ):
        at, start = left + rungs.width / 2, y + frame.sides_top - 14 - JOINT
        wide = text_width(text, TINY) + 20
        yield from _arrow(x, dot, at + (wide / 2 - 6) * (1 if at < x else -1), start, color)
        yield box(at - wide / 2, start, wide, JOINT, JOINT / 2, "paper", color)
        yield words(at, start + 11.5, text, TINY, anchor="middle")
    yield element("circle", cx=x, cy=dot, r=3.0, fill=LIGHT["ink"])


def _arrow(x0: float, y0: float, x1: float, y1: float, color: str) -> Iterator[ET.Element]:
    length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-6)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    yield _path([(x0, y0), (x1 - 6 * ux, y1 - 6 * uy)], color, 1.2)
    points = ((x1, y1), (x1 - 8 * ux + 3 * uy, y1 - 8 * uy - 3 * ux), (x1 - 8 * ux - 3 * uy, y1 - 8 * uy + 3 * ux))
    yield element("polygon", points=" ".join(f"{number(a)},{number(b)}" for a, b in points), fill=LIGHT[color])


# ---- one side -----------------------------------------------------------------------------------------------------


def _side(side: Side, rungs: Rungs, x: float, y: float, step: float, fork: str, ladder: Ladder) -> Iterator[ET.Element]:
    """``fork``: head, loop or allocation; ``step``: from one row of axes to the next. Boxes lie over lines."""
    color = "memory" if fork == "allocation" else "ink"
    heights = {key: _extent(spot, y, step) for key, spot in rungs.spots.items()}
    for keys, look in rungs.lines:
        yield _line(keys, look, rungs.spots, heights, x, "memory" if color == "memory" else "line")
    for key, spot in rungs.spots.items():
        middle, top = x + spot.x, heights[key][0]
        match spot.what:
            case Bar():
                yield _bar(spot.what, spot, middle, top, rungs, fork, ladder)
            case Joint():
                yield _joint(spot.what, spot, middle, top, color)
            case str(said):
                yield words(middle, top + 6, "x", SMALL, color, bold=True, anchor="middle")
                for k, line in enumerate(said.split("\n")):
                    yield words(middle, top + 19 + 12 * k, line, SMALL, "muted", anchor="middle")
            case None:
                pass


def _extent(spot: Spot, y: float, step: float) -> tuple[float, float]:
    """Top and bottom of a part; a line that passes has the height of its row."""
    if spot.row % 2:
        top = y + step * (spot.row // 2) + BAR + (step - BAR - JOINT) / 2
        return top, top + JOINT
    top = y + step * (spot.row // 2)
    return top, top + BAR


def _line(
    keys: tuple[Key, ...], look: str, spots: Mapping[Key, Spot], heights: Mapping[Key, tuple[float, float]], x: float,
    color: str,
) -> ET.Element:  # fmt: skip
    first, *between, last = keys
    points = [(x + spots[first].x, heights[first][1])]
    for key in between:
        points += [(x + spots[key].x, height) for height in heights[key]]
    points.append((x + spots[last].x, heights[last][0] - (4 if look == "gone" else 0)))
    return _path(points, color, dash="3 3" if look != "plain" else "none")


def _path(points: list[tuple[float, float]], color: str, wide: float = 1.0, dash: str = "none") -> ET.Element:
    kept = [
        p
        for k, p in enumerate(points)
        if not 0 < k < len(points) - 1 or not points[k - 1][0] == p[0] == points[k + 1][0]
    ]
    d = "M" + "L".join(f"{number(a)},{number(b)}" for a, b in kept)
    return element("path", d=d, fill="none", stroke=LIGHT[color], stroke_width=wide, stroke_dasharray=dash)


def _bar(bar: Bar, spot: Spot, middle: float, top: float, rungs: Rungs, fork: str, ladder: Ladder) -> ET.Element:
    """An axis: hollow where a fork starts, tinted where memory ends, three strokes where it is a vector."""
    hollow, ends = spot.row == 0 and fork != "head", spot.row == rungs.rows
    key = f"{clean(ladder.segment)}/{clean(ladder.node)}/{fork}/{spot.row}/{clean(bar.node)}"
    group = element("g", id=key, class_="fk-axis", data_op=clean(bar.node))
    group.append(element("title", prose(bar.tip)))
    fill = "paper" if hollow else "memory_tint" if fork == "allocation" and ends else "card"
    stroke = "memory" if fork == "allocation" else "line" if hollow else "ink"
    stroke = bar.mark if bar.mark in ("added", "changed") and not hollow else stroke
    left = middle - spot.width / 2
    group.append(box(left, top, spot.width, BAR, 5, fill, stroke, dash="5 3" if hollow else "none"))
    for inset in (2.5, 5.0) if bar.lanes else ():
        group.append(
            box(left + inset, top + inset, spot.width - 2 * inset, BAR - 2 * inset, 5 - inset / 2, "none", stroke)
        )
    group.extend(_axis_words(bar, middle, top + 16))
    if bar.chip and ends:
        wide = max(spot.width - 4, text_width(bar.chip, TINY) + 8)
        group.append(box(middle - wide / 2, top + BAR + 5, wide, CHIP, CHIP / 2, "tone1", "hair"))
        group.append(words(middle, top + BAR + 16.5, bar.chip, TINY, anchor="middle"))
    return group


def _axis_words(bar: Bar, middle: float, y: float) -> Iterator[ET.Element]:
    """Name, extent and a sigma for a reduction, in the middle of the bar as one."""
    name, extent = text_width(bar.name, NAME - 1, bold=True), text_width(str(bar.extent), SMALL, mono=True)
    x = middle - (name + 6 + extent + (14 if bar.reduced else 0)) / 2
    yield words(x, y, bar.name, NAME - 1, bold=True)
    yield words(x + name + 6, y, str(bar.extent), SMALL, "muted", mono=True)
    if bar.reduced:
        yield words(x + name + 6 + extent + 4, y, "Σ", NAME - 1, bold=True)


def _joint(joint: Joint, spot: Spot, middle: float, top: float, color: str) -> ET.Element:
    group = element("g", class_="fk-joint", data_op=clean(joint.node))
    group.append(element("title", prose(joint.tip)))
    stroke = joint.mark if joint.mark in ("added", "changed") else color
    group.append(box(middle - spot.width / 2, top, spot.width, JOINT, JOINT / 2, "paper", stroke))
    group.append(words(middle, top + 11.5, joint.text, TINY, anchor="middle"))
    return group
