"""What a program is: payloads, the frozen graph, its only writer, invariants, differences and text."""

from fusekit.ir.diff import GraphDiff, diff
from fusekit.ir.draft import Draft, PassResult
from fusekit.ir.graph import INPUT, RETURN, Graph, empty_graph
from fusekit.ir.invariants import FUNCTIONAL, PROGRAM, SEGMENTED, Invariant
from fusekit.ir.layout import Layout
from fusekit.ir.parse import parse
from fusekit.ir.payloads import (
    Block,
    Boundary,
    Def,
    Guard,
    Lives,
    Member,
    Number,
    Op,
    Operand,
    Ordering,
    Origin,
    Segment,
    Symbol,
    Tensor,
    Use,
)
from fusekit.ir.text import print_explanations, print_graph

__all__ = [
    "FUNCTIONAL",
    "INPUT",
    "PROGRAM",
    "RETURN",
    "SEGMENTED",
    "Block",
    "Boundary",
    "Def",
    "Draft",
    "Graph",
    "GraphDiff",
    "Guard",
    "Invariant",
    "Layout",
    "Lives",
    "Member",
    "Number",
    "Op",
    "Operand",
    "Ordering",
    "Origin",
    "PassResult",
    "Segment",
    "Symbol",
    "Tensor",
    "Use",
    "diff",
    "empty_graph",
    "parse",
    "print_explanations",
    "print_graph",
]
