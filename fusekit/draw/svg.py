"""SVG elements, icons, and what every finished picture has: title, description, dark palette, sizes in px."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

from fusekit.draw.looks import ICONS, LIGHT, MONO_STACK, SANS_STACK, STYLE
from fusekit.escape import clean, prose

SVG = "http://www.w3.org/2000/svg"
G = f"{{{SVG}}}g"
ET.register_namespace("", SVG)


def element(tag: str, text: str = "", **attributes: object) -> ET.Element:
    """An SVG element; an underscore in an attribute's name is a hyphen."""
    shown = {
        k.rstrip("_").replace("_", "-"): number(v) if isinstance(v, float) else str(v) for k, v in attributes.items()
    }
    made = ET.Element(f"{{{SVG}}}{tag}", shown)
    made.text = text or None
    return made


def number(value: float) -> str:
    """At most two decimals, and no trailing zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def words(
    x: float,
    y: float,
    text: str,
    size: float,
    color: str = "ink",
    *,
    mono: bool = False,
    bold: bool = False,
    anchor: str = "start",
) -> ET.Element:
    """A run of text whose baseline is at y; ``anchor``: which part of it is at x (start, middle, end)."""
    look: dict[str, object] = {"font_family": MONO_STACK} if mono else {}
    look |= {"font_weight": 600} if bold else {}
    return element("text", clean(text), x=x, y=y, font_size=size, fill=LIGHT[color], text_anchor=anchor, **look)


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    radius: float,
    fill: str,
    stroke: str,
    *,
    wide: float = 1.0,
    dash: str = "none",
) -> ET.Element:
    """A rectangle in the colours of two tokens; ``fill`` may be none."""
    paint = {"fill": LIGHT.get(fill, "none"), "stroke": LIGHT[stroke], "stroke_width": wide, "stroke_dasharray": dash}
    return element("rect", x=x, y=y, width=width, height=height, rx=float(radius), **paint)


def canvas(width: float, height: float) -> ET.Element:
    """An empty picture on paper."""
    root = element("svg", width=width, height=height, viewBox=f"0 0 {math.ceil(width)} {math.ceil(height)}")
    root.append(element("rect", width="100%", height="100%", fill=LIGHT["paper"]))
    return root


def icon(name: str, x: float, y: float) -> ET.Element:
    """The icon's path with its top left corner at (x, y)."""
    look = ICONS[name]
    colors = {"fill": LIGHT[look.fill] if look.fill else "none"} | (
        {"stroke": LIGHT[look.stroke]} if look.stroke else {}
    )
    dash = {"stroke_dasharray": look.dash} if look.dash else {}
    width = {"stroke_width": float(look.width)} if look.width != 1 else {}
    return element("path", transform=f"translate({number(x)},{number(y)})", d=look.path, **colors, **width, **dash)


def seal(root: ET.Element, title: str, desc: str, engine: str) -> str:
    """Title, description and style in front; the text of the whole, the same for the same picture."""
    for side in ("width", "height"):
        root.set(
            side, str(math.ceil(float((root.get(side) or "0").removesuffix("pt"))))
        )  # a pt is 1.33 px: drop the unit
    root.set("font-family", SANS_STACK)
    root.set("role", "img")
    root.set("aria-label", clean(title))
    root.set("data-engine", engine)
    heads = (element("title", clean(title)), element("desc", prose(desc)), element("style", STYLE))
    for place, head in enumerate(heads):
        root.insert(place, head)
    for e in root.iter():
        for key, default in (
            ("text-anchor", "start"),
            ("stroke", "none"),
            ("stroke-width", "1"),
            ("stroke-dasharray", "none"),
        ):
            if e.get(key) == default:
                del e.attrib[key]
        e.attrib.pop("{http://www.w3.org/XML/1998/namespace}space", None)
        e.tail = None
        if not e.tag.endswith(("}text", "}title", "}desc", "}style")):
            e.text = None
    return ET.tostring(root, encoding="unicode")
