"""The functions that generated source calls, compiled for Numba or as plain Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType
from typing import Any

import numba

from fusekit import ops
from fusekit.run import intrinsics


def texts() -> Iterator[str]:
    """What the helpers do, as loaded: part of what a compiled kernel depends on, which Numba does not check."""
    for name, function in sorted(ops.functions().items()):
        yield f"{name} {_fingerprint(function.__code__)}"
    yield inspect.getsource(intrinsics)


def _fingerprint(code: CodeType) -> str:
    constants = [_fingerprint(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


@cache
def compiled() -> dict[str, Any]:
    """Every helper, callable from compiled code."""
    scalars = ops.linked(numba.njit(error_model="numpy", forceinline=True))
    return scalars | {name: getattr(intrinsics, name) for name in intrinsics.PLAIN}


@cache
def plain() -> dict[str, Callable[..., Any]]:
    """Every helper as Python over numpy scalars and raw memory."""
    return ops.functions() | intrinsics.PLAIN
