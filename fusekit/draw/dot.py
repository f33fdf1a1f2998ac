"""A Picture -> DOT text, with HTML-like labels. Names, ids and classes are what ``finish`` finds the parts by.

Graphviz shares the spare width of a table among all its cells, also fixed ones: so an icon has a column of its own.
It has no icons without files: a fixed cell with a colour that nobody else uses keeps the place.
"""

from __future__ import annotations

from collections.abc import Set
from contextlib import AbstractContextManager
from math import ceil
from typing import TYPE_CHECKING

from fusekit.draw.looks import (
    BADGE_HOLD,
    BOLD,
    EDGES,
    HAIRLINE,
    ICONS,
    LIGHT,
    MONO,
    NAME,
    RING,
    SANS,
    SMALL,
    STROKE,
    TINY,
    TITLE,
    shorten,
    text_width,
)
from fusekit.draw.parts import Card, Chip, Cut, Edge, Frame, Hazard, Part, Picture, Pill, Record, Tab, Tile
from fusekit.escape import dot_name, label

if TYPE_CHECKING:
    import graphviz

C = LIGHT
CHIPS_A_ROW = 5
CHIP_CHARACTERS = 14


def to_dot(picture: Picture) -> str:
    """DOT text, the same for the same picture."""
    import graphviz

    g = graphviz.Digraph("fusekit")
    head = _table(
        _cell(_text(shorten(picture.title, 90), TITLE, bold=True), align="LEFT"),
        *(_cell(_text(row or " ", SMALL, "muted"), align="LEFT") for row in wrap(picture.note, 84)[:3]),
        _cell("", height=8),
    )
    g.attr(
        label=f"<{head}>", labelloc="t", labeljust="l", bgcolor=C["paper"], pad="0.18", ranksep="0.26", nodesep="0.34",
        fontname=SANS,
    )  # fmt: skip
    g.attr(
        "node", shape="box", style="filled", fillcolor=C["card"], color=C["line"], penwidth=str(HAIRLINE),
        fontname=SANS, margin="0.1,0.06", width="0", height="0",
    )  # fmt: skip
    g.attr("edge", color=C["line"], penwidth=str(STROKE), arrowsize="0.55")
    for part in picture.parts:
        _add(g, part)
    for row in picture.rows:
        _side_by_side(g, row)
    cuts = {part.key for part in picture.parts if isinstance(part, Cut)}
    for number, edge in enumerate(picture.edges):
        _add_edge(g, edge, number, cuts)
    return g.source


def _add(g: graphviz.Digraph, part: Part | Frame) -> None:
    match part:
        case Frame():
            _frame(g, part)
        case Card():
            _node(g, part.key, _card(part), f"fk-op fk-{part.kind}{_class(part.mark)}", **_card_look(part))
        case Pill():
            look = {"margin": "0.12,0.03", "color": C["memory"] if part.block else C["line"]}
            look["fillcolor"] = C["paper"] if part.view or not part.block else C["memory_tint"]
            crosses = " fk-crosses" if part.crosses else ""
            _node(g, part.key, _pill(part), f"fk-pill{crosses}{_class(part.mark)}", **look | _marked(part.mark))
        case Hazard():
            icon = _icon("lock" if part.held else "open")
            row = icon + _gap(4) + _cell(_text(part.kinds, SMALL, "hazard", bold=True))
            row += _gap(8) + _cell(_text(shorten(part.where), SMALL, "muted", mono=True)) if part.where else ""
            look = {"color": C["hazard"], "fillcolor": C["hazard_tint"], "margin": "0.08,0.02"}
            _node(g, part.key, _table(row), f"fk-hazard{_class(part.mark)}", **look)
        case Cut():
            rows = [_cell(_text(line, SMALL), height=14) for line in wrap(part.reason, 60)[:4]]
            look = {"color": C["paper"], "fillcolor": C["paper"], "margin": "0.05,0"}
            _node(g, part.key, _table(_icon("cut"), *rows), "fk-cut", **look)
        case Record():
            look = {"color": C[part.accent], "fillcolor": C["paper"], "margin": "0.14,0.06"}
            _node(g, part.key, _record(part), "fk-record", **look)
        case Tile():
            _node(g, part.key, _tile(part), f"fk-tile{'' if part.launches else ' fk-empty'}", **_tile_look(part))


def _node(g: graphviz.Digraph, key: str, body: str, cls: str, **look: str) -> None:
    # Class and id are set on everything: a node would inherit those of the frame around it.
    g.node(dot_name(key), label=f"<{body}>", id=dot_name(key), **{"class": cls}, **look)


def _within(g: graphviz.Digraph, name: str | None = None) -> AbstractContextManager[graphviz.Digraph]:
    """A subgraph to write into; it joins ``g`` at the end of the ``with``."""
    inside = g.subgraph(name=name)
    assert inside is not None
    return inside


def _side_by_side(g: graphviz.Digraph, keys: tuple[str, ...]) -> None:
    with _within(g) as row:
        row.attr(rank="same")
        for key in keys:
            row.node(dot_name(key))


def _add_edge(g: graphviz.Digraph, edge: Edge, number: int, cuts: Set[str]) -> None:
    """``cuts``: keys of double bars; an arrow meets the bars themselves, above their words, and goes on below these."""
    look = dict(EDGES[edge.look])
    look |= ({"headport": "n"} if edge.head in cuts else {}) | ({"tailport": "s"} if edge.tail in cuts else {})
    if edge.headless:
        look["arrowhead"] = "none"
    if edge.weight != 1:
        look["weight"] = str(edge.weight)
    tail, head = dot_name(edge.tail), dot_name(edge.head)
    g.edge(tail, head, id=f"edge{number}", **{"class": f"fk-{edge.look}"}, **look)


# ---- labels -------------------------------------------------------------------------------------------------------


def _text(
    text: str, size: float = NAME, color: str = "ink", *, mono: bool = False, bold: bool = False, strike: bool = False
) -> str:
    shown = label(shorten(text, 200))  # a net: each caller shortens to what it has room for
    body = f"<S>{shown}</S>" if strike else shown
    face = MONO if mono else BOLD if bold else SANS
    return f'<FONT FACE="{face}" POINT-SIZE="{size}" COLOR="{C[color]}">{body}</FONT>' if text else ""


def _cell(content: str, **attributes: object) -> str:
    return "<TD" + "".join(f' {k.upper()}="{v}"' for k, v in attributes.items()) + f">{content}</TD>"


def _gap(width: int) -> str:
    return _cell("", width=width)


def _icon(name: str) -> str:
    return _cell("", width=12, height=12, fixedsize="TRUE", bgcolor=ICONS[name].hold)


def _badge(letter: str) -> str:
    width = 15 if len(letter) < 2 else 9 + 7 * len(letter)
    face = _text(letter, TINY, "memory", bold=True)
    return _cell(face, width=width, height=15, fixedsize="TRUE", bgcolor=BADGE_HOLD)


def _table(*rows: str, **attributes: object) -> str:
    plain = {"border": 0, "cellborder": 0, "cellspacing": 0, "cellpadding": 0}
    shown = "".join(f' {k.upper()}="{v}"' for k, v in (plain | attributes).items())
    return f"<TABLE{shown}>{''.join(f'<TR>{row}</TR>' for row in rows)}</TABLE>"


def _card(card: Card) -> str:
    ghost = card.mark == "removed"
    head = _text(shorten(card.name), NAME, "muted" if ghost else "ink", bold=True, strike=ghost)
    head += _text(f"  {card.line}", TINY, "muted") if card.line else ""
    mark = _gap(6) + _icon(card.mark) if card.mark else ""
    rows = [_icon(card.kind) + _gap(5) + _cell(head, align="LEFT") + mark]
    lines = [(card.was, "muted", True)] if card.was else []
    lines += [(line, "changed" if card.was else "muted", False) for line in card.detail.split("\n")]
    for text, color, strike in lines:
        if text:
            # A monospaced run is measured a little too narrow by some readers: the space behind it is air.
            body = _text(shorten(text), SMALL, color, mono=True, strike=strike)
            rows.append(_cell("", colspan=2) + _cell(body, align="LEFT", height=14))
    if card.kind == "in-place":
        bar = _cell("", height=3, bgcolor=C["memory"], colspan=5 if card.mark else 3)
        rows += [_cell("", height=3), bar]
    return _table(*rows)


def _class(mark: str) -> str:
    return f" fk-{mark}" if mark else ""


def _marked(mark: str) -> dict[str, str]:
    return {
        "added": {"color": C["added"], "penwidth": str(RING)},
        "changed": {"color": C["changed"], "penwidth": "1.4"},
        "removed": {"style": "filled,dashed", "fillcolor": C["paper"], "color": C["line"]},
    }.get(mark, {})


def _card_look(card: Card) -> dict[str, str]:
    look = {"style": "filled,dashed", "fillcolor": C["paper"]} if card.kind in ("view", "constant") else {}
    return look | _marked(card.mark)


def _pill(pill: Pill) -> str:
    ghost = pill.mark == "removed"
    row = _badge(pill.block) + _gap(5) if pill.block else ""
    row += _cell(_text(shorten(pill.name), NAME - 1, "muted" if ghost else "ink", bold=True, strike=ghost))
    row += _gap(6) + _cell(_text(shorten(pill.type), SMALL, "muted", mono=True)) if pill.type else ""
    row += _gap(6) + _cell(_text(shorten(pill.remark), TINY, "muted")) if pill.remark else ""
    return _table(row + (_gap(6) + _icon(pill.mark) if pill.mark else ""))


def _record(record: Record) -> str:
    rows = [_cell(_text(shorten(record.title, 70), SMALL, record.accent, bold=True), align="LEFT", colspan=4)]
    for what, about in record.rows:
        left = _cell(_text(shorten(what, 60), SMALL, mono=True), align="LEFT")
        right = _cell(_text(shorten(about, 70), SMALL, "muted"), align="LEFT")
        rows.append(left + _gap(12) + right + _gap(14))
    return _table(*rows, cellpadding=1)


# ---- segments -----------------------------------------------------------------------------------------------------


def _tab(tab: Tab, mark: str) -> str:
    """One cell with one run of words, so that no spare width comes between them."""
    row = _icon(mark) + _gap(5) if mark else ""
    words = _text(shorten(tab.id), NAME, bold=True) + _text(
        f"   {shorten(tab.scheduler)}" if tab.scheduler else "", SMALL
    )
    rest = "   ".join(word for word in (tab.launches, tab.traffic) if word)
    words += _text(f"   {shorten(rest, 70)}" if rest else "", SMALL, "muted")
    return row + _cell(words, align="LEFT")


def _frame(g: graphviz.Digraph, frame: Frame) -> None:
    empty, capsule, phase = (frame.kind in kinds for kinds in (("empty", "maybe"), ("capsule", "maybe"), ("phase",)))
    color = "memory" if capsule else "hazard" if phase else "line" if empty else "hair"
    tone = "paper" if empty or capsule or phase else f"tone{frame.parity % 2}"
    tab = _capsule_tab(frame) if capsule else _tab(frame.tab, frame.mark)
    if phase:
        tab = _cell(_text(shorten(frame.tab.id), TINY, "hazard"))
    look = {
        "label": f"<{_table(tab, cellpadding=1)}>", "labelloc": "t", "labeljust": "l", "penwidth": "1",
        "margin": "12" if phase else "14", "style": "filled,dashed" if empty else "filled", "fillcolor": C[tone],
        "color": C["added" if frame.mark == "added" else color], "class": f"fk-{frame.kind}{_class(frame.mark)}",
    }  # fmt: skip
    with _within(g, f"cluster_{dot_name(frame.key)}") as inside:
        inside.attr(id=dot_name(frame.key), **look)
        for part in frame.parts:
            _add(inside, part)
        if capsule:
            _side_by_side(inside, tuple(part.key for part in frame.parts))


def _capsule_tab(frame: Frame) -> str:
    """What the block is, must or may, and a row for each relation."""
    words = _text(shorten(frame.tab.id, 90), SMALL, "memory")
    words += _text(f"      {frame.tab.scheduler}", TINY, "muted") if frame.tab.scheduler else ""
    tab = _badge(frame.badge) + _gap(6) + _cell(words, align="LEFT")
    for row in frame.tab.traffic.split("\n"):
        body = _text(shorten(row, 90), SMALL, "muted", mono=True)
        tab += f"</TR><TR>{_cell('', colspan=2)}{_cell(body, align='LEFT')}" if row else ""
    return tab


def _tile(tile: Tile) -> str:
    words = _text(f"{shorten(tile.tab.id)}  ", NAME, bold=True) + _text(
        f"{shorten(tile.tab.scheduler, 60)}   " if tile.tab.scheduler else "", SMALL
    )
    words += _text(shorten("   ".join(w for w in (tile.tab.launches, tile.tab.traffic) if w), 60), SMALL, "muted")
    count = min(CHIPS_A_ROW, max(len(tile.chips), 1))
    wide = text_width(
        f"{tile.tab.id}  {tile.tab.scheduler}   {tile.tab.launches}   {tile.tab.traffic}"[:120], SMALL + 1
    )
    columns = max(count, ceil(wide / 103))  # empty columns take what a long tab asks for; else the chips would
    rows = [_cell(words, align="LEFT", colspan=columns)]
    for first in range(0, len(tile.chips), count):
        row = [_chip(tile, first + k, chip) for k, chip in enumerate(tile.chips[first : first + count])]
        rows.append("".join(row) + _cell("", border=0) * (columns - len(row)))
    return _table(*rows, cellspacing=2)


def _chip(tile: Tile, number: int, chip: Chip) -> str:
    """Every width is fixed: spare width would break the grid."""
    name = _text(
        shorten(chip.name, CHIP_CHARACTERS), SMALL, {"added": "added", "changed": "changed"}.get(chip.mark, "ink")
    )
    inner = _table(_icon(chip.kind) + _gap(3) + _cell(name, align="LEFT", width=84, height=15))
    box = {"border": 0} if chip.kind == "view" else {"border": 1, "color": C[chip.mark or "hair"], "bgcolor": C["card"]}
    return _cell(inner, id=f"{dot_name(tile.key)}_chip{number}", **box)


def _tile_look(tile: Tile) -> dict[str, str]:
    look = {"margin": "0.09,0.03", "style": "filled", "fillcolor": C[f"tone{tile.parity % 2}"], "color": C["hair"]}
    if not tile.launches:
        look |= {"style": "filled,dashed", "fillcolor": C["paper"], "color": C["line"]}
    return look | ({"color": C["added"]} if tile.mark == "added" else {})


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` characters, cut between words; a word that is longer has a line of its own."""
    lines = [""]
    for word in text.split():
        fits = not lines[-1] or len(lines[-1]) + 1 + len(word) <= width
        lines[-1:] = [f"{lines[-1]} {word}".strip()] if fits else [lines[-1], word]
    return [shorten(line, width + 10) for line in lines]
