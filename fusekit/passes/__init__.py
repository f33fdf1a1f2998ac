"""The passes, and the one visible list of them in order."""

from fusekit.passes.alias_groups import AliasGroups
from fusekit.passes.base import Pass
from fusekit.passes.forward import Forward
from fusekit.passes.functionalize import Functionalize
from fusekit.passes.output_aliases import OutputAliases
from fusekit.passes.schedule import SchedulePass
from fusekit.passes.segment import SegmentOps
from fusekit.passes.sink_reshapes import SinkReshapes
from fusekit.passes.tidy import Tidy
from fusekit.passes.user import UserPass, as_pass

PIPELINE: tuple[Pass, ...] = (
    AliasGroups(),
    Functionalize(),
    OutputAliases(),
    Tidy(),
    SinkReshapes(),
    Forward(),
    SegmentOps(),
    SchedulePass(),
)

__all__ = [
    "PIPELINE",
    "AliasGroups",
    "Forward",
    "Functionalize",
    "OutputAliases",
    "Pass",
    "SchedulePass",
    "SegmentOps",
    "SinkReshapes",
    "Tidy",
    "UserPass",
    "as_pass",
]
