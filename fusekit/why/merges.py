"""The merge log: every pair that the segmenter tried to make one kernel of, as data and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, overload

from fusekit.escape import html, line
from fusekit.ids import NodeId
from fusekit.why.reasons import Reason

SHOWN = 4  # stores of one side in a table
TAKES = "takes it"
PLAIN = "mathjax_ignore"  # a page with MathJax takes what stands between two dollar signs, our segments, for a formula
LEFT = 'style="text-align:left"'  # notebooks set numbers, which most of this is not


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial: two groups (each named by its stores and calls), the bytes that one kernel of both would save besides
    a launch, which schedulers were asked and what each said ("takes it", or its refusal), and the verdict."""

    first: tuple[NodeId, ...]
    second: tuple[NodeId, ...]
    saved: int
    asked: tuple[tuple[str, str], ...]
    verdict: Literal["merged", "refused"]
    reason: Reason

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """The row of the table: pair, bytes saved, schedulers asked, verdict, reason."""
        return _pair(self), f"{self.saved:,}", self._asked(), self.verdict, str(self.reason)

    def _asked(self) -> str:
        """``persistent takes it, 2 refuse``"""
        takes = [name for name, said in self.asked if said == TAKES]
        refuse = len(self.asked) - len(takes)
        words = [f"{name} takes it" for name in takes] + ([f"{refuse} refuse"] if refuse else [])
        return ", ".join(words) or "nobody"

    @property
    def asked_lines(self) -> tuple[str, ...]:
        """One line for each thing that was said, with those who said it."""
        said = dict.fromkeys(words for _, words in self.asked)
        return tuple(f"{', '.join(name for name, its in self.asked if its == words)}: {words}" for words in said)


class Merges(Sequence[Trial]):
    """The log of one exploration, in the order in which pairs were tried; prints as a table."""

    HEAD = ("pair", "bytes saved", "schedulers asked", "verdict", "because")

    def __init__(self, rows: Sequence[Trial]):
        self.rows = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> Trial: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Trial]: ...
    def __getitem__(self, index: int | slice) -> Trial | Sequence[Trial]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.rows)

    def __repr__(self) -> str:
        if not self.rows:
            return "no pair was tried: there is one group of stores, or none"
        rows = [self.HEAD, *(tuple(map(line, row.cells)) for row in self.rows)]
        widths = [min(max(len(row[k]) for row in rows), 48) for k in range(4)]
        return "\n".join(
            "  ".join([*(c.ljust(w) for c, w in zip(row[:4], widths, strict=True)), row[4]]) for row in rows
        )

    def _repr_html_(self) -> str:
        head = "".join(f"<th {LEFT}>{name}</th>" for name in self.HEAD)
        body = "".join(f"<tr>{''.join(f'<td {LEFT}>{cell}</td>' for cell in _html(row))}</tr>" for row in self.rows)
        return f'<table class="{PLAIN}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _html(row: Trial) -> list[str]:
    pair, saved, _, verdict, reason = map(html, row.cells)
    return [pair, saved, "<br>".join(map(html, row.asked_lines)) or "nobody", verdict, reason]


def _pair(row: Trial) -> str:
    return f"{_side(row.first)} + {_side(row.second)}"


def _side(names: tuple[NodeId, ...]) -> str:
    shown = " ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} (and {len(names) - SHOWN} more)"
