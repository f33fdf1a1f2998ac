"""Places that Python code reads, and how a key reads them again."""

from __future__ import annotations

import array
import struct
import sys
import threading
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from fusekit.errors import UnsupportedError
from fusekit.ir import Origin

SIMPLE = (
    int, float, bool, complex, str, bytes, type(None),
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size,
)  # fmt: skip
BUFFERS = (bytearray, memoryview, array.array)
_MOST_BYTES = 1 << 20  # of an array that a key compares
_BITS = struct.Struct("d").pack
How = Literal["item", "attr", "cell", "class", "absent", "len", "keys", "contents"]


class Missing:
    """Nothing is at a place any more."""


MISSING = Missing()


class Snapshot(tuple[Any, ...]):
    """What a container held, item by item: equal for equal contents in the same order."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One readable place: ``holder[key]``, ``holder.key``, a cell's contents, ``holder.__dict__[key]`` of a class; or
    a fact about ``holder``: that it has no ``key``, its length, its keys in order, all that it contains.

    ``path`` is how a person would write it. ``named``: only code that names ``key`` can have read it.
    """

    how: How
    holder: Any
    key: Any
    value: Any
    path: str
    parent: Entry | None
    named: bool

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for two entries that read the same place."""
        return self.how, id(self.holder), self.key

    def read(self) -> Any:
        """What is there now; ``MISSING`` where nothing is."""
        try:
            return _READ[self.how](self.holder, self.key)
        except (KeyError, IndexError, AttributeError, ValueError):
            return MISSING


def fact(how: How, holder: Any, key: Any, path: str, parent: Entry | None, named: bool = False) -> Entry:
    """The entry of a place as it is now."""
    return Entry(how, holder, key, _READ[how](holder, key), path, parent, named)


def exact(value: Any) -> Any:
    """A hashable that tells simple values apart by type and bits, anything else by identity."""
    kind = type(value)
    if kind is str or kind is Snapshot:
        return value
    return exactly(value) if isinstance(value, SIMPLE) else (kind, id(value))


def exactly(value: Any) -> Any:
    """A key that tells numbers apart by type and bits: 0.0 from -0.0, a NaN from one of the other sign."""
    if isinstance(value, float):  # NumPy's float64 is one
        return (type(value), _BITS(value))
    if isinstance(value, complex):
        return (type(value), _BITS(value.real), _BITS(value.imag))
    return (type(value), value)


def contents(holder: Any, _: Any = None) -> Snapshot:
    """All that a set, a mapping, an array, or the names of a module or class contain."""
    if isinstance(holder, BUFFERS):
        return Snapshot((type(holder), bytes(holder)))
    if is_array(holder):
        return Snapshot((holder.dtype.str, holder.shape, holder.strides, holder.tobytes()))
    if isinstance(holder, (types.ModuleType, type)):
        holder = vars(holder)
    if isinstance(holder, Mapping):
        return Snapshot((exact(key), exact(value)) for key, value in list(holder.items()))
    return Snapshot(map(exact, list(holder)))  # which another thread may be filling


def is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def refuse_unguarded(entries: Iterable[Entry], where: Origin | None) -> None:
    """Raise for what no key can compare: an array that is too large or holds Python objects, and what each thread has
    another of."""
    for entry in entries:
        holder = entry.holder
        if isinstance(entry.value, threading.local):
            what = f"{entry.path} is a threading.local, which no key can compare"
            raise UnsupportedError(what, where, "pass what it holds as an argument")
        if entry.how != "contents" or not (is_array(holder) or isinstance(holder, BUFFERS)):
            continue
        size = memoryview(holder).nbytes if isinstance(holder, BUFFERS) else holder.nbytes
        if size > _MOST_BYTES or (not isinstance(holder, BUFFERS) and holder.dtype.hasobject):
            what = f"{entry.path} is an array whose contents no key can compare ({size} bytes)"
            raise UnsupportedError(what, where, "make it a tensor outside the function")


def _keys(holder: Any, _: Any) -> Snapshot:
    return Snapshot(map(exact, list(holder)))


_READ = {
    "item": lambda holder, key: holder[key],
    "attr": getattr,
    "cell": lambda holder, _: holder.cell_contents,
    "class": lambda holder, key: holder.__dict__[key],
    "absent": lambda holder, key: key not in (vars(holder) if isinstance(holder, type) else holder),
    "len": lambda holder, _: len(holder),
    "keys": _keys,
    "contents": contents,
}
