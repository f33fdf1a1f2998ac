"""The functions of the op table as CUDA device functions, beside the intrinsics: all that printed source may call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from fusekit import ops


def device(function: Callable[..., Any]) -> Any:
    """A device function, compiled where a kernel first calls it."""
    from numba import cuda

    return cuda.jit(device=True)(function)


@cache
def compiled() -> dict[str, Any]:
    """Name -> function for compiled kernels. An intrinsic stands in for a function of the table of the same name."""
    from fusekit.run.cuda import intrinsics
    from fusekit.run.cuda.libdevice import NUMPY

    def compile_one(function: Callable[..., Any]) -> Any:
        function.__globals__["np"] = NUMPY
        own = intrinsics.NAMES.get(function.__name__)
        return device(function) if own is None else own

    return {**intrinsics.NAMES, **ops.linked(compile_one), "np": NUMPY}


def plain() -> dict[str, Callable[..., Any]]:
    """The same names as Python over numpy scalars and raw memory, for one thread of a simulated grid."""
    from fusekit.run.cuda import standins

    return {**ops.functions(), **standins.NAMES}
