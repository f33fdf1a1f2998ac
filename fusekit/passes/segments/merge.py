"""The merging: the whole first, else from single stores up, always the pair next that saves most bytes.

A pair is a candidate when both touch one block (what the bytes are saved of), run over one space, or one computes a
single element. It is merged when the order allows it and one nest of loops holds both; each trial is a row of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise

from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.passes.segments import reasons
from fusekit.passes.segments.groups import Group
from fusekit.passes.segments.judge import Judge, Ops
from fusekit.passes.segments.reach import Groups
from fusekit.passes.segments.units import Bar, Unit, order_of
from fusekit.why import Reason, Trial

NEAR = 6  # neighbours in program order that a group is tried with, where many touch one block
ALL = 12  # groups of one block that are all tried with one another
SHARES, SPACE, SINGLE = range(3)  # why a pair is a candidate, best first


@dataclass(frozen=True)
class Limits:
    """Most ops of a kernel joined over shared bytes (``values``), or only since it saves a launch (``unrelated``)."""

    values: int
    unrelated: int
    exact: bool = True


@dataclass
class Merger:
    """Groups under way. ``order`` is their order, ``info`` what is known of each, ``why`` what joined them last."""

    graph: Graph
    units: list[Unit]
    limits: Limits
    apart: tuple[frozenset[NodeId], ...] = ()
    refused_sets: Mapping[Ops, Reason] = field(default_factory=dict[Ops, Reason])
    log: list[Trial] = field(default_factory=list[Trial])

    def __post_init__(self) -> None:
        self.judge = Judge(self.graph, self.refused_sets)
        self.order = Groups[Bar](len(self.units), order_of(self.graph, self.units, self.limits.exact))
        self.info = {k: Group.of(self.graph, unit) for k, unit in enumerate(self.units)}
        self.why: dict[int, Reason] = {}
        self.refused: dict[tuple[int, int], Reason] = {}
        for first, *rest in self.order.circles:
            for one in rest:
                self.info[first] = self.info[first].with_(self.info.pop(one))
            self.why[first] = Reason.of("shares-memory")

    # ---- one pair, or several

    def obstacle(self, groups: Iterable[int]) -> Reason | None:
        """Why the order of the program, or a person, keeps these apart."""
        chosen = sorted(set(groups))
        for group in chosen:
            if not self.info[group].is_kernel:
                return reasons.extern_call(self.graph, self.info[group].roots[0])
        devices = sorted({device for group in chosen for device in self.info[group].devices})
        if len(devices) > 1:
            return Reason.of("devices-differ", first=devices[0], second=devices[1])
        if (bar := self.order.barred(chosen)) is not None:
            return reasons.must_follow(self.graph, bar)
        if (through := self.order.between(chosen)) is not None:
            return self._cycle(chosen, through)
        roots = {root for group in chosen for root in self.info[group].roots}
        if any(len(roots & kept) > 1 for kept in self.apart):
            return Reason.of("kept-apart")
        return None

    def _cycle(self, chosen: list[int], through: int) -> Reason:
        first = next(g for g in chosen if self.order.reaches(g, through))
        then = next(g for g in chosen if self.order.reaches(through, g))
        info = self.info
        is_kernel = info[through].is_kernel
        return reasons.cycle(info[through].roots[0], info[first].roots[0], info[then].roots[0], is_kernel)

    def join(self, groups: Iterable[int], why: Reason) -> int:
        """One group of several."""
        chosen = sorted(set(groups))
        kept = self.order.join(chosen)
        for other in chosen:
            if other != kept:
                self.info[kept] = self.info[kept].with_(self.info.pop(other))
                self.why.pop(other, None)
        self.why[kept] = why
        return kept

    def _try(self, a: int, b: int, kind: int, saved: int) -> int | None:
        """The group of both, or None where they stay apart; logged either way."""
        one, other = self.info[a], self.info[b]
        ops = one.ops | other.ops
        refusal = self.obstacle((a, b)) or self._too_large(one, other, kind) or self.no_loops(one, other)
        asked = self.judge.asked(ops) if refusal is None or refusal.name == "no-common-loops" else ()
        reason = refusal or self._because(one, other, kind)
        self.log.append(Trial(one.roots, other.roots, saved, asked, "refused" if refusal else "merged", reason))
        if refusal is not None:
            self.refused[a, b] = refusal
            return None
        return self.join((a, b), reason)

    def no_loops(self, one: Group, other: Group) -> Reason | None:
        """Why no nest of loops holds both."""
        refusal = self.judge.refusal(one.ops | other.ops)
        return None if refusal is None else reasons.no_loops(one, other, refusal)

    def _too_large(self, one: Group, other: Group, kind: int) -> Reason | None:
        if kind == SINGLE or (kind == SHARES and one.shares_written(other)):
            return None
        limit = self.limits.values if kind == SHARES else self.limits.unrelated
        count = len(one.ops | other.ops)
        option = "values" if kind == SHARES else "unrelated"
        return reasons.too_large(count, limit, option) if count > limit else None

    @staticmethod
    def _because(one: Group, other: Group, kind: int) -> Reason:
        if kind == SHARES:
            return Reason.of("shares-memory" if one.shares_written(other) else "shares-values")
        return Reason.of("same-space" if kind == SPACE else "one-element")

    # ---- all of them

    def run(self) -> None:
        """Everything in one kernel where that goes; else pair by pair."""
        kernels = [g for g in self.order.all() if self.info[g].is_kernel]
        if not self._whole(kernels):
            self._pairs(kernels)
        self._checks()

    def _whole(self, kernels: list[int]) -> bool:
        if len(kernels) < 3 or self.obstacle(kernels) is not None:
            return False
        ops = frozenset[NodeId]().union(*(self.info[g].ops for g in kernels))
        limit = self.limits.values if self._is_connected(kernels, SHARES) else self.limits.unrelated
        if len(ops) > limit or not self._is_connected(kernels, SINGLE) or self.judge.refusal(ops) is not None:
            return False
        first, *rest = (self.info[g] for g in kernels)
        saved, whole = 0, first
        for other in rest:
            saved, whole = saved + whole.saves(other), whole.with_(other)
        reason = Reason.of("whole-graph", count=len(kernels))
        others = tuple(root for group in rest for root in group.roots)
        self.log.append(Trial(first.roots, others, saved, self.judge.asked(ops), "merged", reason))
        self.join(kernels, reason)
        return True

    def _is_connected(self, kernels: list[int], most: int) -> bool:
        """Do candidate pairs, of these kinds or better, lead from every kernel to every other one?"""
        left, todo = set(kernels[1:]), kernels[:1]
        while todo:
            one = self.info[todo.pop()]
            kinds = ((g, _kind(one, self.info[g])) for g in sorted(left))
            near = [g for g, kind in kinds if kind is not None and kind <= most]
            left.difference_update(near)
            todo += near
        return not left

    def _pairs(self, kernels: list[int]) -> None:
        """The best pair first; ties go to sharing, then to the earlier groups."""
        waiting: list[tuple[int, int, int, int]] = []
        near: dict[int, set[int]] = {g: set() for g in kernels}
        for a, b in sorted(set(self._candidates(kernels))):
            self._push(waiting, near, a, b)
        heapify(waiting)
        while waiting:
            saved, kind, a, b = heappop(waiting)
            if a not in self.info or b not in self.info or (a, b) in self.refused:
                continue
            if (-self.info[a].saves(self.info[b]), _kind(self.info[a], self.info[b])) != (saved, kind):
                continue  # one of them has grown: it waits under another number
            kept = self._try(a, b, kind, -saved)
            if kept is None:
                continue
            gone = b if kept == a else a
            near[kept] = {g for g in near.pop(gone) | near[kept] if g in self.info and g != kept}
            for other in sorted(near[kept]):
                near[other].discard(gone)
                self.refused.pop((min(kept, other), max(kept, other)), None)
                self._push(waiting, near, min(kept, other), max(kept, other))

    def _push(self, waiting: list[tuple[int, int, int, int]], near: dict[int, set[int]], a: int, b: int) -> None:
        near[a].add(b)
        near[b].add(a)
        kind = _kind(self.info[a], self.info[b])
        if kind is not None:
            heappush(waiting, (-self.info[a].saves(self.info[b]), kind, a, b))

    def _candidates(self, kernels: list[int]) -> Iterator[tuple[int, int]]:
        """Pairs worth a trial: near in program order where many share a mark, else all of one mark."""
        marks: dict[object, list[int]] = {}
        for group in kernels:
            info = self.info[group]
            for block in dict.fromkeys((*info.reads, *info.writes)):
                marks.setdefault(block, []).append(group)
            marks.setdefault((info.space, info.reduced), []).append(group)
        for holders in marks.values():
            span = len(holders) if len(holders) <= ALL else NEAR
            for k, a in enumerate(holders):
                yield from ((a, b) for b in holders[k + 1 : k + 1 + span])
        for a, b in pairwise(kernels):
            if self.info[a].is_single or self.info[b].is_single:
                yield a, b

    # ---- looks at indices

    def _checks(self) -> None:
        """A look at indices leads the first kernel that comes after it and writes no index, the last look first."""
        for check in [k for k, unit in reversed(list(enumerate(self.units))) if unit.kind == "check"]:
            place = self.graph.operands(self.units[check].root)[0]
            for group in self.order.ordered():
                info = self.info.get(group)
                if info is None or not info.is_kernel or self.order.link(check, group) is None:
                    continue
                if self.graph.block_of(place) in info.writes or self.order.between((check, group)) is not None:
                    continue
                if self.order.barred((check, group)) is None:
                    self.join((check, group), self.why.get(group) or Reason.of("single-store"))
                    break


def _kind(a: Group, b: Group) -> int | None:
    """Why the two are a candidate; None where nothing speaks for it."""
    touched = {*a.reads, *a.writes}
    if not touched.isdisjoint((*b.reads, *b.writes)) and (a.saves(b) or a.shares_written(b)):
        return SHARES
    if (a.space, a.reduced) == (b.space, b.reduced):
        return SPACE
    return SINGLE if a.is_single or b.is_single else None
