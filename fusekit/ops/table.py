"""The table of pointwise ops that can be fused, and the three questions that other rooms ask it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from fusekit.dtypes import F32, F64, DType
from fusekit.ops import activation, arithmetic, comparison, conversion, logical, selection, transcendental
from fusekit.ops.entry import Call, Entry, Refusal, Refused, Scalar
from fusekit.ops.promotion import Kind

ENTRIES: dict[str, Entry] = {
    f"aten.{name}": entry
    for family in (arithmetic, transcendental, comparison, logical, selection, activation, conversion)
    for name, entry in family.ENTRIES.items()
}
"""Functional overload -> how it is computed."""

_IN_PLACE = {
    "aten.pow_.Scalar": "aten.pow.Tensor_Scalar",
    "aten.pow_.Tensor": "aten.pow.Tensor_Tensor",
    "aten.floor_divide_.Tensor": "aten.floor_divide.default",
    "aten.__iand__.Tensor": "aten.__and__.Tensor",
    "aten.__ior__.Tensor": "aten.__or__.Tensor",
    "aten.__ixor__.Tensor": "aten.__xor__.Tensor",
    "aten.__ilshift__.Tensor": "aten.__lshift__.Tensor",
    "aten.__irshift__.Tensor": "aten.__rshift__.Tensor",
    "aten.__iand__.Scalar": "aten.__and__.Scalar",
    "aten.__ior__.Scalar": "aten.__or__.Scalar",
    "aten.__ixor__.Scalar": "aten.__xor__.Scalar",
    "aten.__ilshift__.Scalar": "aten.__lshift__.Scalar",
    "aten.__irshift__.Scalar": "aten.__rshift__.Scalar",
}
_OUT = {"grad_input": "default", "out_mode": "Tensor_mode", "OutTensor": "Tensor", "self_out": "self"}
_OUT |= {"OutScalar_Self": "Scalar_Self", "OutScalar_Other": "Scalar_Other"}


@cache
def functional(target: str) -> str | None:
    """The functional overload of a pointwise overload (itself, in-place or ``out=``); None for any other target."""
    if target in ENTRIES:
        return target
    if target in _IN_PLACE:
        return _IN_PLACE[target]
    namespace, name, overload = (*target.split("."), "", "")[:3]
    if namespace != "aten":
        return None
    candidates = [f"aten.{name[:-1]}.{overload}"] if name.endswith("_") and not name.endswith("__") else []
    if overload == "out":
        candidates += [f"aten.{name}.default", f"aten.{name}.Tensor", f"aten.{name}.other"]
    elif overload in _OUT:
        candidates += [f"aten.{name}.{_OUT[overload]}"]
    elif overload.endswith("_out"):
        candidates += [f"aten.{name}.{overload.removesuffix('_out')}"]
    return next((candidate for candidate in candidates if candidate in ENTRIES), None)


def is_pointwise(target: str) -> bool:
    """Is ``target`` a functional, in-place or ``out=`` overload of the table?"""
    return functional(target) is not None


@cache
def _parameters(signature: str) -> tuple[tuple[str, ...], int, Mapping[str, object]]:
    """Names in order, how many may be positional, defaults."""
    arguments = ast.parse(f"def f({signature}): pass").body[0].args  # type: ignore[attr-defined]
    positional, keyword = arguments.args, arguments.kwonlyargs
    values = [*arguments.defaults, *(value for value in arguments.kw_defaults if value is not None)]
    optional = positional[len(positional) - len(arguments.defaults) :]
    optional += [name for name, value in zip(keyword, arguments.kw_defaults, strict=True) if value is not None]
    defaults = {name.arg: ast.literal_eval(value) for name, value in zip(optional, values, strict=True)}
    return tuple(name.arg for name in (*positional, *keyword)), len(positional), defaults


def bind(entry: Entry, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
    """Arguments by name; raises Refused for one that the entry does not know."""
    names, positional, defaults = _parameters(entry.signature)
    given = dict(zip(names[:positional], args, strict=False)) | dict(kwargs)
    unknown = [name for name in given if name not in names]
    if unknown or len(args) > positional:
        raise Refused(f"argument {unknown[0] if unknown else names[-1]} is not understood")
    missing = [name for name in names if name not in given and name not in defaults]
    if missing:
        raise Refused(f"argument {missing[0]} is missing")
    return {**defaults, **given}


def plan(
    target: str,
    args: Sequence[object],
    kwargs: Mapping[str, object] | Iterable[tuple[str, object]] = (),
    kinds: Sequence[Kind] = (),
    default: DType = F32,
) -> Scalar | Refusal:
    """What one element of a call of a *functional* overload is, or why kernels cannot compute it.

    ``args`` and ``kwargs`` as in an Op payload; ``kinds[k]`` describes operand k; ``default``: torch's default dtype.
    """
    entry = ENTRIES.get(target)
    if entry is None:
        return Refusal(f"{target} is not in the table of pointwise ops")
    try:
        call = Call(bind(entry, args, dict(kwargs)), kinds, default)
        result, body = entry.rule(call)
        if call.is_split():
            result, body = entry.rule(call)
    except Refused as refused:
        return Refusal(str(refused))
    except TypeError as error:  # promotion that torch refuses, or an operand that is no number
        return Refusal(str(error))
    numbers = tuple(number for _, number in sorted(call.numbers.items()))
    once = result is F64 and ("fma(" in body or "lerp(" in body)  # our float64 fma rounds twice
    return Scalar(result, call.operand_dtypes(), body, numbers, max(entry.ulps, int(once)), entry.absolute)
