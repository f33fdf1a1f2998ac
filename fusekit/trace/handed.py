"""Which Python numbers of a torch call are handed on, unread, each to one number of the ATen calls that it makes.

A call of the function with other numbers is answered from the script only where the torch call, given them, makes the
same ATen calls with just these numbers exchanged. So a number is free where all of this is known, and not guessed from
its value (numbers that were equal are not one number):

- *what takes it.* A binding that makes one call of its own name hands each argument to the schema's argument of that
  position or name; ``a[...]`` makes one select an integer, one slice a slice, one unsqueeze a None, from left to right,
  in dimensions that can be counted. The number found there must be the very number passed. Whatever else a torch call
  makes of its arguments (a Python function, a composite, an older order of arguments) leaves its numbers as they were.
- *that nothing was cut, clamped or filled in.* ``a[n : n + 3]`` is a window that moves if it had all its elements when
  it was recorded: then it has them wherever its last one is inside, ``0 <= n < extent`` of the site. One that the end
  of the tensor cut has another length elsewhere. Negative or missing ends make the length hang on the tensor's size.
- *that eager takes any value.* An index is taken in ``-size <= n < size``. A scalar is taken by the ops below if the
  result can hold it; integers refuse what they cannot hold, so only floating and complex results count.

Every other number must be as it was, and so must the slot of every site that no free number has (``Script``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any

import torch

from fusekit.trace.entries import exactly
from fusekit.trace.private import TensorClass
from fusekit.trace.program import Call, Place
from fusekit.trace.schema import base_name, bound
from fusekit.trace.sites import Site
from fusekit.trace.swap import TorchCall

Path = tuple[Any, ...]
"""Where in (args, kwargs) a number is: keys and positions; a slice's start has ``"start"`` at the end."""
Taker = tuple[int, Site]
"""The number of the call among those that the torch call makes, and the site there."""
Places = Mapping[int, Place]

# Bindings that pass numbers on unread; Python functions and composites may branch on them.
_BINDINGS = ("method_descriptor", "builtin_function_or_method", "wrapper_descriptor", "OpOverload", "OpOverloadPacket")
_INDEXING = (TensorClass.__getitem__, TensorClass.__setitem__)
_SPELLED = {"truediv": "div", "itruediv": "div", "iadd": "add", "isub": "sub", "imul": "mul"}
# Ops that take any number: eager checks no range and no order among these, whatever their values.
_TAKE_ANY = frozenset((
    "add", "sub", "rsub", "mul", "div", "remainder", "fmod", "addcmul", "addcdiv", "lerp", "clamp", "clamp_min",
    "clamp_max", "fill", "masked_fill", "where", "addmm", "addmv", "addr", "baddbmm",
))  # fmt: skip
_VIEWS = ("select", "slice", "unsqueeze")
_FILLS = ("fill_", "copy_", "lift_fresh_copy")


def handed_on(
    call: TorchCall, numbers: Mapping[Path, int | float], made: Sequence[tuple[Call, Sequence[Site]]], now: Places
) -> dict[Path, Taker]:
    """The free ones among the numbers of a torch call; ``made``: its ATen calls with their sites, ``now``: the place of
    every object before them."""
    if not made:
        return {}
    if call.function in _INDEXING:
        return dict(_indexed(call, [pair[0] for pair in made], [pair[1] for pair in made], now))
    if len(made) != 1 or type(call.function).__name__ not in _BINDINGS:
        return {}
    (single, sites), called = made[0], getattr(call.function, "__name__", "").strip("_")
    name = base_name(single.target).strip("_")
    if _SPELLED.get(called, called) != name or not (name == "select" or (name in _TAKE_ANY and _is_float(single))):
        return {}
    by_name = {site.argument: site for site in sites}
    found: dict[Path, Taker] = {}
    order = [argument.name for argument in single.target._schema.arguments]
    for argument, value in bound(single.target, single.args, single.kwargs):
        for path in ((0, order.index(argument.name)), (1, argument.name)):
            if argument.name in by_name and path in numbers and exactly(numbers[path]) == exactly(value):
                found[path] = (0, by_name[argument.name])
    return found


def largest(made: Sequence[Call]) -> float:
    """The largest finite scalar that every result can hold."""
    places = [
        place for call in made for place in call.places if place.dtype.is_floating_point or place.dtype.is_complex
    ]
    return min((torch.finfo(place.dtype).max for place in places), default=math.inf)


def _is_float(call: Call) -> bool:
    return all(place.dtype.is_floating_point or place.dtype.is_complex for place in call.places)


def _indexed(
    call: TorchCall, made: Sequence[Call], sites: Sequence[Sequence[Site]], now: Places
) -> Iterator[tuple[Path, Taker]]:
    """Of ``a[index]`` and ``a[index] = value``, where the calls are just those that the index asks for."""
    names = [base_name(one.target) for one in made]
    views = [k for k, name in enumerate(names) if name in _VIEWS]
    index = call.args[1] if len(call.args) > 1 else None
    items = [((k,), item) for k, item in enumerate(index)] if type(index) is tuple else [((), index)]
    if not views or not all(_is_plain(item) for _, item in items) or not {*names} <= {*_VIEWS, *_FILLS}:
        return
    rank = len(now[made[views[0]].args[0].index].sizes)
    specified = sum(type(item) in (int, slice) for _, item in items)
    dim, found = 0, list[tuple[Path, Taker]]()
    for position, item in items:
        at, path = views[0] if views else None, (0, 1, *position)
        if item is Ellipsis:
            dim += rank - specified
        elif at is not None and _takes(made[at], item, dim):
            views.pop(0)
            if sites[at] and type(item) is int:
                found.append((path, (at, sites[at][0])))
            elif sites[at] and type(item) is slice and _is_whole(item, made[at]):
                found.append(((*path, "start"), (at, sites[at][0])))
            dim += type(item) is not int
        elif type(item) is slice:  # all of a dimension: no call
            dim += 1
        else:
            return
    if not views:
        yield from found


def _is_plain(item: Any) -> bool:
    """An integer, a slice of integers, None or an ellipsis."""
    if type(item) is slice:
        return all(end is None or type(end) is int for end in (item.start, item.stop, item.step))
    return item is None or type(item) in (int, EllipsisType)


def _takes(call: Call, item: Any, dim: int) -> bool:
    """Is a call what this item of an index asks for in this dimension?"""
    given = {argument.name: value for argument, value in bound(call.target, call.args, call.kwargs)}
    if given.get("dim", 0) != dim:
        return False
    name = base_name(call.target)
    if type(item) is int:
        return name == "select" and given["index"] == item
    if item is None:
        return name == "unsqueeze"
    start, step = given.get("start") or 0, given.get("step", 1)
    asked = (item.start or 0, item.stop, 1 if item.step is None else item.step)
    return name == "slice" and asked == (start, given.get("end") if item.stop is not None else None, step)


def _is_whole(item: slice, call: Call) -> bool:
    """Has a slice all the elements that its ends say? Then it has as many wherever the last of them is inside.

    With w = stop - start >= 0 it has ceil(w / step) elements where none is cut. From another start s the end s + w may
    lie past the tensor's, but if element s + (ceil(w / step) - 1) * step is inside, no element is cut there either.
    """
    start, stop, step = item.start, item.stop, item.step or 1
    if start is None or stop is None or not 0 <= start <= stop:
        return False
    given = {argument.name: value for argument, value in bound(call.target, call.args, call.kwargs)}
    return call.places[0].sizes[given.get("dim", 0)] == -(-(stop - start) // step)
