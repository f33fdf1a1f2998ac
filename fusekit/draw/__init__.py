"""Graphs as pictures: Graph (and what differs) -> parts -> DOT text -> finished SVG. Nothing here imports torch."""

from fusekit.draw.diagram import VIEWS, Diagram, diagram, draw
from fusekit.draw.engine import engine_mend, engine_name
from fusekit.draw.looks import DARK, LIGHT, dark_rules

__all__ = ["DARK", "LIGHT", "VIEWS", "Diagram", "dark_rules", "diagram", "draw", "engine_mend", "engine_name"]
