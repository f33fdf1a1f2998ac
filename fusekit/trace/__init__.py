"""From a PyTorch function to a graph of the program stage, with what a call needs to find its plan again."""

from fusekit.trace.ambient import ambient
from fusekit.trace.graph_of import graph_of
from fusekit.trace.guards import Key, Looked, same_pattern
from fusekit.trace.numbers import Signature, differing, generalise, signature
from fusekit.trace.origin import at_line
from fusekit.trace.predicate import Predicate, predicate_of
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
    "Key",
    "Looked",
    "Output",
    "Predicate",
    "Recording",
    "Ref",
    "Signature",
    "Source",
    "ambient",
    "at_line",
    "differing",
    "generalise",
    "graph_of",
    "predicate_of",
    "record",
    "same_pattern",
    "signature",
]
