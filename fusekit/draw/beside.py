"""Arrows of the plain picture: through the free room between and beside boxes that stand in rows, never over a box."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

Point = tuple[float, float]
CLEAR = 7.0  # least room to the side of a box that is passed
FLOOR = 10.0  # how far below its row an arrow runs to another box of the row


class Rect(NamedTuple):
    """A box; all of one row have the same ``y``."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height


Rows = Sequence[Sequence[Rect]]


def rows_of(boxes: Iterable[Rect]) -> list[list[Rect]]:
    """Boxes by their row, from the top, each from the left."""
    rows: dict[float, list[Rect]] = {}
    for one in sorted(boxes, key=lambda box: (box.y, box.x)):
        rows.setdefault(one.y, []).append(one)
    return list(rows.values())


def route(tail: Rect, head: Rect, rows: Rows) -> list[Point]:
    """The corners of an arrow from one box to another, its ends included."""
    if tail.y < head.y:
        return _down(tail, head, rows)
    if tail.y > head.y:
        return _down(head, tail, rows)[::-1]
    return _across(tail, head, next(row for row in rows if row[0].y == tail.y))


def _down(tail: Rect, head: Rect, rows: Rows) -> list[Point]:
    points: list[Point] = [(tail.middle, tail.bottom)]
    for row in rows:
        floor = max(box.bottom for box in row)
        if row[0].y == tail.y:
            points.append((tail.middle, floor))  # a neighbour may be taller
        elif tail.y < row[0].y < head.y:
            share = (row[0].y - tail.y) / (head.y - tail.y)
            x = _clear(row, tail.middle + share * (head.middle - tail.middle))
            points += [(x, row[0].y), (x, floor)]
    points.append((head.middle, head.y))
    return [p for k, p in enumerate(points) if not k or p != points[k - 1]]


def _clear(row: Sequence[Rect], wanted: float) -> float:
    """The place nearest to ``wanted`` at which nothing of the row is near."""
    free: list[float] = []
    low = float("-inf")
    for box in row:
        if low <= box.x - CLEAR:
            free.append(min(max(wanted, low), box.x - CLEAR))
        low = box.right + CLEAR
    free.append(max(wanted, low))
    return min(free, key=lambda x: abs(x - wanted))


def _across(tail: Rect, head: Rect, row: Sequence[Rect]) -> list[Point]:
    """Side to side for neighbours, else below the row."""
    first, last = sorted((tail, head))
    if not any(first.x < box.x < last.x for box in row):
        ends = [(first.right, first.y + first.height / 2), (last.x, last.y + last.height / 2)]
        return ends if first is tail else ends[::-1]
    floor = max(box.bottom for box in row) + FLOOR
    return [(tail.middle, tail.bottom), (tail.middle, floor), (head.middle, floor), (head.middle, head.bottom)]
