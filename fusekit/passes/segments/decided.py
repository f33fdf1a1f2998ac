"""Decisions of a person: groups put together, kept apart, launched in a given order. An illegal one is an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from fusekit.errors import FusekitError
from fusekit.ids import NodeId
from fusekit.passes.segments import reasons
from fusekit.passes.segments.merge import Merger
from fusekit.passes.segments.units import Bar
from fusekit.why import Reason, Trial

Roots = Sequence[NodeId]
_AGAIN = "decide anew: it names stores and library calls of the exploration that was asked"


def put_in_order(merger: Merger, orders: Iterable[Roots]) -> None:
    """Groups of these stores and calls are launched in this order. Raises FusekitError against the program's order."""
    for wanted in orders:
        groups = [_group(merger, root, "order") for root in wanted]
        for (a, first), (b, then) in pairwise(zip(groups, wanted, strict=True)):
            if a == b:
                raise FusekitError(f"order: {first} and {then} are one kernel", first, "split it first")
            asked = Reason.of("asked-order", first=first, then=then)
            if merger.order.order(a, b, Bar(first, then, asked)) is not None:
                link = merger.order.link(b, a)
                bar = link.why if link else None
                why = reasons.must_follow(merger.graph, bar) if bar else "memory and other kernels order them so"
                what = f"order: {then} must run before {first}: {why}"
                raise FusekitError(what, "segments-are-ordered", "leave these two in their order")


def put_together(merger: Merger, sets: Iterable[Roots]) -> None:
    """The groups of each set are one kernel. Raises FusekitError with the order or the loops that forbid it."""
    for wanted in sets:
        groups = sorted({_group(merger, root, "merge") for root in wanted})
        if len(groups) < 2:
            continue
        names = " and ".join(merger.info[g].roots[0] for g in groups)
        if (obstacle := merger.obstacle(groups)) is not None:
            broken = "segments-are-ordered" if obstacle.name in ("cycle", "must-follow", "in-order") else obstacle.name
            raise FusekitError(f"merge: {names} cannot be one kernel: {obstacle}", broken, _mend(obstacle))
        saved, whole = 0, merger.info[groups[0]]
        for group in groups[1:]:
            saved, whole = saved + whole.saves(merger.info[group]), whole.with_(merger.info[group])
        if (refusal := merger.judge.refusal(whole.ops)) is not None:
            one, other = merger.info[groups[0]], merger.info[groups[1]]
            why = reasons.no_loops(one, other, refusal)
            raise FusekitError(f"merge: {names} cannot be one kernel: {why}", "one nest of loops", "keep them apart")
        reason = Reason.of("put-together")
        first, *rest = (merger.info[g].roots for g in groups)
        others = tuple(root for roots in rest for root in roots)
        merger.log.append(Trial(first, others, saved, merger.judge.asked(whole.ops), "merged", reason))
        merger.join(groups, reason)


def check_apart(merger: Merger, sets: Iterable[Roots]) -> None:
    """Raises FusekitError where the program itself leaves no choice."""
    for wanted in sets:
        groups = [_group(merger, root, "split") for root in wanted]
        if len(set(groups)) < len(groups):
            what = f"split: each of {', '.join(wanted)} overwrites what another one reads"
            raise FusekitError(what, "segments-are-ordered", "they run as one, or op by op")


def _group(merger: Merger, root: NodeId, what: str) -> int:
    found = next((k for k, unit in enumerate(merger.units) if unit.root == root), None)
    if found is None:
        raise FusekitError(f"{what}: there is no {root} any more", what, _AGAIN)
    return merger.order.home[found]


def _mend(obstacle: Reason) -> str:
    match obstacle.name:
        case "cycle":
            return f"merge what lies between as well: {obstacle['through']}"
        case "extern-call":
            return "merge kernels only: torch runs a library call"
        case "kept-apart":
            return "start from the exploration before that split"
        case _:
            return "keep them apart: a launch cannot read what it writes elsewhere"
