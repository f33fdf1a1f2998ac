"""The line of an order that nothing protects."""

from __future__ import annotations

import itertools
import math
import re

STEP, SWING = 5.0, 2.6  # px along the line and across it


def zigzag(path: str) -> str:
    """The path data of a zigzag along a Bezier path of Graphviz (``M p C a b p a b p ...``)."""
    numbers = [float(n) for n in re.findall(r"-?[\d.]+", path)]
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    dense = [points[0]]
    for k in range(0, len(points) - 3, 3):
        dense += [_bezier(points[k : k + 4], step / 24) for step in range(1, 25)]
    out, left, side = [dense[0]], STEP, 1
    for (x0, y0), (x1, y1) in itertools.pairwise(dense):
        length = math.hypot(x1 - x0, y1 - y0)
        left -= length
        if left <= 0 and length:
            out.append((x1 + side * SWING * (y0 - y1) / length, y1 + side * SWING * (x1 - x0) / length))
            left, side = STEP, -side
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in [*out, dense[-1]])


def _bezier(points: list[tuple[float, float]], t: float) -> tuple[float, float]:
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    return sum(w * p[0] for w, p in zip(weights, points, strict=True)), sum(
        w * p[1] for w, p in zip(weights, points, strict=True)
    )
