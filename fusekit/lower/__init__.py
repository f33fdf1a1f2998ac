"""From a segment to a kernel: pull values, place stores, protect loads, print one readable source."""

from fusekit.lower.kernel import Kernel, can_lower, lower_segment, lowers
from fusekit.lower.program import Param, Program
from fusekit.lower.refuse import CannotLower

__all__ = ["CannotLower", "Kernel", "Param", "Program", "can_lower", "lower_segment", "lowers"]
