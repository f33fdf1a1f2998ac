"""The stylesheet and the script that the widget and the one-file page share, made from the files in ``static``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fusekit.draw import DARK, LIGHT, dark_rules

STATIC = Path(__file__).parent / "static"
SCRIPTS = ("moves.js", "picture.js", "zoom.js", "panes.js", "stepper.js")  # joined in this order: one module


@cache
def script() -> str:
    """One ES module whose default export is what anywidget wants; it imports nothing and asks no network."""
    return "\n".join((STATIC / name).read_text("utf-8") for name in SCRIPTS)


@cache
def stylesheet() -> str:
    """The tokens of the pictures in both themes, then the rules; all of it holds only inside ``.fk-stepper``."""
    light, dark = (
        ";".join(f"--fk-{token.replace('_', '-')}:{value}" for token, value in palette.items())
        for palette in (LIGHT, DARK)
    )
    tokens = (
        f".fk-stepper{{color-scheme:light;{light}}}\n"
        f".fk-stepper[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
        f"{dark_rules('.fk-stepper[data-theme=dark] svg ')}\n"
    )
    return tokens + (STATIC / "stepper.css").read_text("utf-8")
