"""Where the Python numbers of a call sit: scalar operands and view offsets, which need not steer a plan.

A site is a number whose value decides nothing but itself: neither which calls follow, nor a shape, a stride, a formula,
nor whether eager takes the call. So two recordings that differ in sites only are one program. What is no site stands in
the signature as it is: sizes, dimensions and ends, numbers that a kernel cannot hold, and offsets of a view on which
eager does something that hangs on where the view begins (``sites_by_call``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fusekit.trace.program import Call, Place, Program, Ref
from fusekit.trace.schema import base_name, bound

aten = torch.ops.aten
_SCALAR_TYPES = ("number", "Optional[number]", "float", "Optional[float]", "Tensor", "Optional[Tensor]")
# The number decides the shape, or which formula eager takes (pow by 2 multiplies).
_STEERED = frozenset(
    f"aten::{name}"
    for name in ("arange", "range", "linspace", "logspace", "pow", "pow_", "float_power", "float_power_")
)
WORD = 1 << 63
"""Kernels take integers from -WORD up to, not including, WORD."""


@dataclass(frozen=True, slots=True)
class Site:
    """A number of a call: schema argument ``argument``. ``extent`` is None for a scalar operand; for a view's offset
    the valid values are 0 <= value < extent, and the view starts ``stride`` bytes further for each step."""

    argument: str
    value: int | float
    extent: int | None = None
    stride: int = 0


def sites_by_call(program: Program) -> tuple[tuple[Site, ...], ...]:
    """The sites of each call of a program, in order, without those that move what a later call asks the place of.

    A view's offset is taken for a number because eager treats a view alike wherever it begins, and that holds for every
    op but those that count from the start of the storage: ``as_strided`` may reach past its end from another begin, and
    a view of wider elements must begin at a multiple of them. On whatever leads to the operand of such an op, through
    any chain of views, an offset is no number.
    """
    found: list[tuple[Site, ...]] = []
    moved: dict[int, frozenset[tuple[int, str]]] = {}  # object -> sites that its begin hangs on
    fixed: set[tuple[int, str]] = set()
    now = dict(program.first)
    for number, call in enumerate(program.calls):
        found.append(sites_of(call, now))
        own = frozenset((number, site.argument) for site in found[-1] if site.extent is not None)
        if _asks_where(call, now):
            fixed.update(*(moved.get(operand, ()) for operand in operands_of(call)))
        begins = {}
        for result, place in zip(call.results, call.places, strict=True):
            parent = parent_of(call, result, place, now)
            kept = frozenset() if parent is None or is_absolute(call) else moved.get(parent, frozenset())
            begins[result] = own | kept
        moved.update(begins)
        now.update(zip(call.results, call.places, strict=True))
    return tuple(tuple(s for s in sites if (k, s.argument) not in fixed) for k, sites in enumerate(found))


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
        is_number = type(value) is float or (type(value) is int and -WORD <= value < WORD)
        if is_number and str(argument.type) in _SCALAR_TYPES:
            found.append(Site(argument.name, value))
    return tuple(found)


def parent_of(call: Call, result: int, place: Place, now: Mapping[int, Place]) -> int | None:
    """The operand that a result is a view of: itself where it is an operand, else the first in the same storage."""
    found = [number for number in operands_of(call) if now[number].storage == place.storage]
    return result if result in found else next(iter(found), None)


def operands_of(call: Call) -> Iterator[int]:
    """Object numbers of the tensors that a call takes, in order."""
    values: list[Any] = [*call.args, *call.kwargs.values()]
    while values:
        value = values.pop(0)
        if type(value) is Ref:
            yield value.index
        elif isinstance(value, (list, tuple)):
            values = [*value, *values]


def is_absolute(call: Call) -> bool:
    """as_strided with an offset of its own, which counts from the start of the storage."""
    if call.target not in (aten.as_strided.default, aten.as_strided_.default):
        return False
    offset = call.args[3] if len(call.args) > 3 else call.kwargs.get("storage_offset")
    return offset is not None


def _asks_where(call: Call, now: Mapping[int, Place]) -> bool:
    """Does eager's answer, or its refusal, hang on where in its storage the operand begins?"""
    name = base_name(call.target)
    if name.startswith("as_strided"):
        return not is_absolute(call)
    if name.startswith("view_as_complex"):
        return True
    widths = {now[operand].dtype.itemsize for operand in operands_of(call)}
    return name.startswith("view") and call.places[0].dtype.itemsize not in widths


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
