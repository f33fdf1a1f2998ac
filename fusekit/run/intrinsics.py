"""Memory as generated kernels see it: raw addresses, one load and one store a dtype, and snapshots.

An address is an int; ``at`` counts elements. Compiled code turns the address into a typed pointer and steps from it,
which LLVM vectorises (an ``inttoptr`` of base plus offset it does not). Alignment is never assumed: a joined block
may start at any byte. ``PLAIN`` holds the same functions for running a kernel's source without Numba.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

I8, I64 = ir.IntType(8), ir.IntType(64)
# dtype name -> (Numba type, LLVM type, ctypes type, numpy type)
SCALARS: dict[str, tuple[Any, Any, Any, Any]] = {
    "bool": (types.boolean, I8, ctypes.c_uint8, np.bool_),
    "u8": (types.uint8, I8, ctypes.c_uint8, np.uint8),
    "u16": (types.uint16, ir.IntType(16), ctypes.c_uint16, np.uint16),
    "u32": (types.uint32, ir.IntType(32), ctypes.c_uint32, np.uint32),
    "u64": (types.uint64, I64, ctypes.c_uint64, np.uint64),
    "i8": (types.int8, I8, ctypes.c_int8, np.int8),
    "i16": (types.int16, ir.IntType(16), ctypes.c_int16, np.int16),
    "i32": (types.int32, ir.IntType(32), ctypes.c_int32, np.int32),
    "i64": (types.int64, I64, ctypes.c_int64, np.int64),
    "f32": (types.float32, ir.FloatType(), ctypes.c_float, np.float32),
    "f64": (types.float64, ir.DoubleType(), ctypes.c_double, np.float64),
}
PLAIN: dict[str, Callable[..., Any]] = {}


def _element(builder: Any, kind: Any, base: Any, at: Any) -> Any:
    return builder.gep(builder.inttoptr(base, kind.as_pointer()), [at])


def _make_load(name: str) -> Callable[..., Any]:
    kind, llvm, c_type, numpy_type = SCALARS[name]

    def load(context: Any, base: Any, at: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(_element(builder, llvm, *args), align=1)
            return builder.icmp_unsigned("!=", value, llvm(0)) if name == "bool" else value

        return kind(types.int64, types.int64), build

    load.__name__ = load.__qualname__ = f"load_{name}"
    step = ctypes.sizeof(c_type)
    if name in ("f32", "f64"):  # through an integer: a signalling NaN keeps its bits
        carrier = ctypes.c_uint32 if name == "f32" else ctypes.c_uint64
        integer = np.uint32 if name == "f32" else np.uint64
        PLAIN[load.__name__] = lambda base, at: integer(carrier.from_address(base + step * int(at)).value).view(
            numpy_type
        )
    else:
        PLAIN[load.__name__] = lambda base, at: numpy_type(c_type.from_address(base + step * int(at)).value)
    return intrinsic(load)


def _make_store(name: str) -> Callable[..., Any]:
    kind, llvm, c_type, numpy_type = SCALARS[name]

    def store(context: Any, base: Any, at: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.zext(args[2], llvm) if name == "bool" else args[2]
            builder.store(value, _element(builder, llvm, *args[:2]), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, kind), build

    store.__name__ = store.__qualname__ = f"store_{name}"
    step = ctypes.sizeof(c_type)

    def plain(base: int, at: int, value: Any) -> None:
        data = np.asarray(value, numpy_type).tobytes()
        ctypes.memmove(base + step * int(at), data, step)

    PLAIN[store.__name__] = plain
    return intrinsic(store)


def _libc(builder: Any, result: Any, name: str, operands: list[Any]) -> Any:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, operands), name)


@intrinsic
def snapshot(context: Any, memory: Any, first: Any, last: Any) -> Any:
    """Bytes ``first`` to ``last`` of ``memory``, copied; the result is used like the address ``memory``.

    What asks for memory may get none (see ``no_room``).
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        memory, first, last = args
        count, pointer = builder.sub(last, first), I8.as_pointer()
        kept = builder.call(_libc(builder, pointer, "malloc", [I64]), [count])
        source = builder.inttoptr(builder.add(memory, first), pointer)
        with builder.if_then(cgutils.is_not_null(builder, kept)):
            builder.call(_libc(builder, pointer, "memcpy", [pointer, pointer, I64]), [kept, source, count])
        return builder.sub(builder.ptrtoint(kept, I64), first)

    return types.int64(types.int64, types.int64, types.int64), build


@intrinsic
def scratch(context: Any, size: Any) -> Any:
    """The address of ``size`` bytes, to be released from byte 0."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kept = builder.call(_libc(builder, I8.as_pointer(), "malloc", [I64]), args)
        return builder.ptrtoint(kept, I64)

    return types.int64(types.int64), build


@intrinsic
def no_room(context: Any, kept: Any, first: Any) -> Any:
    """Was there no memory for what ``kept`` stands for, whose first byte is ``first``?"""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.icmp_unsigned("==", builder.add(*args), I64(0))

    return types.boolean(types.int64, types.int64), build


@intrinsic
def release(context: Any, kept: Any, first: Any) -> Any:
    """Gives back memory whose first byte is ``first``; nothing, where there was no room."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(builder.add(args[0], args[1]), I8.as_pointer())
        builder.call(_libc(builder, ir.VoidType(), "free", [I8.as_pointer()]), [pointer])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), build


@intrinsic
def hold(context: Any, first: Any, last: Any) -> Any:
    """Room for bytes ``first`` to ``last`` of some memory; the result is used like the address of that memory."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first, last = args
        room = builder.call(_libc(builder, I8.as_pointer(), "malloc", [I64]), [builder.sub(last, first)])
        return builder.sub(builder.ptrtoint(room, I64), first)

    return types.int64(types.int64, types.int64), build


@intrinsic
def deliver(context: Any, memory: Any, held: Any, first: Any, last: Any) -> Any:
    """Bytes ``first`` to ``last`` that wait in ``held`` go to ``memory``, and their room is given back."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        memory, held, first, last = args
        pointer = I8.as_pointer()
        target, source = (builder.inttoptr(builder.add(base, first), pointer) for base in (memory, held))
        copy = _libc(builder, pointer, "memcpy", [pointer, pointer, I64])
        builder.call(copy, [target, source, builder.sub(last, first)])
        builder.call(_libc(builder, ir.VoidType(), "free", [pointer]), [source])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), build


@intrinsic
def where(context: Any, test: Any, inside: Any, outside: Any) -> Any:
    """``inside if test else outside`` without a branch: branches make LLVM slow long before they make code slow."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(*args)

    return inside(types.boolean, inside, inside), build


@intrinsic
def unseen(context: Any, value: Any) -> Any:
    """A float32 that LLVM does not know: it would fold -inf into a maximum that takes it, and lose the vectors."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(32)
        hidden = builder.asm(ir.FunctionType(word, [word]), "", "=r,0", [builder.bitcast(args[0], word)], False)
        return builder.bitcast(hidden, ir.FloatType())

    return types.float32(types.float32), build


# ---- reductions: elements in any order ------------------------------------------------------------------------------


def _make_fold(word: str) -> Callable[..., Any]:
    def fold(context: Any, held: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if word in ("sum", "prod"):
                emit = builder.fadd if word == "sum" else builder.fmul
                return emit(*args, flags=("reassoc",))
            kind = args[0].type
            name = f"llvm.{word}imum.{'f32' if kind == ir.FloatType() else 'f64'}"
            function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind, kind]), name)
            return builder.call(function, args)

        return held(held, held), build

    fold.__name__ = fold.__qualname__ = f"{word}_any"
    return intrinsic(fold)


sum_any, prod_any = _make_fold("sum"), _make_fold("prod")
"""``held`` with one element more; LLVM may add up, or multiply, in an order of its own: so it takes vectors."""
max_any, min_any = _make_fold("max"), _make_fold("min")
"""The larger, or smaller; NaN if either is."""


def _is_first_max(value: Any, at: Any, held: Any, held_at: Any) -> Any:
    more = (value > held) | ((value != value) & (held == held))
    return more | (((value == held) | ((value != value) & (held != held))) & (at < held_at))


def _is_first_min(value: Any, at: Any, held: Any, held_at: Any) -> Any:
    less = (value < held) | ((value != value) & (held == held))
    return less | (((value == held) | ((value != value) & (held != held))) & (at < held_at))


is_first_max = numba.njit(forceinline=True)(_is_first_max)
"""Is ``value`` at position ``at`` torch's choice before the one held? NaN is the extreme, the first of equals wins."""
is_first_min = numba.njit(forceinline=True)(_is_first_min)
PLAIN.update(
    sum_any=lambda held, value: held + value,
    prod_any=lambda held, value: held * value,
    max_any=np.maximum,
    min_any=np.minimum,
    is_first_max=_is_first_max,
    is_first_min=_is_first_min,
)


def _where(test: Any, inside: Any, outside: Any) -> Any:
    return inside if test else outside


_KEPT: dict[int, Any] = {}


def _snapshot(memory: int, first: int, last: int) -> int:
    buffer = ctypes.create_string_buffer(ctypes.string_at(memory + first, last - first), last - first)
    address = ctypes.addressof(buffer)
    _KEPT[address] = buffer
    return address - first


def _release(kept: int, first: int) -> None:
    del _KEPT[kept + first]


def _hold(first: int, last: int) -> int:
    buffer = ctypes.create_string_buffer(last - first)
    _KEPT[ctypes.addressof(buffer)] = buffer
    return ctypes.addressof(buffer) - first


def _deliver(memory: int, held: int, first: int, last: int) -> None:
    ctypes.memmove(memory + first, held + first, last - first)
    del _KEPT[held + first]


def _scratch(size: int) -> int:
    buffer = ctypes.create_string_buffer(size)
    address = ctypes.addressof(buffer)
    _KEPT[address] = buffer
    return address


PLAIN.update(unseen=lambda value: value, no_room=lambda kept, first: False)
PLAIN.update(snapshot=_snapshot, release=_release, scratch=_scratch, hold=_hold, deliver=_deliver, where=_where)

for _name in SCALARS:
    globals()[f"load_{_name}"] = _make_load(_name)
    globals()[f"store_{_name}"] = _make_store(_name)
