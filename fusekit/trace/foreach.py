"""``torch._foreach_*`` as one call a tensor, in the order and with the overloads that eager's slow path runs.

Source: aten/src/ATen/native/ForeachOpsKernels.cpp. Lists that are no pointwise op stay one library call, and so do
those on a GPU of which one tensor is written and shares memory with another: eager's kernel goes through all at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from fusekit.ir import Layout
from fusekit.memory import Item, goes_at_once, rows_meet
from fusekit.torch_types import FROM_TORCH
from fusekit.trace.program import Call, Place, Ref, Room

aten = torch.ops.aten
_UNARY = frozenset(
    (
        "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
        "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh",
        "sqrt", "tan", "tanh", "trunc", "zero",
    )
)  # fmt: skip
_ARITHMETIC = ("add", "sub", "mul", "div")
_LIMITS = {"clamp_min": "clamp_min", "clamp_max": "clamp_max", "maximum": "clamp_min", "minimum": "clamp_max"}


def expanded(call: Call, now: Mapping[int, Place], rooms: Sequence[Room]) -> Iterator[Call]:
    """The calls that a foreach call stands for; the call itself where there is no rule for it. ``now``: the place of
    every object at this point; ``rooms``: the storages."""
    overload = _overload(call.target)
    if overload is None or not _is_rectangular(call) or _is_unordered(call, now, rooms):
        yield call
        return
    for k, ref in enumerate(call.args[0]):
        args = tuple(_item(value, k) for value in call.args)
        kwargs = {name: _item(value, k) for name, value in call.kwargs.items()}
        args, kwargs = _spelled(call, args, kwargs)
        if call.results:
            yield Call(overload, args, kwargs, (call.results[k],), (call.places[k],), (), call.origin)
        else:
            yield Call(overload, args, kwargs, (ref.index,), (now[ref.index],), (ref.index,), call.origin)


def _item(value: Any, k: int) -> Any:
    return value[k] if isinstance(value, (list, tuple)) and type(value) is not Ref else value


def _is_rectangular(call: Call) -> bool:
    lists = [v for v in call.args if isinstance(v, (list, tuple)) and type(v) is not Ref]
    first = call.args[0] if call.args else None
    return isinstance(first, (list, tuple)) and all(len(v) == len(first) for v in lists)


def _is_unordered(call: Call, now: Mapping[int, Place], rooms: Sequence[Room]) -> bool:
    """Do the rows meet in memory that one of them writes, on a device that goes through them at once?"""
    if not call.writes or not any(goes_at_once(str(now[number].device)) for number in call.writes):
        return False
    items: list[Item] = []
    for argument in (*call.args, *call.kwargs.values()):
        is_list = isinstance(argument, (list, tuple)) and type(argument) is not Ref
        for row, ref in enumerate(argument) if is_list else ((-1, argument),):
            if type(ref) is Ref:
                items.append(_item_at(row, now[ref.index], rooms, argument is call.args[0]))
    return rows_meet(items)


def _item_at(row: int, place: Place, rooms: Sequence[Room], is_written: bool) -> Item:
    """Storages with addresses are one memory."""
    address, width = rooms[place.storage].address, place.dtype.itemsize
    first, strides = (address or 0) + place.offset * width, [stride * width for stride in place.strides]
    layout = Layout.of(first, place.sizes, strides, FROM_TORCH[place.dtype])
    return Item(row, place.storage if address is None else None, layout, is_written)


def _overload(target: OpOverload) -> OpOverload | None:
    prefix, name, overload = "aten::_foreach_", target._schema.name, target._schema.overload_name or "default"
    if not name.startswith(prefix) or overload.endswith("out"):
        return None
    name = name.removeprefix(prefix)
    suffix = "_" if name.endswith("_") else ""
    found = _counterpart(name.removesuffix("_"), overload)
    if found is None:
        return None
    packet = getattr(aten, found[0] + suffix, None)
    return getattr(packet, found[1], None) if packet is not None else None


def _counterpart(name: str, overload: str) -> tuple[str, str] | None:
    scalar = overload in ("Scalar", "ScalarList")
    if name in _UNARY and overload == "default":
        return name, "default"
    if name in _ARITHMETIC and (scalar or overload in ("List", "Tensor")):
        return name, "Tensor"
    if name in _LIMITS and (scalar or overload == "List"):
        return _LIMITS[name], "default" if scalar else "Tensor"
    if name in ("addcmul", "addcdiv") and scalar:
        return name, "default"
    if name == "lerp" and (scalar or overload == "List"):
        return name, "Scalar" if scalar else "Tensor"
    if name == "pow" and (scalar or overload == "List"):
        return name, "Tensor_Scalar" if scalar else "Tensor_Tensor"
    return (name, "default") if name == "copy" and overload == "default" else None


def _spelled(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict]:
    """Positions of the foreach schema that are keywords of the single op."""
    name = call.target._schema.name
    if "addc" in name and len(args) > 3:
        return args[:3], {**kwargs, "value": args[3]}
    return args, kwargs
