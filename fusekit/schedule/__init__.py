"""Schedules as data, their text, and the schedulers that write them, one a file."""

from fusekit.schedule.alias import Alias
from fusekit.schedule.base import Chain, Cost, Lowers, Scheduler, Target
from fusekit.schedule.choose import SCHEDULERS, Choice, check_names, choose, fitted, segment_target
from fusekit.schedule.extern import Extern
from fusekit.schedule.fallback import Fallback
from fusekit.schedule.look import Access, Look, look
from fusekit.schedule.nested import Nested
from fusekit.schedule.nesting import cannot_nest, reference_among
from fusekit.schedule.persistent import Persistent
from fusekit.schedule.phases import phases
from fusekit.schedule.pointwise import Pointwise
from fusekit.schedule.record import Placements, Schedule, Tile
from fusekit.schedule.reduction import Reduction
from fusekit.schedule.resize import Resize
from fusekit.schedule.text import parse_schedule
from fusekit.schedule.transpose import Transpose

__all__ = [
    "SCHEDULERS",
    "Access",
    "Alias",
    "Chain",
    "Choice",
    "Cost",
    "Extern",
    "Fallback",
    "Look",
    "Lowers",
    "Nested",
    "Persistent",
    "Placements",
    "Pointwise",
    "Reduction",
    "Resize",
    "Schedule",
    "Scheduler",
    "Target",
    "Tile",
    "Transpose",
    "cannot_nest",
    "check_names",
    "choose",
    "fitted",
    "look",
    "parse_schedule",
    "phases",
    "reference_among",
    "segment_target",
]
