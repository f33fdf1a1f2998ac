"""Memory: exact overlap of layouts, relations between index maps, races, eager's memory errors. No torch.

Everything is in bytes of a block. A layout's offset may hang on parameters; what is said then holds for all of them.
"""

from fusekit.memory.access import Access, Race, Refused, Unless, Verdict
from fusekit.memory.blocks import join
from fusekit.memory.checks import (
    Status,
    as_strided_error,
    is_dense,
    is_expanded,
    memory_error,
    operand_error,
    overlap_status,
    write_error,
)
from fusekit.memory.describe import describe
from fusekit.memory.hull import hull
from fusekit.memory.lists import Item, goes_at_once, rows_meet
from fusekit.memory.overlap import Overlap, has_internal_overlap, meets, overlap, ranges_meet, shared_bytes
from fusekit.memory.races import Remedies, race, remedies
from fusekit.memory.relation import Kind, Relation, locate, nested, relate
from fusekit.memory.sharing import Sharing, sharing

__all__ = [
    "Access",
    "Item",
    "Kind",
    "Overlap",
    "Race",
    "Refused",
    "Relation",
    "Remedies",
    "Sharing",
    "Status",
    "Unless",
    "Verdict",
    "as_strided_error",
    "describe",
    "goes_at_once",
    "has_internal_overlap",
    "hull",
    "is_dense",
    "is_expanded",
    "join",
    "locate",
    "meets",
    "memory_error",
    "nested",
    "operand_error",
    "overlap",
    "overlap_status",
    "race",
    "ranges_meet",
    "relate",
    "remedies",
    "rows_meet",
    "shared_bytes",
    "sharing",
    "write_error",
]
