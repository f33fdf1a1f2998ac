"""From a PyTorch function to a graph of the program stage, with what a call needs to find its plan again."""

from fusekit.trace.ambient import ambient
from fusekit.trace.graph_of import graph_of
from fusekit.trace.numbers import differing, generalise, signature
from fusekit.trace.origin import at_line
from fusekit.trace.program import Call, Ref
from fusekit.trace.reach import MISSING, Entry
from fusekit.trace.record import record
from fusekit.trace.recording import Argument, Capture, Constant, Output, Recording, Source

__all__ = [
    "MISSING",
    "Argument",
    "Call",
    "Capture",
    "Constant",
    "Entry",
    "Output",
    "Recording",
    "Ref",
    "Source",
    "ambient",
    "at_line",
    "differing",
    "generalise",
    "graph_of",
    "record",
    "signature",
]
