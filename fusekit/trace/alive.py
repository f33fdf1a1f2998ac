"""Objects by identity, without keeping them alive: an address is believed only while what lies there lives."""

from __future__ import annotations

import itertools
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

CONTAINERS = (dict, list, tuple, types.MappingProxyType)
"""What allows no weak references, and holds what others own: it is found again by its path."""
_PLAIN = frozenset((dict, list, tuple))
_numbers = itertools.count(-1, -1)
_known: dict[int, _Ref | _Held] = {}  # by address
_held: dict[int, _Held] = {}  # of these, what is kept: the end of any other object takes it out of the first


class _Ref(weakref.ref[Any]):
    """A weak reference with the number that its object alone has ever had."""

    __slots__ = ("address", "number")


class _Held:
    """The one reference that is kept of an object without weak ones, until nobody else has any."""

    __slots__ = ("number", "value")

    def __init__(self, value: Any, number: int):
        self.value, self.number = value, number

    def __call__(self) -> Any:
        return self.value

    def is_alone(self) -> bool:
        return sys.getrefcount(self.value) <= _ALONE


_example = _Held(object(), 0)
_ALONE = sys.getrefcount(_example.value)  # what Python counts where the record has the only reference


def serial(value: Any) -> int | None:
    """A negative number that is this object's for ever; None for a container, whose place says which one it is."""
    found = _reference(value)
    return None if found is None else found.number


def _reference(value: Any) -> _Ref | _Held | None:
    if type(value) in _PLAIN:
        return None
    found = _known.get(id(value))
    if found is not None and found() is value:
        return found
    try:
        made: _Ref | _Held = _Ref(value, _forget)
        made.address, made.number = id(value), next(_numbers)
    except TypeError:
        if isinstance(value, CONTAINERS):
            return None
        made = _held[id(value)] = _Held(value, next(_numbers))
    _known[id(value)] = made
    return made


def _forget(ref: _Ref) -> None:
    if _known.get(ref.address) is ref:
        del _known[ref.address]


def release() -> None:
    """Gives up what is held here alone. (Never what others hold: what is gone is not compared any more.)"""
    for address, one in _held.copy().items():
        if one.is_alone():
            _held.pop(address, None)
            _known.pop(address, None)
            one.value = None


def identity(value: Any) -> Any:
    """Equal for the same object. A container's may be another one's after its end: what it holds is compared, too."""
    number = serial(value)
    return (id(value), len(value)) if number is None else number


def weakly(value: Any) -> Callable[[], Any]:
    """What gives the object while it lives, then None; a container is kept."""
    found = _reference(value)
    return found if found is not None else lambda: value


def through(owner: Any, getter: Callable[[Any], Any]) -> Callable[[], Any]:
    """What gives a part of the owner while the owner lives, then None."""
    found = weakly(owner)

    def part() -> Any:
        value = found()
        return None if value is None else getter(value)

    return part
