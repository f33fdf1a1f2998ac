"""Iteration domains: transforms, the id graph and indices derived over it, loop domains, allocations, replay.

Loop and allocation are two chains that both start at logical, so neither has to pass through the other.
"""

from fusekit.domains.allocation import Allocation
from fusekit.domains.exact import Derived, Expr, IdGraph
from fusekit.domains.loop import Axes, LoopDomain
from fusekit.domains.reference import (
    Placed,
    Reference,
    place,
    reduced_dims,
    reductions,
    reference_of,
    roots,
    space_of,
)
from fusekit.domains.replay import accesses, guards, needed_from, tensor_domain
from fusekit.domains.store import read_allocation, read_loops, write_allocation, write_loops
from fusekit.domains.transforms import (
    MergeAxes,
    Parallelize,
    ReorderAxes,
    SplitAligned,
    SplitBy,
    TransformBy,
    print_chain,
)

__all__ = [
    "Allocation",
    "Axes",
    "Derived",
    "Expr",
    "IdGraph",
    "LoopDomain",
    "MergeAxes",
    "Parallelize",
    "Placed",
    "Reference",
    "ReorderAxes",
    "SplitAligned",
    "SplitBy",
    "TransformBy",
    "accesses",
    "guards",
    "needed_from",
    "place",
    "print_chain",
    "read_allocation",
    "read_loops",
    "reduced_dims",
    "reductions",
    "reference_of",
    "roots",
    "space_of",
    "tensor_domain",
    "write_allocation",
    "write_loops",
]
