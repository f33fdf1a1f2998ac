"""The functions that generated source calls, compiled for Numba or as plain Python."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numba

from fusekit import ops
from fusekit.run import intrinsics


def texts() -> Iterator[str]:
    """The source of all helpers: part of what a compiled kernel depends on, which Numba does not check."""
    homes = {function.__module__ for function in ops.functions().values()}
    for name in (*sorted(homes), intrinsics.__name__):
        yield inspect.getsource(sys.modules[name])


@cache
def compiled() -> dict[str, Any]:
    """Every helper, callable from compiled code."""
    scalars = ops.linked(numba.njit(error_model="numpy"))
    return scalars | {name: getattr(intrinsics, name) for name in intrinsics.PLAIN}


@cache
def plain() -> dict[str, Callable[..., Any]]:
    """Every helper as Python over numpy scalars and raw memory."""
    return ops.functions() | intrinsics.PLAIN
