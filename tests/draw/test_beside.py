"""No arrow of the plain picture runs over a box."""

from __future__ import annotations

import random
import re
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
import torch

import fusekit as fk
from fusekit.draw.beside import Point, Rect, route, rows_of
from fusekit.draw.engine import Laid
from fusekit.programs import PROGRAMS, Program

SVG = "{http://www.w3.org/2000/svg}"


def _is_over(a: Point, b: Point, box: Rect) -> bool:
    """Does the piece a-b enter the box (Liang-Barsky)? Its rim is no part of it."""
    low, high = 0.0, 1.0
    (x0, y0), (x1, y1) = a, b
    for start, end, least, most in ((x0, x1, box.x, box.right), (y0, y1, box.y, box.bottom)):
        least, most = least + 0.2, most - 0.2
        if start == end:
            if not least < start < most:
                return False
            continue
        near, far = sorted(((least - start) / (end - start), (most - start) / (end - start)))
        low, high = max(low, near), min(high, far)
    return low < high


def _check(points: list[Point], boxes: list[Rect]) -> None:
    for a, b in pairwise(points):
        assert not [box for box in boxes if _is_over(a, b, box)], (a, b)


@pytest.mark.parametrize("seed", range(30))
def test_random_rows(seed: int) -> None:
    draw = random.Random(seed)
    boxes, y = [], 0.0
    for _ in range(draw.randint(1, 5)):
        x, tallest = draw.uniform(0, 100), 0.0
        for _ in range(draw.randint(1, 6)):
            box = Rect(x, y, draw.uniform(20, 150), draw.uniform(10, 80))
            boxes.append(box)
            x, tallest = box.right + 26, max(tallest, box.height)
        y += tallest + 30
    rows = rows_of(boxes)
    for tail in boxes:
        for head in boxes:
            if tail is not head:
                points = route(tail, head, rows)
                assert len(points) > 1
                _check(points, boxes)


@pytest.mark.parametrize("program", PROGRAMS[:4], ids=lambda p: p.name)
def test_pictures_of_programs(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["fusekit.draw.diagram"], "lay_out", lambda *_: Laid(None, "plain"))
    x = fk.explore(program.fn, *program.make((5, 5), torch.float32))
    for step in x.steps:
        root = ET.fromstring(x.diagram(step.name).svg)
        assert root.get("data-engine") == "plain"
        groups = [g for g in root.iter(f"{SVG}g") if (g.get("class") or "").startswith("node")]
        boxes = [_rect(next(g.iter(f"{SVG}rect"))) for g in groups]
        lines = [line.get("points") or "" for line in root.iter(f"{SVG}polyline")]
        assert lines
        for line in lines:
            _check([(float(x), float(y)) for x, y in re.findall(r"([-\d.]+),([-\d.]+)", line)], boxes)


def _rect(element: ET.Element) -> Rect:
    return Rect(*(float(element.get(name) or 0) for name in ("x", "y", "width", "height")))
