"""What a program is: payloads, the frozen graph, its only writer, invariants, differences and text."""

from fusekit.ir import core
from fusekit.ir.arguments import Guard, Number, Operand, Symbol, exact, is_tuple, leaves
from fusekit.ir.diff import GraphDiff, diff
from fusekit.ir.domains import (
    AlignedSplit,
    Axis,
    DomainKind,
    IterDomain,
    Kind,
    Merge,
    Parallel,
    Split,
    TensorDomain,
    Transform,
)
from fusekit.ir.draft import Draft, PassResult
from fusekit.ir.graph import INPUT, RETURN, Graph, empty_graph
from fusekit.ir.invariants import FUNCTIONAL, PROGRAM, SCHEDULED, SEGMENTED, UNSEGMENTED, Invariant
from fusekit.ir.layout import Layout
from fusekit.ir.parse import parse
from fusekit.ir.payloads import (
    SCHEDULERS,
    Block,
    Boundary,
    Def,
    Lives,
    Member,
    Op,
    Ordering,
    Origin,
    Segment,
    Tensor,
    Use,
)
from fusekit.ir.text import print_explanations, print_graph
from fusekit.ir.trials import OnTrial

__all__ = [
    "FUNCTIONAL",
    "INPUT",
    "PROGRAM",
    "RETURN",
    "SCHEDULED",
    "SCHEDULERS",
    "SEGMENTED",
    "UNSEGMENTED",
    "AlignedSplit",
    "Axis",
    "Block",
    "Boundary",
    "Def",
    "DomainKind",
    "Draft",
    "Graph",
    "GraphDiff",
    "Guard",
    "Invariant",
    "IterDomain",
    "Kind",
    "Layout",
    "Lives",
    "Member",
    "Merge",
    "Number",
    "OnTrial",
    "Op",
    "Operand",
    "Ordering",
    "Origin",
    "Parallel",
    "PassResult",
    "Segment",
    "Split",
    "Symbol",
    "Tensor",
    "TensorDomain",
    "Transform",
    "Use",
    "core",
    "diff",
    "empty_graph",
    "exact",
    "is_tuple",
    "leaves",
    "parse",
    "print_explanations",
    "print_graph",
]
