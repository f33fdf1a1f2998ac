"""Units joined into groups under an order that must stay free of cycles.

Contracting (u, v) is safe iff no other path of length 2 or more leads from one to the other. Sets of groups are bits of
a Python int, so that a question costs a few machine words however long the program is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

import networkx as nx

L = TypeVar("L")


@dataclass(frozen=True, slots=True)
class Link(Generic[L]):
    """One group must be done before the other; ``why`` is set where no launch may hold both."""

    why: L | None = None


class Groups(Generic[L]):
    """``count`` units, each a group at first; a group is named by its first unit."""

    def __init__(self, count: int, links: Iterable[tuple[int, int, L | None]]):
        """``links``: (before, after, why no launch may hold both, or None). Those that go in a circle become one."""
        self.units: dict[int, tuple[int, ...]] = {k: (k,) for k in range(count)}
        self.home = list(range(count))
        self._after: dict[int, dict[int, Link[L]]] = {k: {} for k in range(count)}
        self._before: dict[int, set[int]] = {k: set() for k in range(count)}
        for first, then, why in links:
            self._link(first, then, Link(why))
        self.circles = self._open_circles(count)
        self._below = dict.fromkeys(range(count), 0)
        for group in reversed(self.ordered()):
            self._below[group] = self._reached(group)

    def _link(self, first: int, then: int, link: Link[L]) -> None:
        if first == then:
            return
        old = self._after[first].get(then)
        self._after[first][then] = link if old is None or old.why is None else old
        self._before[then].add(first)

    def _open_circles(self, count: int) -> tuple[tuple[int, ...], ...]:
        """Contracts what waits for one another; the units of each."""
        order: nx.DiGraph[int] = nx.DiGraph()
        order.add_nodes_from(range(count))
        order.add_edges_from((a, b) for a in range(count) for b in self._after[a])
        found = sorted(tuple(sorted(c)) for c in nx.strongly_connected_components(order) if len(c) > 1)
        for circle in found:
            for one in circle[1:]:
                self._contract(circle[0], one)
        return tuple(found)

    def _reached(self, group: int) -> int:
        below = 0
        for then in self._after[group]:
            below |= self._below[then] | 1 << then
        return below

    # ---- questions

    def all(self) -> list[int]:
        return list(self.units)

    def reaches(self, first: int, then: int) -> bool:
        """Must ``first`` be done before ``then``?"""
        return bool(self._below[first] >> then & 1)

    def link(self, first: int, then: int) -> Link[L] | None:
        """What says so directly."""
        return self._after[first].get(then)

    def between(self, groups: Iterable[int]) -> int | None:
        """A group outside that must run after one of these and before another: with it there, they are not one."""
        chosen = sorted(set(groups))
        inside = sum(1 << g for g in chosen)
        outside = {w for g in chosen for w in self._after[g] if not inside >> w & 1}
        return next((w for w in sorted(outside) if self._below[w] & inside), None)

    def barred(self, groups: Iterable[int]) -> L | None:
        """Why no launch may hold two of these, where the order says so."""
        chosen = set(groups)
        found = (link.why for g in sorted(chosen) for w, link in self._after[g].items() if w in chosen)
        return next((why for why in found if why is not None), None)

    def ordered(self) -> list[int]:
        """Groups in an order in which they can run, as near to that of their first units as it goes."""
        waits = {group: len(self._before[group]) for group in self.units}
        ready = [group for group, n in waits.items() if not n]
        heapify(ready)
        done: list[int] = []
        while ready:
            done.append(heappop(ready))
            for then in self._after[done[-1]]:
                waits[then] -= 1
                if not waits[then]:
                    heappush(ready, then)
        return done

    # ---- edits

    def order(self, first: int, then: int, why: L) -> int | None:
        """``then`` runs after ``first`` from now on; a group on the way back where it must not, else None."""
        if self.reaches(then, first):
            return then
        self._link(first, then, Link(why))
        gained = self._below[then] | 1 << then
        for group in self.units:
            if group == first or self.reaches(group, first):
                self._below[group] |= gained
        return None

    def join(self, groups: Iterable[int]) -> int:
        """One group of several; ``between`` and ``barred`` were asked before."""
        first, *rest = sorted(set(groups))
        for other in rest:
            self._contract(first, other)
        gone = sum(1 << g for g in rest)
        mine = self._reached(first)
        for group in self.units:
            below = self._below[group]
            if group == first or below & (gone | 1 << first):
                self._below[group] = (below & ~gone) | mine | (0 if group == first else 1 << first)
        for other in rest:
            del self._below[other]
        return first

    def _contract(self, kept: int, gone: int) -> None:
        for then, link in self._after.pop(gone).items():
            self._before[then].discard(gone)
            self._link(kept, then, link)
        for before in self._before.pop(gone):
            if (link := self._after[before].pop(gone, None)) is not None:
                self._link(before, kept, link)
        for unit in self.units[gone]:
            self.home[unit] = kept
        self.units[kept] = tuple(sorted((*self.units[kept], *self.units.pop(gone))))
