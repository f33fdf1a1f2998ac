"""From parts to a finished SVG: well formed, both palettes, ids, tooltips; no name, however hostile, becomes markup."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from fusekit.draw import DARK, LIGHT, draw
from fusekit.draw.looks import BADGE_HOLD, ICONS, shorten
from fusekit.draw.parts import Card, Chip, Cut, Edge, Frame, Hazard, Picture, Pill, Record, Tab, Tile
from fusekit.draw.plain import plain_svg
from fusekit.escape import clean, dot_name, label, unlabel

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    '<script>"a->b|{c}"</script>', "a&lt;b &#38; &amp;", "line\nbreak\ttab\x00\x07\x1b", "]]>--><!--", "\\n\\N\\G\\l",
    "emoji 🙂 and ‮right to left", "\ud800lone", "%s {0} $x `y`", "'quote\" ;", "x" * 10_000, " ", "port:n:w",
]  # fmt: skip


def picture(name: str) -> Picture:
    """Every kind of part under one name."""
    tab = Tab(name, name, name, name)
    inside = (
        Card("a" + name, "^a", name, "in-place", name, "line 1", "changed", name, name),
        Pill("p", "%p", name, name, "A", True, True),
    )
    parts = (
        Frame(
            "f" + name,
            "$0",
            "segment",
            tab,
            (*inside, Frame("h", "$0", "phase", Tab(name), (Card("q", "^q", name, "view"),))),
        ),
        Frame("g", "$1", "empty", tab, (Card("e", "^e", name, "library", name, mark="added"),), mark="added"),
        Frame("c", "@0", "capsule", tab, (Pill("u", "%u", name), Pill("v", "%v", name, mark="removed")), badge="B"),
        Hazard("z", "z", name, name, False),
        Cut("k", "k", name, name),
        Record("r", "$0", name, ((name, name),)),
        Tile("t", "$2", tab, (Chip("^x", "reduction", name), Chip("^y", "view", name, "added")), tip=name),
        Card("gone", "^gone", name, "constant", mark="removed"),
    )
    edges = (
        Edge("a" + name, "z", "race", True), Edge("z", "e", "race"), Edge("p", "k", headless=True), Edge("k", "e"),
        Edge("u", "v", "spine"), Edge("e", "t", "new", tip=name), Edge("t", "r", "hidden"), Edge("gone", "t", "ghost"),
        Edge("a" + name, "e"), Edge("a" + name, "e"),
    )  # fmt: skip
    return Picture(name, name, parts, edges, name)


def root_of(svg: str) -> ET.Element:
    return ET.fromstring(svg)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("engine", ["graphviz", "plain"])
def test_hostile_names_stay_text(name: str, engine: str) -> None:
    plain = root_of(_svg(picture("name"), engine))
    root = root_of(_svg(picture(name), engine))
    assert {e.tag for e in root.iter()} <= {e.tag for e in plain.iter()}, "no element that a tame name has not"
    groups = [e.get("data-op") for e in root.iter(f"{SVG}g") if e.get("data-op")]
    assert groups == [e.get("data-op") for e in plain.iter(f"{SVG}g") if e.get("data-op")]
    wanted = shorten(clean(name))
    if wanted.strip():
        assert any(wanted in (text.text or "") for text in root.iter(f"{SVG}text"))


def _svg(shown: Picture, engine: str) -> str:
    return plain_svg(shown) if engine == "plain" else draw(shown).svg


def test_finished_svg_has_ids_tips_and_both_palettes() -> None:
    pytest.importorskip("pygraphviz")
    svg = draw(picture("name")).svg
    root = root_of(svg)
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids)), "ids are unique"
    assert {
        "aname",
        "p",
        "fname",
        "fname-tab",
        "g",
        "c",
        "z",
        "k",
        "r",
        "t",
        "t/^x",
        "u->v",
        "aname->e",
        "aname->e~2",
    } <= set(ids)
    assert "prefers-color-scheme:dark" in svg and all(
        f'[fill="{v}"]{{fill:{DARK[k]}}}' in svg for k, v in LIGHT.items()
    )
    card = next(e for e in root.iter(f"{SVG}g") if e.get("id") == "aname")
    assert card.get("data-op") == "^a" and card.findtext(f"{SVG}title") == "name"
    assert root.findtext(f"{SVG}title") == "name" and root.findtext(f"{SVG}desc") == "name"
    assert root.get("role") == "img" and root.get("data-engine") == "pygraphviz"


def test_no_placeholder_is_left() -> None:
    pytest.importorskip("pygraphviz")
    svg = draw(picture("name")).svg
    assert not [hold for hold in (BADGE_HOLD, *(i.hold for i in ICONS.values())) if hold in svg]
    nodes = [e for e in root_of(svg).iter(f"{SVG}g") if "node" in (e.get("class") or "").split()]
    assert nodes and not any(list(node.iter(f"{SVG}polygon")) for node in nodes), "only arrow heads are polygons"


def test_every_light_colour_is_one_token() -> None:
    assert len(set(LIGHT.values())) == len(LIGHT) and LIGHT.keys() == DARK.keys()
    assert not {i.hold for i in ICONS.values()} & set(LIGHT.values())


@pytest.mark.parametrize(("palette", "least"), [(LIGHT, 4.5), (DARK, 4.5)], ids=["light", "dark"])
def test_text_has_contrast(palette: dict[str, str], least: float) -> None:
    for text in ("ink", "muted", "memory", "hazard", "added", "changed"):
        for ground in ("paper", "card", "tone0", "tone1"):
            assert contrast(palette[text], palette[ground]) >= least, (text, ground)
    for line in ("line", "memory", "hazard", "added", "changed", "ink"):
        assert contrast(palette[line], palette["paper"]) >= 3, line


def contrast(a: str, b: str) -> float:
    """The ratio of WCAG 2."""
    first, second = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (first + 0.05) / (second + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_dot_names_are_plain_and_never_meet() -> None:
    names = [dot_name(name) for name in [*HOSTILE, "%a", "%a.1", "%a_1", "%a_2e_1"]]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9.%^@$_]*", name) for name in names)


def test_label_survives_entities() -> None:
    assert unlabel("&\u2060lt;") == "&lt;" and "&amp;" in label("&lt;")


def test_two_runs_are_byte_equal() -> None:
    assert draw(picture("name")).svg == draw(picture("name")).svg
    assert plain_svg(picture("name")) == plain_svg(picture("name"))
