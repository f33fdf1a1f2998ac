"""What threads of compiled CUDA kernels know of one another: positions, barriers, shuffles, reductions, tickets.

A warp reduction leaves its result in every thread. ``threads`` and ``width`` are literals, and stay literals in the
signature: Numba keeps one implementation for each signature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from fusekit.run.cuda.arithmetic import COMBINE, call, is_tuple, lanes_of, scalar_type
from fusekit.run.cuda.memory import F32, F64, I32, I64, SHARED, assembly
from fusekit.run.cuda.numba_api import cgutils, intrinsic, types

WARP = 32
XOR = 3  # the mode of llvm.nvvm.shfl.sync.i32 that pairs lanes
_I8 = ir.IntType(8)


def _position(word: str, axis: str) -> Any:
    register = {"thread": "tid", "block": "ctaid", "grid": "nctaid"}[word]

    def position(context: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.zext(call(builder, f"llvm.nvvm.read.ptx.sreg.{register}.{axis}", I32, []), I64)

        return types.int64(), build

    position.__name__ = position.__qualname__ = f"{word}_{axis}"
    return intrinsic(position)


def _effect(word: str, function: str) -> Any:
    def effect(context: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            call(builder, function, ir.VoidType(), [])
            return context.get_dummy_value()

        return types.void(), build

    effect.__name__ = effect.__qualname__ = word
    return intrinsic(effect)


@intrinsic
def shared_memory(context: Any, size: Any) -> Any:
    """The address of ``size`` bytes of shared memory, aligned to 16; each place in the source has its own."""
    if not isinstance(size, types.Literal):
        return None  # Numba asks again, with literals

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.ArrayType(_I8, signature.args[0].literal_value)
        memory = cgutils.add_global_variable(builder.module, kind, "fusekit_shared", SHARED)
        memory.linkage, memory.align, memory.initializer = "internal", 16, ir.Constant(kind, ir.Undefined)
        return builder.ptrtoint(memory, I64)

    # The literal stays in the signature: implementations are kept by signature, and another size is another one.
    return types.int64(size), build


# ---- shuffles and reductions -----------------------------------------------------------------------------------------


def _shuffle_word(builder: Any, word: Any, mask: Any) -> Any:
    pair = ir.LiteralStructType([I32, ir.IntType(1)])
    args = [I32(-1), I32(XOR), word, mask, I32(WARP - 1)]
    return builder.extract_value(call(builder, "llvm.nvvm.shfl.sync.i32", pair, args), 0)


def _shuffle_lane(builder: Any, value: Any, mask: Any) -> Any:
    """A value of 32 or 64 bits, from another thread of the warp."""
    if value.type == F32:
        return builder.bitcast(_shuffle_word(builder, builder.bitcast(value, I32), mask), F32)
    if value.type == I32:
        return _shuffle_word(builder, value, mask)
    whole = builder.bitcast(value, I64) if value.type == F64 else value
    low, high = builder.trunc(whole, I32), builder.trunc(builder.lshr(whole, I64(32)), I32)
    low, high = (builder.zext(_shuffle_word(builder, word, mask), I64) for word in (low, high))
    out = builder.or_(low, builder.shl(high, I64(32)))
    return builder.bitcast(out, F64) if value.type == F64 else out


def _packed(builder: Any, kind: Any, lanes: list[Any]) -> Any:
    return cgutils.pack_array(builder, lanes) if is_tuple(kind) else lanes[0]


def _check(kind: Any) -> None:
    if scalar_type(kind) not in (types.float32, types.float64, types.int32, types.int64, types.uint32, types.uint64):
        raise TypeError(f"threads exchange values of 32 or 64 bits, not {kind}")


@intrinsic
def shuffle_xor(context: Any, x: Any, mask: Any) -> Any:
    """``x`` of the thread of the warp whose number differs in the bits of ``mask``."""
    _check(x)

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask = builder.trunc(args[1], I32)
        values = lanes_of(builder, x, args[0])
        return _packed(builder, x, [_shuffle_lane(builder, value, mask) for value in values])

    return types.unliteral(x)(types.unliteral(x), types.int64), build


def _butterfly(builder: Any, word: str, kind: Any, value: Any, width: int) -> Any:
    step = width // 2
    while step:
        other = _shuffle_lane(builder, value, I32(step))
        value = COMBINE[word](builder, kind, value, other)
        step //= 2
    return value


def _power_of_two(number: int, most: int, what: str) -> int:
    if number & (number - 1) or not 1 <= number <= most:
        raise TypeError(f"{what} is a power of two up to {most}, not {number}")
    return number


def _warp(word: str) -> Any:
    def reduce(context: Any, x: Any, width: Any) -> Any:
        _check(x)
        if not isinstance(width, types.Literal):
            return None  # Numba asks again, with literals
        count, kind = _power_of_two(width.literal_value, WARP, "the width of a warp's reduction"), types.unliteral(x)

        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = lanes_of(builder, kind, args[0])
            return _packed(builder, kind, [_butterfly(builder, word, scalar_type(x), v, count) for v in values])

        return kind(kind, width), build

    reduce.__name__ = reduce.__qualname__ = f"warp_{word}"
    return intrinsic(reduce)


def _block(word: str) -> Any:
    """Over ``thread_x``: warps by shuffles, then their results through 8 * 32 bytes a lane at ``scratch``.

    The result is in every thread. Another reduction takes other scratch, or a barrier comes between them.
    """

    def reduce(context: Any, x: Any, scratch: Any, threads: Any) -> Any:
        _check(x)
        if not isinstance(threads, types.Literal):
            return None  # Numba asks again, with literals
        count, kind = (
            _power_of_two(threads.literal_value, 1024, "the threads of a block's reduction"),
            types.unliteral(x),
        )

        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = lanes_of(builder, kind, args[0])
            one = scalar_type(x)
            values = [_butterfly(builder, word, one, value, min(count, WARP)) for value in values]
            if count > WARP:
                values = _across_warps(builder, word, one, values, args[1], count // WARP)
            return _packed(builder, kind, values)

        return kind(kind, types.int64, threads), build

    reduce.__name__ = reduce.__qualname__ = f"block_{word}"
    return intrinsic(reduce)


def _across_warps(builder: Any, word: str, kind: Any, values: list[Any], scratch: Any, warps: int) -> list[Any]:
    thread = call(builder, "llvm.nvvm.read.ptx.sreg.tid.x", I32, [])
    lane, warp = builder.and_(thread, I32(WARP - 1)), builder.lshr(thread, I32(5))
    bases = [
        builder.inttoptr(builder.add(scratch, I64(8 * WARP * k)), value.type.as_pointer(SHARED))
        for k, value in enumerate(values)
    ]
    with builder.if_then(builder.icmp_unsigned("==", lane, I32(0))):
        for base, value in zip(bases, values, strict=True):
            builder.store(value, builder.gep(base, [warp]))
    call(builder, "llvm.nvvm.barrier0", ir.VoidType(), [])
    mine = builder.and_(lane, I32(warps - 1))
    return [_butterfly(builder, word, kind, builder.load(builder.gep(base, [mine])), warps) for base in bases]


@intrinsic
def stop(context: Any) -> Any:
    """The kernel fails, as an assert in eager's kernels does: the next call that waits for the device raises."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = ("index out of bounds", "fusekit", "kernel")
        held = (context.insert_const_string(builder.module, word) for word in words)
        text, file, function = (builder.addrspacecast(one, ir.IntType(8).as_pointer()) for one in held)
        kinds = [text.type, file.type, I32, function.type, I64]
        declared = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), kinds), "__assertfail")
        builder.call(declared, [text, file, I32(0), function, I64(1)])
        return context.get_dummy_value()

    return types.void(), build


# ---- blocks of a grid ------------------------------------------------------------------------------------------------


@intrinsic
def last_block(context: Any, counter: Any, scratch: Any, blocks: Any) -> Any:
    """Is this the last of ``blocks`` blocks to come here? Then what the others stored before is visible to all of it.

    Every thread of a block calls it; ``scratch`` is 4 bytes of shared memory. The counter is left at 0.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        counter, scratch, blocks = args
        void, barrier = ir.VoidType(), "llvm.nvvm.barrier0"
        place = builder.inttoptr(scratch, I32.as_pointer(SHARED))
        last = builder.sub(builder.trunc(blocks, I32), I32(1))
        call(builder, "llvm.nvvm.membar.gl", void, [])
        call(builder, barrier, void, [])
        threads = [call(builder, f"llvm.nvvm.read.ptx.sreg.tid.{axis}", I32, []) for axis in "xyz"]
        first = builder.or_(builder.or_(*threads[:2]), threads[2])
        with builder.if_then(builder.icmp_unsigned("==", first, I32(0))):
            text = "atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;"
            builder.store(assembly(builder, I32, text, "=r,l,r,~{memory}", [counter, last], True), place)
        call(builder, barrier, void, [])
        ticket = builder.load(place)
        call(builder, "llvm.nvvm.membar.gl", void, [])
        return builder.icmp_unsigned("==", ticket, last)

    return types.boolean(types.int64, types.int64, types.int64), build


# One thread of each block: counts it in, waits for the flag that the last one sets, and counts it out; the last one out
# clears the flag. All three words are 0 again, and no two barriers of a kernel share them.
_SYNC_GRID = """{
    .reg .pred p;
    .reg .u32 t;
    atom.acq_rel.gpu.global.inc.u32 t, [$0], $1;
    setp.eq.u32 p, t, $1;
    @p st.release.gpu.global.u32 [$0+4], 1;
WAIT:
    ld.acquire.gpu.global.u32 t, [$0+4];
    setp.ne.u32 p, t, 1;
    @p bra WAIT;
    atom.acq_rel.gpu.global.inc.u32 t, [$0+8], $1;
    setp.eq.u32 p, t, $1;
    @p st.release.gpu.global.u32 [$0+4], 0;
}"""


@intrinsic
def sync_grid(context: Any, words: Any, blocks: Any) -> Any:
    """All threads of all ``blocks`` blocks wait for one another; what they stored before is visible to all.

    ``words``: three 32-bit words of global memory that are 0. All blocks must be on the device at once.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words, blocks = args
        void, barrier = ir.VoidType(), "llvm.nvvm.barrier0"
        last = builder.sub(builder.trunc(blocks, I32), I32(1))
        call(builder, "llvm.nvvm.membar.gl", void, [])
        call(builder, barrier, void, [])
        threads = [call(builder, f"llvm.nvvm.read.ptx.sreg.tid.{axis}", I32, []) for axis in "xyz"]
        first = builder.or_(builder.or_(*threads[:2]), threads[2])
        with builder.if_then(builder.icmp_unsigned("==", first, I32(0))):
            assembly(builder, void, _SYNC_GRID, "l,r,~{memory}", [words, last], True)
        call(builder, barrier, void, [])
        call(builder, "llvm.nvvm.membar.gl", void, [])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), build


NAMES: dict[str, Callable[..., Any]] = {
    f"{word}_{axis}": _position(word, axis) for word in ("thread", "block", "grid") for axis in "xyz"
}
NAMES["shuffle_xor"] = shuffle_xor
NAMES |= {f"warp_{word}": _warp(word) for word in COMBINE} | {f"block_{word}": _block(word) for word in COMBINE}
NAMES |= {
    "sync_threads": _effect("sync_threads", "llvm.nvvm.barrier0"),
    "shared_memory": shared_memory,
    "last_block": last_block,
    "sync_grid": sync_grid,
    "stop": stop,
}
