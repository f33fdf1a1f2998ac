"""Bodies as Python: the functions they may call, and a body as a function of registers."""

import math
from collections.abc import Callable
from functools import cache
from types import FunctionType, ModuleType

import numpy as np

from fusekit.ops import activations, fastmath, scalar
from fusekit.ops.entry import Scalar


def _defined(module: ModuleType) -> dict[str, Callable]:
    own = {name: value for name, value in vars(module).items() if isinstance(value, FunctionType)}
    return {name: value for name, value in own.items() if value.__module__ == module.__name__}


@cache
def functions() -> dict[str, Callable]:
    """Every function that a body may call, by name, in an order in which each uses only earlier ones or numpy.

    They call one another as globals of their modules: to compile them, give each a copy whose globals hold the compiled
    ones (:func:`linked`).
    """
    return {**_defined(fastmath), **_defined(scalar), **_defined(activations)}


def linked(compile_one: Callable[[Callable], Callable]) -> dict[str, Callable]:
    """``functions()`` passed through ``compile_one`` (such as ``numba.njit``), calling each other's compiled forms.

    For Numba pass ``forceinline=True``: left as a call, a function such as ``erf_f32`` keeps a loop from vectorising.
    """
    names: dict[str, object] = {"np": np, "math": math, "__builtins__": __builtins__}
    done: dict[str, Callable] = {}
    for name, function in functions().items():
        copy = FunctionType(function.__code__, names, name, function.__defaults__)
        done[name] = names[name] = compile_one(copy)
    return done


def source(name: str, body: Scalar) -> str:
    """A Python function ``name(v0, v1, ..., n0, ...)`` of registers and parameters, as text."""
    values = [f"v{k}" for k in range(len(body.operands))]
    numbers = [f"n{number.index}" for number in body.numbers]
    text = body.body.format(*values, **{number: number for number in numbers})
    return f"def {name}({', '.join(values + numbers)}):\n    return {text}\n"


def compiled(body: Scalar) -> Callable:
    """The body as a plain Python function of numpy scalars; floating point warnings are the caller's (np.errstate)."""
    scope: dict[str, object] = {**functions(), "np": np, "math": math}
    exec(compile(source("element", body), "<body>", "exec"), scope)
    return scope["element"]  # type: ignore[return-value]
