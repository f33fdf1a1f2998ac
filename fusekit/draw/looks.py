"""The one table of looks: colours, icons, sizes. Shape and mark carry a meaning; colour only repeats it.

Every colour is written into the SVG in its light value, which any reader shows; one style block maps each value to
its dark twin. So no two tokens may share a light value. Blue says which bytes, vermilion which order must hold,
green what is new (or checked), purple what changed; all else is ink on paper.
"""

from __future__ import annotations

from typing import NamedTuple

LIGHT = {
    "paper": "#ffffff", "card": "#fefefe", "ink": "#1b1f24", "muted": "#59636e", "line": "#7b848e", "hair": "#d5dae0",
    "tone0": "#f6f8fa", "tone1": "#eef2f5",
    "memory": "#0068a3", "memory_tint": "#e6f1f8",
    "hazard": "#b54708", "hazard_tint": "#fdf0e6",
    "added": "#00754f", "added_tint": "#e4f4ee",
    "changed": "#85406f", "changed_tint": "#f6ebf3",
}  # fmt: skip
DARK = {
    "paper": "#0f1419", "card": "#1a2129", "ink": "#e6eaee", "muted": "#9aa5b1", "line": "#6b7783", "hair": "#303943",
    "tone0": "#141a21", "tone1": "#181f27",
    "memory": "#62b8ea", "memory_tint": "#15293a",
    "hazard": "#ff9257", "hazard_tint": "#372014",
    "added": "#35cfa2", "added_tint": "#112d26",
    "changed": "#d993bb", "changed_tint": "#33212e",
}  # fmt: skip

# Sizes in px at 100 %; one unit of the SVG is one CSS px.
TITLE, NAME, SMALL, TINY = 13, 12, 10, 9
HAIRLINE, STROKE, ORDER, RING = 1.0, 1.2, 1.6, 2.4
CARD_RADIUS, FRAME_RADIUS, CAPSULE_RADIUS = 5, 7, 16

# Layout measures with DejaVu, the widest of the common faces: a reader with another one gets air, never a cut label.
SANS, MONO, BOLD = "DejaVu Sans", "DejaVu Sans Mono", "DejaVu Sans Bold"
SANS_STACK = "Inter,'Segoe UI','Helvetica Neue','DejaVu Sans',Arial,sans-serif"
MONO_STACK = "Menlo,Consolas,'DejaVu Sans Mono',monospace"

LONGEST = 44  # characters of a label; the whole text is in the tooltip


class Icon(NamedTuple):
    """A path in a 10 by 10 box. ``hold`` is the colour of the cell that keeps its place until the SVG is finished."""

    hold: str
    path: str
    fill: str | None
    stroke: str | None
    width: float = 1.0
    dash: str | None = None


ICONS = {
    "pointwise": Icon("#c0de01", "M5,2.2a2.8,2.8 0 1,0 .01,0z", "ink", None),
    "reduction": Icon("#c0de02", "M.8,2H9.2L6.6,8.4H3.4z", "ink", None),
    "view": Icon("#c0de03", "M1.5,2.5h7v5h-7z", None, "ink", 1, "1.6 1.4"),
    "in-place": Icon("#c0de04", "M5,2.2a2.8,2.8 0 1,0 .01,0z", "ink", None),
    "library": Icon("#c0de05", "M1,2h8v6h-8zM3,2v6", None, "ink"),
    "constant": Icon("#c0de06", "M2,3.6h6M2,6.4h6", None, "ink", 1.4),
    "lock": Icon("#c0de07", "M2,4.6h6v4.4h-6zM3.2,4.6V3a1.8,1.8 0 0 1 3.6,0V4.6", None, "hazard", 1.5),
    "open": Icon("#c0de08", "M.5,5l1.8,-3 1.8,6 1.8,-6 1.8,6 1.8,-3", None, "hazard", 1.5),
    "cut": Icon("#c0de09", "M-3,3.2h16M-3,6.8h16", None, "ink", 1.8),
    "added": Icon("#c0de0a", "M5,1.4v7.2M1.4,5h7.2", None, "added", 1.7),
    "removed": Icon("#c0de0b", "M2,2l6,6M8,2l-6,6", None, "muted", 1.7),
    "changed": Icon("#c0de0c", "M5,1.6L9,8.4H1z", None, "changed", 1.7),
}
BADGE_HOLD = "#c0deff"  # becomes the round badge with a block's letter

# Edges by what they say: colour, width, style, head. "tie" only keeps two nodes near, "hidden" only keeps their order.
EDGES: dict[str, dict[str, str]] = {
    "data": {"color": LIGHT["line"], "penwidth": str(STROKE)},
    "new": {"color": LIGHT["added"], "penwidth": "1.8"},
    "ghost": {"color": LIGHT["line"], "penwidth": str(STROKE), "style": "dashed"},
    "order": {"color": LIGHT["hazard"], "penwidth": str(ORDER)},
    "race": {"color": LIGHT["hazard"], "penwidth": str(ORDER)},
    "spine": {"color": LIGHT["memory"], "penwidth": "2", "arrowhead": "none", "constraint": "false"},
    "maybe": {"color": LIGHT["memory"], "penwidth": "2", "arrowhead": "none", "constraint": "false", "style": "dashed"},
    "memory": {"color": LIGHT["memory"], "penwidth": str(STROKE), "style": "dashed"},
    "hidden": {"style": "invis"},
}


def dark_rules(scope: str = "") -> str:
    """CSS that maps each light colour to its dark twin; ``scope`` (with its space) limits it to a part of a page."""
    return "".join(
        f'{scope}[{attribute}="{value}"]{{{attribute}:{DARK[token]}}}'
        for token, value in LIGHT.items()
        for attribute in ("fill", "stroke")
    )


STYLE = f"text{{white-space:pre;text-rendering:geometricPrecision}}@media (prefers-color-scheme:dark){{{dark_rules()}}}"


def text_width(text: str, size: float, *, mono: bool = False, bold: bool = False) -> float:
    """Width in px, estimated on the wide side, for pictures that are laid out without an engine."""
    if mono:
        return len(text) * size * 0.602
    wide = sum(c.isupper() or c in "mwMW%@" or ord(c) > 0x2E80 for c in text)
    narrow = sum(c in "iljtfrI.,:;'|![]() " for c in text)
    return (0.61 * len(text) + 0.15 * wide - 0.22 * narrow) * size * (1.1 if bold else 1.0)


def shorten(text: str, longest: int = LONGEST) -> str:
    """``text`` with its middle left out when it is longer than a label may be."""
    if len(text) <= longest:
        return text
    tail = longest // 3
    return f"{text[: longest - tail - 1]}…{text[-tail:]}"
