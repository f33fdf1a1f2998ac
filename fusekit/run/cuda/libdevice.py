"""numpy's float functions in compiled CUDA kernels, and those of the op table that libdevice has: as eager's on a GPU.

``NUMPY`` stands in for the module ``np`` in device functions: numba-cuda knows few ufuncs of scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from fusekit.run.cuda.arithmetic import FLOATS, TABLE, call, extremum, pointwise
from fusekit.run.cuda.numba_api import intrinsic, types

_UNARY = {
    "ceil": "ceil", "cos": "cos", "cosh": "cosh", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "fabs": "fabs",
    "floor": "floor", "log": "log", "log10": "log10", "log1p": "log1p", "log2": "log2", "rint": "rint", "sin": "sin",
    "sinh": "sinh", "tan": "tan", "tanh": "tanh", "trunc": "trunc", "arccos": "acos", "arccosh": "acosh",
    "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctanh": "atanh",
}  # fmt: skip
_BINARY = {"arctan2": "atan2", "copysign": "copysign", "fmod": "fmod", "hypot": "hypot", "power": "pow"}
_TABLE = {"exp_f32": "exp", "log_f32": "log", "tanh_f32": "tanh", "erf_f32": "erf", "sin_f32": "sin",
          "cos_f32": "cos"}  # fmt: skip
_ORDER = {
    "maximum": ("max", ">", True), "clamp_min": ("max", ">", True), "fmax": ("max", ">", False),
    "minimum": ("min", "<", True), "clamp_max": ("min", "<", True), "fmin": ("min", "<", False),
}  # fmt: skip
_CONSTANTS = ("inf", "nan", "bool_", *(f"{kind}{n}" for kind in ("int", "uint") for n in (8, 16, 32, 64)))


def _function(stem: str) -> Callable[..., Any]:
    def lane(builder: Any, kind: Any, *args: Any) -> Any:
        letter, llvm = FLOATS[kind]
        return call(builder, f"__nv_{stem}{'f' if letter == 'f' else ''}", llvm, list(args))

    return lane


def _ordered(word: str, sign: str, propagates: bool) -> Callable[..., Any]:
    """The larger or the smaller as CUDA orders them: -0 is less than 0. ``propagates``: NaN wins, with its own bits."""
    of_integers = extremum(word, sign)

    def lane(builder: Any, kind: Any, a: Any, b: Any) -> Any:
        if kind not in FLOATS:
            return of_integers(builder, kind, a, b)
        found = _function(f"f{word}")(builder, kind, a, b)
        for value in (b, a) if propagates else ():
            found = builder.select(builder.fcmp_unordered("uno", value, value), value, found)
        return found

    return lane


def _test(name: str) -> Any:
    """isnan, isinf or isfinite of one float."""

    def test(context: Any, x: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = args[0]
            if name == "isnan":
                return builder.fcmp_unordered("uno", value, value)
            size = _function("fabs")(builder, types.unliteral(x), value)
            return builder.fcmp_ordered("==" if name == "isinf" else "<", size, value.type(float("inf")))

        return types.boolean(types.unliteral(x)), build

    test.__name__ = test.__qualname__ = name
    return intrinsic(test)


def _module() -> ModuleType:
    module = ModuleType("np")
    for name in (*_CONSTANTS, "float32", "float64"):
        setattr(module, name, getattr(np, name))
    for names, operands in ((_UNARY, 1), (_BINARY, 2)):
        for name, stem in names.items():
            setattr(module, name, pointwise(name, operands, _function(stem), False))
    for name in ("isnan", "isinf", "isfinite"):
        setattr(module, name, _test(name))
    vars(module)["sqrt"] = pointwise("sqrt", 1, TABLE["sqrt_rn"][1], False)
    return module


NUMPY = _module()
NAMES = {name: pointwise(name, 1, _function(stem), True) for name, stem in _TABLE.items()}
NAMES |= {name: pointwise(name, 2, _ordered(*row), False) for name, row in _ORDER.items()}
