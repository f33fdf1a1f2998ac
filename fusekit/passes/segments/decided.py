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
ORDERED = "it would break segments-are-ordered"


def put_in_order(merger: Merger, orders: Iterable[Roots]) -> None:
    """Groups of these stores and calls are launched in this order. Raises FusekitError against the program's order."""
    for wanted in orders:
        for (a, first), (b, then) in pairwise(_there(merger, wanted)):
            if a == b:
                raise FusekitError(f"order: {first} and {then} are one kernel", first, "split it first")
            asked = Reason.of("asked-order", first=first, then=then)
            if merger.order.order(a, b, Bar(first, then, asked)) is not None:
                link = merger.order.link(b, a)
                bar = link.why if link else None
                why = reasons.must_follow(merger.graph, bar) if bar else "memory and other kernels order them so"
                what = f"order: {then} must run before {first}: {why} ({ORDERED})"
                raise FusekitError(what, None, "leave these two in their order")


def put_together(merger: Merger, sets: Iterable[Roots]) -> None:
    """The groups of each set are one kernel. Raises FusekitError with the order or the loops that forbid it."""
    for wanted in sets:
        groups = sorted({group for group, _ in _there(merger, wanted)})
        if len(groups) < 2:
            continue
        names = " and ".join(merger.info[g].roots[0] for g in groups)
        if (obstacle := merger.obstacle(groups)) is not None:
            broken = f" ({ORDERED})" if obstacle.name in ("cycle", "must-follow", "in-order") else ""
            what = f"merge: {names} cannot be one kernel: {obstacle}{broken}"
            raise FusekitError(what, None, _mend(merger, obstacle))
        saved, whole = 0, merger.info[groups[0]]
        for group in groups[1:]:
            saved, whole = saved + whole.saves(merger.info[group]), whole.with_(merger.info[group])
        if (refusal := merger.judge.refusal(whole.ops)) is not None:
            one, other = merger.info[groups[0]], merger.info[groups[1]]
            why = reasons.no_loops(one, other, refusal)
            raise FusekitError(f"merge: {names} cannot be one kernel: {why}", None, "keep them apart")
        reason = Reason.of("put-together")
        first, *rest = (merger.info[g].roots for g in groups)
        others = tuple(root for roots in rest for root in roots)
        merger.log.append(Trial(first, others, saved, merger.judge.asked(whole.ops), "merged", reason))
        merger.join(groups, reason)


def check_apart(merger: Merger, sets: Iterable[Roots]) -> None:
    """Raises FusekitError where the program itself leaves no choice."""
    for wanted in sets:
        groups = [group for group, _ in _there(merger, wanted)]
        if len(set(groups)) < len(groups):
            what = f"split: each of {', '.join(wanted)} overwrites what another one reads ({ORDERED})"
            raise FusekitError(what, None, "they run as one, or op by op")


def check_there(merger: Merger, together: Iterable[Roots], others: Iterable[Roots]) -> None:
    """Raises FusekitError where decisions name what has gone. (What is ``together`` may need fewer stores.)"""
    known = {unit.root for unit in merger.units}
    named = [*(root for roots in others for root in roots)]
    named += [root for roots in together if len(known.intersection(roots)) < 2 for root in roots]
    if (gone := next((root for root in named if root not in known), None)) is not None:
        fix = "decide anew: it names stores and library calls of the exploration that was asked"
        raise FusekitError(f"there is no {gone} any more", None, fix)


def _there(merger: Merger, roots: Roots) -> list[tuple[int, NodeId]]:
    """(group, store or call) of those that there are: what is stored for later kernels comes once these are known."""
    units = {unit.root: k for k, unit in enumerate(merger.units)}
    return [(merger.order.home[units[root]], root) for root in roots if root in units]


def _mend(merger: Merger, obstacle: Reason) -> str:
    match obstacle.name:
        case "cycle":
            between = str(obstacle["through"])
            is_kernel = next(unit.kind != "call" for unit in merger.units if unit.root == between)
            return f"merge what lies between as well: {between}" if is_kernel else "the call must stay between them"
        case "extern-call":
            return "merge kernels only: torch runs a library call"
        case "kept-apart":
            return "start from the exploration before that split"
        case "asked-order":
            return "start from the exploration before that order"
        case _:
            return "keep them apart: a launch cannot read what it writes elsewhere"
