"""Pointwise ops that can be fused: one table of ops, one of scalar semantics; and what is special about the others."""

from fusekit.ops.entry import Refusal, Scalar
from fusekit.ops.evaluate import compiled, functions, linked, source
from fusekit.ops.promotion import SUPPORTED, Kind, result_type
from fusekit.ops.table import functional, is_pointwise, plan
from fusekit.ops.text import REGISTER, cast, literal, opmath

__all__ = [
    "REGISTER",
    "SUPPORTED",
    "Kind",
    "Refusal",
    "Scalar",
    "cast",
    "compiled",
    "functional",
    "functions",
    "is_pointwise",
    "linked",
    "literal",
    "opmath",
    "plan",
    "result_type",
    "source",
]
