"""The intrinsics as plain Python over numpy scalars and raw memory, for one thread of a simulated grid.

Sums and reductions round in the order of the compiled ones. An address that hardware would refuse raises here.
:mod:`fusekit.run.cuda.simulate` says which thread calls.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from fusekit.ops import functions
from fusekit.run.cuda.kinds import HALVES, WIDTHS, lane_counts
from fusekit.run.forks import Lock
from fusekit.run.intrinsics import PLAIN

WARP = 32
PATIENCE = 60.0
"""Seconds that a thread waits for the others of its block."""
NAMES: dict[str, Callable[..., Any]] = {}
Extent = tuple[int, int, int]
_SCALARS = functions()
_HERE = threading.local()
_TICKETS = Lock()


@dataclass
class Team:
    """The threads of one block: its barriers, what they hand one another, its shared memory by place in the source."""

    block: Extent
    position: Extent
    grid: Extent
    shared: dict[Any, Any] = field(default_factory=dict)
    whole: threading.Barrier | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.count = math.prod(self.block)
        self.slots: list[Any] = [None] * self.count
        self.barrier = threading.Barrier(self.count)
        self.warps = [threading.Barrier(min(WARP, self.count - k)) for k in range(0, self.count, WARP)]

    def abort(self) -> None:
        """Wakes every thread that waits, with BrokenBarrierError."""
        for barrier in (self.barrier, *self.warps, *([self.whole] if self.whole else [])):
            barrier.abort()


def enter(team: Team, number: int) -> None:
    """This Python thread is now thread ``number`` of a block, counted with x fastest."""
    x, y, _ = team.block
    _HERE.team, _HERE.number = team, number
    _HERE.thread = (number % x, number // x % y, number // (x * y))


def _exchange(value: Any) -> list[Any]:
    """What each thread of this warp gave, by lane."""
    team, number = _HERE.team, _HERE.number
    barrier, first = team.warps[number // WARP], number // WARP * WARP
    team.slots[number] = value
    barrier.wait(PATIENCE)
    given = team.slots[first : first + WARP]
    barrier.wait(PATIENCE)
    return given


# ---- memory ----------------------------------------------------------------------------------------------------------


def _aligned(base: int, at: int, name: str, count: int = 1) -> None:
    size = WIDTHS[name] * count
    if (int(base) + WIDTHS[name] * int(at)) % size:
        raise ValueError(f"an access of {size} bytes at address {base} + {WIDTHS[name]} * {at} is not aligned")


def _loader(name: str) -> Callable[..., Any]:
    if name in HALVES:
        return lambda base, at: _SCALARS[f"unpack_{name}"](PLAIN["load_u16"](base, at))
    return PLAIN[f"load_{name}"]


def _storer(name: str) -> Callable[..., None]:
    if name in HALVES:
        pack, rounded = _SCALARS[f"pack_{name}"], _SCALARS[f"to_{name}"]
        return lambda base, at, value: PLAIN["store_u16"](base, at, pack(rounded(np.float32(value))))
    return PLAIN[f"store_{name}"]


def _memory(name: str, count: int, load: Callable[..., Any], store: Callable[..., None]) -> tuple[Any, ...]:
    def loaded(base: int, at: int) -> Any:
        _aligned(base, at, name, count)
        lanes = tuple(load(base, int(at) + k) for k in range(count))
        return lanes if count > 1 else lanes[0]

    def stored(base: int, at: int, value: Any) -> None:
        _aligned(base, at, name, count)
        for k, lane in enumerate(value if count > 1 else (value,)):
            store(base, int(at) + k, lane)

    def loaded_within(base: int, at: int, first: int, last: int) -> Any:
        if first <= at and at + count <= last:
            return loaded(base, at)
        return tuple(load(base, k) if first <= k < last else load(base, first) * 0 for k in range(at, at + count))

    def stored_masked(base: int, at: int, value: Any, mask: Any) -> None:
        if all(mask):
            stored(base, at, value)
            return
        for k, (lane, wanted) in enumerate(zip(value, mask, strict=True)):
            if wanted:
                store(base, int(at) + k, lane)

    return loaded, stored, loaded_within, stored_masked


def _exactly(base: int, at: int, value: Any) -> None:
    """A store of a bfloat16 that no longer rounds."""
    bits = _SCALARS["pack_bf16"](np.float32(value))
    if np.float32(value).view(np.uint32) & np.uint32(0xFFFF):
        raise ValueError(f"{value!r} was not rounded to bfloat16")
    PLAIN["store_u16"](base, at, bits)


for _count in (1, *lane_counts("bf16")):
    _tail = f"bf16x{_count}" if _count > 1 else "bf16"
    _, _stored, _, _masked = _memory("bf16", _count, _loader("bf16"), _exactly)
    NAMES |= {f"store_exact_{_tail}": _stored, f"store_shared_exact_{_tail}": _stored}
    if _count > 1:
        NAMES[f"store_masked_exact_{_tail}"] = _masked
for _name in WIDTHS:
    for _count in (1, *lane_counts(_name)):
        _tail = f"{_name}x{_count}" if _count > 1 else _name
        _loaded, _stored, _within, _masked = _memory(_name, _count, _loader(_name), _storer(_name))
        NAMES |= {f"load_{_tail}": _loaded, f"load_shared_{_tail}": _loaded}
        NAMES |= {f"store_{_tail}": _stored, f"store_shared_{_tail}": _stored}
        if _count > 1:
            NAMES |= {f"load_within_{_tail}": _within, f"store_masked_{_tail}": _masked}


def shared_memory(size: int) -> int:
    team, place = _HERE.team, sys._getframe(1).f_lasti
    with team.lock:
        if place not in team.shared:
            team.shared[place] = ctypes.create_string_buffer(b"\xff" * size, size + 16)
    return -(-ctypes.addressof(team.shared[place]) // 16) * 16


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def lifted(one: Callable[..., Any]) -> Callable[..., Any]:
    """Lane by lane where an argument is a tuple."""

    def lanes(*args: Any) -> Any:
        width = max((len(arg) for arg in args if isinstance(arg, tuple)), default=0)
        if not width:
            return one(*args)
        spread = [arg if isinstance(arg, tuple) else (arg,) * width for arg in args]
        return tuple(one(*values) for values in zip(*spread, strict=True))

    return lanes


def _single(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: np.float32(function(np.float64(x)))


def _add(a: Any, b: Any) -> Any:
    with np.errstate(over="ignore"):
        return a + b


def _multiply(a: Any, b: Any) -> Any:
    with np.errstate(over="ignore"):
        return a * b


_COMBINE = {"sum": _add, "prod": _multiply, "max": np.maximum, "min": np.minimum}
_ONE: dict[str, Callable[..., Any]] = {
    "add_rn": _add, "mul_rn": lambda a, b: a * b, "sqrt_rn": np.sqrt, "fma": _SCALARS["fma"],
    "max_nan": np.maximum, "min_nan": np.minimum,
    "to_bf16": _SCALARS["to_bf16"], "to_f16": _SCALARS["to_f16"],
    "exp2_approx": _single(np.exp2), "rcp_approx": _single(lambda x: 1 / x),
}  # fmt: skip
NAMES |= {name: lifted(one) for name, one in _ONE.items()}


def _tree(combine: Callable[..., Any]) -> Callable[..., Any]:
    def across(x: Sequence[Any]) -> Any:
        values = list(x)
        while len(values) > 1:
            values = [reduce(combine, values[k : k + 2]) for k in range(0, len(values), 2)]
        return values[0]

    return across


def each_lane(element: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    results = lifted(element)(*operands)
    return tuple(zip(*results, strict=True)) if isinstance(results[0], tuple) else results


def _pack_lanes(name: str) -> Callable[..., Any]:
    pack, rounded = _SCALARS[f"pack_{name}"], _SCALARS[f"to_{name}"]

    def packed(x: Sequence[Any]) -> tuple[Any, ...]:
        halves = np.array([pack(rounded(np.float32(value))) for value in x], np.uint16)
        return tuple(halves.view(np.int32))

    return packed


def _load_packed(name: str, count: int) -> Callable[..., Any]:
    def load_packed(base: int, at: int) -> tuple[Any, ...]:
        _aligned(base, at, name, count)
        halves = np.array([PLAIN["load_u16"](base, int(at) + k) for k in range(count)], np.uint16)
        return tuple(halves.view(np.int32))

    return load_packed


def _unpack_lanes(name: str) -> Callable[..., Any]:
    unpack = _SCALARS[f"unpack_{name}"]
    return lambda words: tuple(unpack(half) for half in np.array(words, np.int32).view(np.uint16))


for _name in HALVES:
    NAMES[f"pack_lanes_{_name}"] = _pack_lanes(_name)
    NAMES |= {f"load_packed_{_name}x{n}": _load_packed(_name, n) for n in lane_counts(_name)}
    NAMES[f"unpack_lanes_{_name}"] = NAMES[f"unpack_lanes_{_name}_again"] = _unpack_lanes(_name)


# ---- threads ---------------------------------------------------------------------------------------------------------


def _position(word: str, axis: int) -> Callable[[], int]:
    if word == "thread":
        return lambda: _HERE.thread[axis]
    return lambda: (_HERE.team.position if word == "block" else _HERE.team.grid)[axis]


class Stopped(Exception):
    """A thread found what ends the launch."""


def stop() -> None:
    raise Stopped


def sync_threads() -> None:
    _HERE.team.barrier.wait(PATIENCE)


def shuffle_xor(x: Any, mask: int) -> Any:
    given, lane = _exchange(x), (_HERE.number % WARP) ^ int(mask)
    return given[lane] if lane < len(given) else x


def _warp(combine: Callable[..., Any]) -> Callable[..., Any]:
    lanes = lifted(combine)

    def reduced(x: Any, width: int) -> Any:
        step = width // 2
        while step:
            x = lanes(x, shuffle_xor(x, step))
            step //= 2
        return x

    return reduced


def _block(combine: Callable[..., Any]) -> Callable[..., Any]:
    warp = _warp(combine)

    def reduced(x: Any, scratch: int, threads: int) -> Any:
        x = warp(x, min(threads, WARP))
        if threads <= WARP:
            return x
        team, (x_position, *_) = _HERE.team, _HERE.thread
        with team.lock:
            team.shared.setdefault(("scratch", scratch), {})[x_position // WARP] = x
        sync_threads()
        return warp(team.shared["scratch", scratch][x_position % WARP % (threads // WARP)], threads // WARP)

    return reduced


def take_ticket(counter: int, last: int) -> int:
    _aligned(counter, 0, "u32")
    with _TICKETS:
        before = int(PLAIN["load_u32"](counter, 0))
        PLAIN["store_u32"](counter, 0, 0 if before >= last else before + 1)
    return before


def sync_grid(words: int, blocks: int) -> None:
    _aligned(words, 0, "u32")
    whole = _HERE.team.whole
    if whole is None or math.prod(_HERE.team.grid) != blocks:
        raise ValueError(f"{blocks} blocks wait for one another in a grid of {_HERE.team.grid}")
    whole.wait(PATIENCE)


def last_block(counter: int, scratch: int, blocks: int) -> bool:
    sync_threads()
    if _HERE.number == 0:
        PLAIN["store_u32"](scratch, 0, take_ticket(counter, blocks - 1))
    sync_threads()
    return int(PLAIN["load_u32"](scratch, 0)) == blocks - 1


NAMES |= {f"{word}_{axis}": _position(word, k) for word in ("thread", "block", "grid") for k, axis in enumerate("xyz")}
NAMES |= {f"{word}_f32": _SCALARS[f"{word}_f32"] for word in ("exp", "log", "tanh", "erf", "sin", "cos")}
NAMES |= {name: _SCALARS[name] for name in ("maximum", "minimum", "clamp_min", "clamp_max", "fmax", "fmin")}
for _word, _one in _COMBINE.items():
    NAMES |= {f"{_word}_lanes": _tree(_one), f"warp_{_word}": _warp(_one), f"block_{_word}": _block(_one)}
NAMES |= {
    "div_u32": lambda a, b: a // b,
    "mod_u32": lambda a, b: a % b,
    "each_lane": each_lane,
    "repeat_lanes": lambda x, count: (x,) * count,
    "last_block": last_block,
    "sync_grid": sync_grid,
    "shared_memory": shared_memory,
    "shuffle_xor": shuffle_xor,
    "sync_threads": sync_threads,
    "stop": stop,
}
