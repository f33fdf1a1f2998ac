"""The passes, and the one visible list of them in order."""

from fusekit.passes.alias_groups import AliasGroups
from fusekit.passes.base import Pass
from fusekit.passes.functionalize import Functionalize
from fusekit.passes.schedule import SchedulePass
from fusekit.passes.segment import SegmentOps
from fusekit.passes.user import UserPass, as_pass

PIPELINE: tuple[Pass, ...] = (AliasGroups(), Functionalize(), SegmentOps(), SchedulePass())

__all__ = ["PIPELINE", "AliasGroups", "Functionalize", "Pass", "SchedulePass", "SegmentOps", "UserPass", "as_pass"]
