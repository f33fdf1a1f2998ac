"""Where the Python numbers of a call sit: scalar operands and view offsets, which need not steer a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fusekit.trace.program import Call, Place, Ref
from fusekit.trace.schema import bound

aten = torch.ops.aten
_SCALAR_TYPES = ("number", "Optional[number]", "float", "Optional[float]", "Tensor", "Optional[Tensor]")
# The number decides the shape, or which formula eager takes (pow by 2 multiplies).
_STEERED = frozenset(
    f"aten::{name}"
    for name in ("arange", "range", "linspace", "logspace", "pow", "pow_", "float_power", "float_power_")
)


@dataclass(frozen=True, slots=True)
class Site:
    """A number of a call: schema argument ``argument``. ``extent`` is None for a scalar operand; for a view's offset
    the valid values are 0 <= value < extent, and the view starts ``stride`` bytes further for each step."""

    argument: str
    value: int | float
    extent: int | None = None
    stride: int = 0


def sites_of(call: Call, now: Mapping[int, Place]) -> tuple[Site, ...]:
    """The sites of a call in schema order; ``now``: the place of every object before it. Indices are normalised."""
    given = {argument.name: value for argument, value in bound(call.target, call.args, call.kwargs)}
    if call.target is aten.select.int:
        return (_select_site(given, now),)
    if call.target is aten.slice.Tensor:
        return (_slice_site(call, given, now),) if "start" in given else ()
    if call.target._schema.name in _STEERED:
        return ()
    found = []
    for argument, value in bound(call.target, call.args, call.kwargs):
        if type(value) in (int, float) and str(argument.type) in _SCALAR_TYPES:
            found.append(Site(argument.name, value))
    return tuple(found)


def _select_site(given: Mapping[str, Any], now: Mapping[int, Place]) -> Site:
    place, dim = _axis(given, now)
    size = place.sizes[dim]
    index = given["index"] % size
    return Site("index", index, size, place.strides[dim] * place.dtype.itemsize)


def _slice_site(call: Call, given: Mapping[str, Any], now: Mapping[int, Place]) -> Site:
    place, dim = _axis(given, now)
    size, step, length = place.sizes[dim], given.get("step", 1), call.places[0].sizes[dim]
    start = given.get("start") or 0
    start = min(max(start + size if start < 0 else start, 0), size)
    room = size - (length - 1) * step if length else size + 1
    return Site("start", start, room, place.strides[dim] * place.dtype.itemsize)


def _axis(given: Mapping[str, Any], now: Mapping[int, Place]) -> tuple[Place, int]:
    ref = given["self"]
    assert type(ref) is Ref
    place, dim = now[ref.index], given.get("dim", 0)
    return place, dim % len(place.sizes)
