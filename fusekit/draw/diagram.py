"""The door: a graph, or two and what differs, as a finished diagram."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fusekit.draw.aliases import aliases_picture
from fusekit.draw.dot import to_dot
from fusekit.draw.engine import lay_out
from fusekit.draw.far import far_picture, is_large
from fusekit.draw.finish import finish
from fusekit.draw.ladders import ladders_svg
from fusekit.draw.lanes import lanes_svg
from fusekit.draw.notes import Notes
from fusekit.draw.parts import Picture
from fusekit.draw.plain import plain_svg
from fusekit.draw.program import program_picture
from fusekit.draw.segments import segments_picture
from fusekit.errors import UnsupportedError
from fusekit.escape import html
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.kinds import PATH, expect
from fusekit.why import Explanation

if TYPE_CHECKING:
    from fusekit.lower.kernel import Kernel

VIEWS = ("program", "aliases", "segments", "domains", "memory")


@dataclass(frozen=True)
class Diagram:
    """A finished picture. ``dot`` is empty for a view that is drawn without Graphviz; ``engine`` laid it out."""

    svg: str
    dot: str
    title: str
    desc: str = ""
    engine: str = ""
    why: tuple[str, ...] = ()

    def save(self, path: str | Path) -> Path:
        """Write ``.svg`` or ``.dot``, by the path's ending. Raises UnsupportedError for another."""
        expect("save", path=(path, PATH))
        target = Path(path)
        text = {".svg": self.svg, ".dot": self.dot, ".gv": self.dot}.get(target.suffix.lower())
        if text is None:
            raise UnsupportedError(
                f"a diagram is not saved as {target.suffix or 'a file without ending'}", target, "use .svg or .dot"
            )
        if not text:
            raise UnsupportedError(
                "this view is drawn without Graphviz, so it has no DOT text", target, "save it as .svg"
            )
        target.write_text(text, encoding="utf-8")
        return target

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """An image that every viewer shows, also an untrusted notebook (which strips inline SVG), and a text."""
        data = base64.b64encode(self.svg.encode()).decode()
        image = f'<img alt="{html(self.desc or self.title)}" src="data:image/svg+xml;base64,{data}"/>'
        return {"text/html": image, "image/svg+xml": self.svg, "text/plain": self.desc or self.title}

    def __repr__(self) -> str:
        return f"<diagram {self.title!r}, {len(self.svg):,} bytes of SVG by {self.engine}>"


def diagram(
    graph: Graph,
    *,
    view: str = "program",
    explanations: Iterable[Explanation] = (),
    since: Graph | None = None,
    kernels: Mapping[NodeId, Kernel] | None = None,
    title: str = "",
    note: str = "",
    segment: str | None = None,
    far: bool | None = None,
    timeout: float | None = None,
) -> Diagram:
    """``view``: program, aliases, segments, domains or memory. ``since``: mark what was added, removed and changed
    since then.

    ``kernels`` (by segment) add race records and what runs before the loop. ``segment``: domains of this one only.
    ``far``: a segment (or a run of ops of one
    module) is one node; by default a large graph is. Raises UnsupportedError for an unknown view.
    """
    notes = Notes.of(graph, explanations, since)
    kernels = kernels or {}
    title = title or graph.name
    if view == "memory":
        svg, desc = lanes_svg(graph, notes, kernels, title, note)
        return Diagram(svg, "", title, desc, "fusekit")
    if view == "domains":
        svg, desc = ladders_svg(graph, notes, title, note, segment)
        return Diagram(svg, "", title, desc, "fusekit")
    is_far = is_large(graph, view) if far is None else far
    return draw(_picture(graph, view, notes, kernels, title, note, is_far), timeout)


def _picture(
    graph: Graph, view: str, notes: Notes, kernels: Mapping[NodeId, Kernel], title: str, note: str, far: bool
) -> Picture:
    if view not in VIEWS:
        raise UnsupportedError(f"there is no view {view!r}", None, f"choose one of {', '.join(VIEWS)}")
    if view == "aliases":
        return aliases_picture(graph, notes, title, note)
    if far:
        return far_picture(graph, notes, kernels, title, note)
    if view == "segments" and graph.segments():
        return segments_picture(graph, notes, kernels, title, note)
    return program_picture(graph, notes, title, note)


def draw(picture: Picture, timeout: float | None = None) -> Diagram:
    """A picture laid out by the best engine here; without one, or past the time, drawn plainly."""
    try:
        dot = to_dot(picture)
    except ImportError as error:
        return Diagram(plain_svg(picture), "", picture.title, picture.desc, "plain", (str(error),))
    laid = lay_out(dot, timeout)
    svg = plain_svg(picture) if laid.svg is None else finish(laid.svg, picture, laid.engine)
    return Diagram(svg, dot, picture.title, picture.desc, laid.engine, laid.why)
