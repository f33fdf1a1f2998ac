"""Reductions that blocks of a grid put together: the last block goes on with the whole, or all blocks wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

from fusekit.ids import NodeId
from fusekit.lower.loops import Loops, is_block
from fusekit.lower.program import LaunchAxis
from fusekit.lower.refuse import CannotLower
from fusekit.schedule.plan import Plan

MOST_TOGETHER = 1024
"""Blocks of a grid that wait for one another: all must be on the device at once (looked at again when it is loaded)."""


@dataclass(frozen=True, slots=True)
class Across:
    """``axes``: the blocks that some reduction folds. ``over``: "blocks" where only the last block needs the results,
    which ends the others; "grid" where all blocks go on with them, so that all wait."""

    over: Literal["blocks", "grid"]
    axes: tuple[LaunchAxis, ...]

    def is_last_alone(self, axis: LaunchAxis) -> bool:
        """Is only one block left along the axis when stores are done?"""
        return self.over == "blocks" and axis in self.axes


def across_blocks(plans: Mapping[NodeId, Plan], loops: Loops) -> Across | None:
    """How reductions over blocks are finished; None without one. Raises CannotLower."""
    blocks = [axis for axis in loops.axes if is_block(axis)]
    folds = [plan for plan in plans.values() if plan.is_fold and any(axis.var in plan.over for axis in blocks)]
    if not folds:
        return None
    axes = tuple(axis for axis in blocks if any(axis.var in plan.over for plan in folds))
    if any(plan.level for plan in folds):
        raise CannotLower(f"{folds[-1].op}: blocks put results together outside of loops only")
    if _is_last(folds, plans.values(), axes):
        return Across("blocks", axes)
    together = prod(max(axis.var.extent, 1) for axis in blocks)
    if together > MOST_TOGETHER:
        why = f"{together} blocks would wait for one another, and {MOST_TOGETHER} are the most"
        raise CannotLower(f"{folds[0].op}: only the last block has the result of all, and others need it: {why}")
    return Across("grid", axes)


def _is_last(folds: list[Plan], plans: Iterable[Plan], axes: tuple[LaunchAxis, ...]) -> bool:
    """Do all blocks put all their results together once, and does nothing later need what one block alone has?"""
    grid, step = {axis.var for axis in axes}, folds[0].steps[0]
    ops = {plan.op for plan in folds}
    if any(plan.steps[0] != step or not grid <= plan.over for plan in folds):
        return False
    later = [plan for plan in plans if plan.op not in ops and (not plan.is_fold or plan.steps[0] > step)]
    return not any(plan.free & grid for plan in later)
