"""Loads and stores of compiled CUDA kernels: raw addresses, one function a dtype, a width and a memory.

``load_f32(base, i)`` reads element ``i`` from byte address ``base`` (int64); ``load_f32x4`` reads four from there as a
tuple, in one access that must be aligned to its own size, and ``load_shared_...`` does the same in shared memory. The
address of a single element must be aligned to the element.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fusekit.run.cuda.kinds import HALVES, WIDTHS, lane_counts
from fusekit.run.cuda.numba_api import cgutils, intrinsic, types

I16, I32, I64 = (ir.IntType(n) for n in (16, 32, 64))
HALF, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
# dtype name -> Numba's type of the register
REGISTERS: dict[str, Any] = {
    "bool": types.boolean, "u8": types.uint8, "u16": types.uint16, "u32": types.uint32, "u64": types.uint64,
    "i8": types.int8, "i16": types.int16, "i32": types.int32, "i64": types.int64,
    "bf16": types.float32, "f16": types.float32, "f32": types.float32, "f64": types.float64,
}  # fmt: skip
GLOBAL, SHARED = 1, 3
SPACES = {"": GLOBAL, "shared_": SHARED}


def assembly(builder: Any, result: Any, text: str, constraints: str, args: list[Any], effect: bool = False) -> Any:
    """One PTX instruction; ``effect``: it may not be moved, merged or dropped."""
    kinds = [arg.type for arg in args]
    return builder.call(ir.InlineAsm(ir.FunctionType(result, kinds), text, constraints, effect), args)


def stored(name: str) -> Any:
    """LLVM's type of an element in memory."""
    return {"f32": F32, "f64": F64}.get(name) or ir.IntType(8 * WIDTHS[name])


def carrier(name: str, count: int) -> tuple[Any, int]:
    """(LLVM type, number) of the words in which ``count`` elements travel; narrow ones share 32-bit words."""
    if WIDTHS[name] >= 4:
        return stored(name), count
    size = count * WIDTHS[name]
    return ir.IntType(8 * min(size, 4)), max(1, size // 4)


def element(builder: Any, base: Any, at: Any, name: str, target: Any, space: int) -> Any:
    """Pointer to ``target`` at element ``at`` of ``base``: a step from a typed base keeps constants in the access."""
    if at.type.width < 64:
        at = builder.sext(at, I64)
    start = builder.inttoptr(base, stored(name).as_pointer(space))
    return builder.bitcast(builder.gep(start, [at]), target.as_pointer(space))


def widen(builder: Any, raw: Any, name: str) -> Any:
    """The register of what memory holds."""
    if name == "bool":
        return builder.icmp_unsigned("!=", raw, raw.type(0))
    if name == "bf16":
        return builder.bitcast(builder.shl(builder.zext(raw, I32), I32(16)), F32)
    return builder.fpext(builder.bitcast(raw, HALF), F32) if name == "f16" else raw


def narrow(builder: Any, value: Any, name: str) -> Any:
    """What memory holds of a register; halves round to nearest even."""
    if name == "bool":
        return builder.zext(value, ir.IntType(8))
    if name in HALVES:
        return assembly(builder, I16, f"cvt.rn.{name}.f32 $0, $1;", "=h,f", [value])
    return value


def split(builder: Any, words: list[Any], name: str, count: int) -> list[Any]:
    """The registers of elements that travelled in ``words``."""
    kind = stored(name)
    if words[0].type == kind:
        return [widen(builder, word, name) for word in words]
    each = count // len(words)
    raws = []
    for word in words:
        for k in range(each):
            moved = builder.lshr(word, word.type(k * kind.width)) if k else word
            raws.append(builder.trunc(moved, kind))
    return [widen(builder, raw, name) for raw in raws]


def upper(builder: Any, values: list[Any]) -> list[Any]:
    """The words in which bfloat16 travels, of registers that hold nothing else: their upper halves."""
    bits = [builder.bitcast(value, I32) for value in values]
    if len(bits) == 1:
        return [builder.trunc(builder.lshr(bits[0], I32(16)), I16)]
    pairs = [bits[k : k + 2] for k in range(0, len(bits), 2)]
    return [builder.or_(builder.lshr(a, I32(16)), builder.and_(b, I32(-65536))) for a, b in pairs]


def joined(builder: Any, values: list[Any], name: str) -> list[Any]:
    """The words in which registers travel."""
    kind, number = carrier(name, len(values))
    if kind == stored(name):
        return [narrow(builder, value, name) for value in values]
    if name in HALVES:
        pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
        text = f"cvt.rn.{name}x2.f32 $0, $2, $1;"
        return [assembly(builder, I32, text, "=r,f,f", pair) for pair in pairs]
    each, words = len(values) // number, []
    for k in range(number):
        word = kind(0)
        for j, value in enumerate(values[k * each : (k + 1) * each]):
            raw = builder.zext(narrow(builder, value, name), kind)
            word = builder.or_(word, builder.shl(raw, kind(8 * WIDTHS[name] * j)) if j else raw)
        words.append(word)
    return words


def read_words(builder: Any, args: Any, name: str, count: int, space: int) -> list[Any]:
    """One access that reads ``count`` elements."""
    kind, number = carrier(name, count)
    vector = ir.VectorType(kind, number) if number > 1 else kind
    value = builder.load(element(builder, args[0], args[1], name, vector, space))
    value.align = count * WIDTHS[name]
    return [builder.extract_element(value, I32(k)) for k in range(number)] if number > 1 else [value]


def write_words(builder: Any, args: Any, words: list[Any], name: str, count: int, space: int) -> None:
    """One access that writes ``count`` elements."""
    value = words[0]
    if len(words) > 1:
        value = ir.Constant(ir.VectorType(words[0].type, len(words)), ir.Undefined)
        for k, word in enumerate(words):
            value = builder.insert_element(value, word, I32(k))
    done = builder.store(value, element(builder, args[0], args[1], name, value.type, space))
    done.align = count * WIDTHS[name]


def _load(name: str, count: int, space: int) -> Any:
    def load(context: Any, base: Any, at: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = split(builder, read_words(builder, args, name, count, space), name, count)
            return values[0] if count == 1 else cgutils.pack_array(builder, values)

        kind = REGISTERS[name]
        return (kind if count == 1 else types.UniTuple(kind, count))(types.int64, at), build

    return load


def _store(name: str, count: int, space: int, exact: bool = False) -> Any:
    def store(context: Any, base: Any, at: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            held = args[2]
            values = [held] if count == 1 else [builder.extract_value(held, k) for k in range(count)]
            words = upper(builder, values) if exact else joined(builder, values, name)
            write_words(builder, args, words, name, count, space)
            return context.get_dummy_value()

        kind = REGISTERS[name]
        return types.void(types.int64, at, kind if count == 1 else types.UniTuple(kind, count)), build

    return store


def _load_packed(name: str, count: int) -> Any:
    def load_packed(context: Any, base: Any, at: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return cgutils.pack_array(builder, read_words(builder, args, name, count, GLOBAL))

        return types.UniTuple(types.int32, count // 2)(types.int64, at), build

    return load_packed


def _load_within(name: str, count: int) -> Any:
    def load_within(context: Any, base: Any, at: Any, first: Any, last: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            base, at, first, last = args
            end = builder.add(at, I64(count))
            start, end = (builder.icmp_signed("<=", a, b) for a, b in ((first, at), (end, last)))
            with builder.if_else(builder.and_(start, end)) as (inside, across):
                with inside:
                    all_at_once = split(builder, read_words(builder, (base, at), name, count, GLOBAL), name, count)
                    one = builder.block
                with across:
                    each = []
                    for k in range(count):
                        place = builder.add(at, I64(k))
                        is_inside = builder.and_(
                            builder.icmp_signed("<=", first, place), builder.icmp_signed("<", place, last)
                        )
                        before = builder.block
                        with builder.if_then(is_inside):
                            value = split(builder, read_words(builder, (base, place), name, 1, GLOBAL), name, 1)[0]
                            read = builder.block
                        each.append(_either(builder, (value, read), (ir.Constant(value.type, 0), before)))
                    other = builder.block
            return cgutils.pack_array(
                builder, [_either(builder, (a, one), (b, other)) for a, b in zip(all_at_once, each, strict=True)]
            )

        kind = types.UniTuple(REGISTERS[name], count)
        return kind(types.int64, types.int64, types.int64, types.int64), build

    return load_within


def _either(builder: Any, *ways: tuple[Any, Any]) -> Any:
    """The value of the block that control came from."""
    node = builder.phi(ways[0][0].type)
    for value, block in ways:
        node.add_incoming(value, block)
    return node


def _store_masked(name: str, count: int, exact: bool = False) -> Any:
    words = upper if exact else lambda builder, values: joined(builder, values, name)

    def store_masked(context: Any, base: Any, at: Any, value: Any, mask: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values, wanted = ([builder.extract_value(arg, k) for k in range(count)] for arg in args[2:])
            every = wanted[0]
            for one in wanted[1:]:
                every = builder.and_(every, one)
            with builder.if_else(every) as (whole, parts):
                with whole:
                    write_words(builder, args, words(builder, values), name, count, GLOBAL)
                with parts:
                    for k, (one, lane) in enumerate(zip(wanted, values, strict=True)):
                        with builder.if_then(one):
                            place = (args[0], builder.add(args[1], I64(k)))
                            write_words(builder, place, words(builder, [lane]), name, 1, GLOBAL)
            return context.get_dummy_value()

        lanes, bools = types.UniTuple(REGISTERS[name], count), types.UniTuple(types.boolean, count)
        return types.void(types.int64, types.int64, lanes, bools), build

    return store_masked


def _named(name: str, build: Any) -> Any:
    build.__name__ = build.__qualname__ = name
    return intrinsic(build)


def _names() -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in WIDTHS:
        for count in (1, *lane_counts(name)):
            tail = f"{name}x{count}" if count > 1 else name
            for word, space in SPACES.items():
                out[f"load_{word}{tail}"] = _load(name, count, space)
                out[f"store_{word}{tail}"] = _store(name, count, space)
                if name == "bf16":
                    out[f"store_{word}exact_{tail}"] = _store(name, count, space, True)
            if count > 1:
                out[f"load_within_{tail}"] = _load_within(name, count)
                if name in HALVES:
                    out[f"load_packed_{tail}"] = _load_packed(name, count)
                out[f"store_masked_{tail}"] = _store_masked(name, count)
                if name == "bf16":
                    out[f"store_masked_exact_{tail}"] = _store_masked(name, count, True)
    return {name: _named(name, build) for name, build in out.items()}


NAMES = _names()
