"""Where the parts of one side of a ladder stand: rows from the start axes down to the end axes, and lines that bend
around what stands between. Rows alternate: axes (even) and joints (odd); a line has a place of its own in each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import log2

from fusekit.draw.domains import Bar, Joint, Side
from fusekit.draw.looks import NAME, SMALL, TINY, text_width

GAP, LINE = 10.0, 8.0
Key = tuple[int, str]  # row, key in it


@dataclass(frozen=True, slots=True)
class Spot:
    """A part in its row: middle and width; ``what`` is None where a line only passes."""

    row: int
    x: float
    width: float
    what: Bar | Joint | str | None


@dataclass(frozen=True)
class Rungs:
    """``spots`` by key; ``lines``: keys from top to bottom with a look: plain, side (a row that is only looked at),
    loose, gone. ``rows``: how many there are; the last one is the end's."""

    spots: Mapping[Key, Spot]
    lines: tuple[tuple[tuple[Key, ...], str], ...]
    rows: int
    width: float


def bar_width(bar: Bar) -> float:
    """By log2 of the extent, as long as its words have room."""
    sigma = 14.0 if bar.reduced else 0.0
    lanes = 8.0 if bar.lanes else 0.0
    said = text_width(bar.name, NAME - 1, bold=True) + 6 + text_width(str(bar.extent), SMALL, mono=True)
    return max(20 + 11 * log2(max(bar.extent, 2)), said + 16 + lanes, text_width(bar.chip, TINY) + 12) + sigma


def joint_width(joint: Joint) -> float:
    return text_width(joint.text, TINY) + 18


def depth_of(side: Side) -> int:
    """Rows between which the parts of a side stand: the number of the last one."""
    levels = _levels(side)
    return max(2, 2 * max(levels.values(), default=0))


def rungs_of(side: Side, rows: int) -> Rungs:
    """The layout; ``rows``: the number of the last row, at least ``depth_of``."""
    plan = _Plan(side, rows)
    plan.add()
    return plan.place()


def _levels(side: Side) -> dict[str, int]:
    """Iteration domain -> how many transforms stand above it."""
    levels = {bar.node: 0 for bar in side.start}
    for joint in side.joints:
        level = max(levels[key] for key in (*joint.takes, *joint.reads)) + 1
        levels |= dict.fromkeys(joint.makes, level)
    return levels


@dataclass
class _Plan:
    """Rows being filled: (key -> width, what) in each, and the lines through them."""

    side: Side
    last: int
    rows: list[dict[str, tuple[float, Bar | Joint | str | None]]] = field(default_factory=list)
    lines: list[tuple[tuple[Key, ...], str]] = field(default_factory=list)
    below: dict[Key, list[Key]] = field(default_factory=dict)

    def add(self) -> None:
        side, levels = self.side, _levels(self.side)
        self.rows = [{} for _ in range(self.last + 1)]
        at: dict[str, Key] = {}
        for bar in side.start:
            at[bar.node] = self._part(0, bar.key, bar_width(bar), bar)
        for bar in side.end:
            self._part(self.last, bar.key, bar_width(bar), bar)
        made = {bar.node: bar for bar in side.middle}
        ends = {bar.node: bar.key for bar in side.end}
        for joint in side.joints:
            self._joint(joint, levels, made, ends, at)
        for node, key in ends.items():
            if node in at and at[node] != (self.last, key):
                self._line(at[node], (self.last, key), "plain")
        for first, then in side.loose:
            self._line((0, first), (self.last, then), "loose")
        for key, said in side.gone:
            wide = max(text_width(line, SMALL) for line in said.split("\n")) + 8
            self._line((0, key), self._part(self.last, f"gone{key}", wide, said), "gone")

    def _joint(
        self,
        joint: Joint,
        levels: Mapping[str, int],
        made: Mapping[str, Bar],
        ends: Mapping[str, str],
        at: dict[str, Key],
    ) -> None:
        level = levels[joint.makes[0]]
        spot = self._part(2 * level - 1, joint.node, joint_width(joint), joint)
        for node in joint.takes:
            self._line(at[node], spot, "plain")
        for node in joint.reads:
            self._line(at[node], spot, "side")
        for node in joint.makes:
            is_end = 2 * level == self.last and node in ends
            here = (
                (self.last, ends[node])
                if is_end
                else self._part(2 * level, f"made{node}", bar_width(made[node]), made[node])
            )
            at[node] = here
            self._line(spot, here, "plain")

    def _part(self, row: int, key: str, width: float, what: Bar | Joint | str | None) -> Key:
        self.rows[row][key] = width, what
        return row, key

    def _line(self, first: Key, then: Key, look: str) -> None:
        """A line with a place of its own in every row that it passes."""
        passed = (self._part(row, f"{first[1]}>{then[1]}", LINE, None) for row in range(first[0] + 1, then[0]))
        keys = [first, *passed, then]
        self.lines.append((tuple(keys), look))
        for a, b in pairwise(keys):
            self.below.setdefault(a, []).append(b)

    # ---- places

    def place(self) -> Rungs:
        """Upwards, each part over what it leads to; then down and up again, so that lines run straight."""
        above: dict[Key, list[Key]] = {}
        for a, under in self.below.items():
            for b in under:
                above.setdefault(b, []).append(a)
        x: dict[Key, float] = {}
        rows = range(self.last + 1)
        orders = {row: self._row(row, x, self.below, None) for row in reversed(rows)}
        for row in rows[1:]:
            self._row(row, x, above, orders[row])
        for row in reversed(rows[:-1]):
            self._row(row, x, self.below, orders[row])
        low = min((x[row, k] - w / 2 for row in rows for k, (w, _) in self.rows[row].items()), default=0)
        spots = {
            (row, key): Spot(row, x[row, key] - low, width, what)
            for row in rows
            for key, (width, what) in self.rows[row].items()
        }
        width = max((s.x + s.width / 2 for s in spots.values()), default=0.0)
        return Rungs(spots, tuple(self.lines), self.last, width)

    def _row(
        self, row: int, x: dict[Key, float], near: Mapping[Key, Sequence[Key]], order: list[str] | None
    ) -> list[str]:
        """Places the parts of a row near the middle of their neighbours; start and end axes keep their order."""
        parts = self.rows[row]
        wanted = {
            key: _middle([x[k] for k in near.get((row, key), ()) if k in x], x.get((row, key), 0.0)) for key in parts
        }
        if order is None:
            order = list(wanted) if row in (0, self.last) else sorted(wanted, key=lambda key: wanted[key])
        for key, middle in zip(order, _apart([(wanted[k], parts[k][0]) for k in order]), strict=True):
            x[row, key] = middle
        return order


def _middle(places: Sequence[float], alone: float) -> float:
    return sum(places) / len(places) if places else alone


def _apart(parts: Sequence[tuple[float, float]]) -> Iterator[float]:
    """Middles as near to the wanted ones as the order and the widths allow (least squares, by pooling neighbours)."""
    offsets, at = [], 0.0
    for _, width in parts:
        offsets.append(at + width / 2)
        at += width + GAP
    pools: list[list[float]] = []  # sum of what is wanted, count
    for (middle, _), offset in zip(parts, offsets, strict=True):
        pools.append([middle - offset, 1.0])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            total, count = pools.pop()
            pools[-1] = [pools[-1][0] + total, pools[-1][1] + count]
    fitted = [total / count for total, count in pools for _ in range(int(count))]
    yield from (fit + offset for fit, offset in zip(fitted, offsets, strict=True))
