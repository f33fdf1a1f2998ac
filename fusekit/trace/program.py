"""What a recording writes down, before it is a graph: calls of overloads on numbered tensor objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload

from fusekit.ir import Origin


class Ref(NamedTuple):
    """A tensor object of the program, by number."""

    index: int


class ObjectRef(NamedTuple):
    """A non-tensor object that an op takes as it is (a generator), by its symbol: ``leaf:3`` or ``object:0``."""

    symbol: str


class Place(NamedTuple):
    """Where a tensor object lies at one moment; offset and strides in elements of ``dtype``."""

    storage: int  # number of the storage, in order of first use
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True, slots=True)
class Call:
    """One ATen call. ``results`` and ``writes`` are object numbers; ``places`` are the results' after the call."""

    target: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[int, ...]
    places: tuple[Place, ...]
    writes: tuple[int, ...]
    origin: Origin


class Room(NamedTuple):
    """A storage: its bytes, its address where it is real, and the device."""

    nbytes: int
    address: int | None
    device: torch.device


@dataclass(frozen=True, slots=True)
class Program:
    """``first``: the place of every input object before the first call; ``last``: after the last one."""

    calls: tuple[Call, ...]
    first: dict[int, Place]
    last: dict[int, Place]
    rooms: tuple[Room, ...]  # by storage number
    inputs: tuple[tuple[int, str, str], ...]  # (object, its name, kind of its block), in the order of ^in
    outputs: tuple[Any, ...]  # leaves: a Ref or a constant
    name: str
