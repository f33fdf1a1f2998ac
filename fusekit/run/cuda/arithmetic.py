"""Arithmetic of compiled CUDA kernels that Python's operators do not say: a fixed rounding, a fixed treatment of NaN.

Every function takes scalars, tuples of lanes or both, lane by lane. ``add_rn`` and ``mul_rn`` round on their
own wherever they stand; a compiler that contracts (``contract=True``) leaves them alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from fusekit.run.cuda.memory import F32, F64, I32, I64, assembly, joined, narrow, split, widen
from fusekit.run.cuda.numba_api import cgutils, intrinsic, types

Lane = Callable[..., Any]
FLOATS = {types.float32: ("f", F32), types.float64: ("d", F64)}


def call(builder: Any, name: str, result: Any, args: list[Any]) -> Any:
    """A function of NVVM."""
    kinds = [arg.type for arg in args]
    return builder.call(cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, kinds), name), args)


def _rounded(operation: str) -> Lane:
    def lane(builder: Any, kind: Any, *args: Any) -> Any:
        letter, llvm = FLOATS[kind]
        return call(builder, f"llvm.nvvm.{operation}.rn.{letter}", llvm, list(args))

    return lane


def _approximate(instruction: str) -> Lane:
    def lane(builder: Any, kind: Any, x: Any) -> Any:
        return assembly(builder, F32, f"{instruction} $0, $1;", "=f,f", [x])

    return lane


def add(builder: Any, kind: Any, a: Any, b: Any) -> Any:
    """The sum: floats round to nearest, integers wrap."""
    return _rounded("add")(builder, kind, a, b) if kind in FLOATS else builder.add(a, b)


def multiply(builder: Any, kind: Any, a: Any, b: Any) -> Any:
    """The product: floats round to nearest, integers wrap."""
    return _rounded("mul")(builder, kind, a, b) if kind in FLOATS else builder.mul(a, b)


def extremum(word: str, sign: str) -> Lane:
    """``max`` (">") or ``min`` ("<"), where NaN wins."""

    def lane(builder: Any, kind: Any, a: Any, b: Any) -> Any:
        if kind == types.float32:
            return assembly(builder, F32, f"{word}.NaN.f32 $0, $1, $2;", "=f,f,f", [a, b])
        if kind == types.float64:
            wins = builder.or_(builder.fcmp_ordered(sign, a, b), builder.fcmp_unordered("uno", a, a))
        elif getattr(kind, "signed", False):
            wins = builder.icmp_signed(sign, a, b)
        else:
            wins = builder.icmp_unsigned(sign, a, b)
        return builder.select(wins, a, b)

    return lane


def half(name: str) -> Lane:
    """A float32 rounded to the nearest value of ``name``, as a float32."""
    return lambda builder, kind, x: widen(builder, narrow(builder, x, name), name)


MAX, MIN = extremum("max", ">"), extremum("min", "<")
# name -> (operands, what one lane does, does it work on float32 only?)
TABLE: dict[str, tuple[int, Lane, bool]] = {
    "add_rn": (2, _rounded("add"), False), "mul_rn": (2, _rounded("mul"), False),
    "sqrt_rn": (1, _rounded("sqrt"), False), "fma": (3, _rounded("fma"), False),
    "max_nan": (2, MAX, False), "min_nan": (2, MIN, False),
    "to_bf16": (1, half("bf16"), True), "to_f16": (1, half("f16"), True),
    "exp2_approx": (1, _approximate("ex2.approx.ftz.f32"), True),
    "rcp_approx": (1, _approximate("rcp.approx.ftz.f32"), True),
}  # fmt: skip
COMBINE: dict[str, Lane] = {"sum": add, "prod": multiply, "max": MAX, "min": MIN}


def lanes_of(builder: Any, kind: Any, value: Any) -> list[Any]:
    """The lanes of a tuple; a scalar is one."""
    return [builder.extract_value(value, k) for k in range(kind.count)] if is_tuple(kind) else [value]


def is_tuple(kind: Any) -> bool:
    return isinstance(kind, types.UniTuple)


def scalar_type(kind: Any) -> Any:
    """The type of one lane, with Numba's literal types made plain."""
    return types.unliteral(kind.dtype if is_tuple(kind) else kind)


def _lifted(lane: Lane, only_f32: bool, *kinds: Any) -> Any:
    width = max((kind.count for kind in kinds if is_tuple(kind)), default=0)
    one = types.float32 if only_f32 else scalar_type(kinds[0])
    taken = [types.UniTuple(one, width) if is_tuple(kind) else one for kind in kinds]

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = [lanes_of(builder, kind, arg) for kind, arg in zip(signature.args, args, strict=True)]
        lanes = [values if len(values) == max(width, 1) else values * width for values in lanes]
        out = [lane(builder, one, *operands) for operands in zip(*lanes, strict=True)]
        return cgutils.pack_array(builder, out) if width else out[0]

    return (types.UniTuple(one, width) if width else one)(*taken), build


def pointwise(name: str, operands: int, lane: Lane, only_f32: bool) -> Any:
    """An intrinsic of one to three operands."""
    forms: dict[int, Callable[..., Any]] = {
        1: lambda context, x: _lifted(lane, only_f32, x),
        2: lambda context, x, y: _lifted(lane, only_f32, x, y),
        3: lambda context, x, y, z: _lifted(lane, only_f32, x, y, z),
    }
    form = forms[operands]
    form.__name__ = form.__qualname__ = name
    return intrinsic(form)


def _across(word: str) -> Any:
    """The lanes of a tuple in one scalar, by a tree of fixed shape."""

    def across(context: Any, x: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = lanes_of(builder, x, args[0])
            while len(values) > 1:
                pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
                values = [COMBINE[word](builder, scalar_type(x), *p) if len(p) == 2 else p[0] for p in pairs]
            return values[0]

        return scalar_type(x)(x), build

    across.__name__ = across.__qualname__ = f"{word}_lanes"
    return intrinsic(across)


@intrinsic
def repeat_lanes(context: Any, x: Any, count: Any) -> Any:
    """A scalar in every one of ``count`` lanes."""
    if not isinstance(count, types.Literal):
        return None  # Numba asks again, with literals
    kind, width = types.unliteral(x), count.literal_value

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return cgutils.pack_array(builder, [args[0]] * width)

    return types.UniTuple(kind, width)(kind, count), build


def _unpack(name: str, again: bool) -> Any:
    """Lanes of packed words. ``again``: computed anew at each use, so that registers hold the packed form."""

    def unpack(context: Any, words: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            held = lanes_of(builder, words, args[0])
            if again:
                held = [assembly(builder, I32, "mov.b32 $0, $1;", "=r,r", [word], True) for word in held]
            return cgutils.pack_array(builder, split(builder, held, name, 2 * words.count))

        return types.UniTuple(types.float32, 2 * words.count)(words), build

    unpack.__name__ = unpack.__qualname__ = f"unpack_lanes_{name}{'_again' if again else ''}"
    return intrinsic(unpack)


def _pack(name: str) -> Any:
    def pack(context: Any, x: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return cgutils.pack_array(builder, joined(builder, lanes_of(builder, x, args[0]), name))

        return types.UniTuple(types.int32, x.count // 2)(x), build

    pack.__name__ = pack.__qualname__ = f"pack_lanes_{name}"
    return intrinsic(pack)


def _unsigned(word: str, operation: str) -> Any:
    """Division of positions: neither operand is negative and both fit 32 bits, where 64-bit division is slow."""

    def divide(context: Any, a: Any, b: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            narrow_args = [builder.trunc(arg, I32) for arg in args]
            return builder.zext(getattr(builder, operation)(*narrow_args), I64)

        return types.int64(types.int64, types.int64), build

    divide.__name__ = divide.__qualname__ = word
    return intrinsic(divide)


NAMES = {name: pointwise(name, *row) for name, row in TABLE.items()}
NAMES |= {f"{word}_lanes": _across(word) for word in COMBINE}
NAMES["repeat_lanes"] = repeat_lanes
NAMES |= {"div_u32": _unsigned("div_u32", "udiv"), "mod_u32": _unsigned("mod_u32", "urem")}
for _name in ("bf16", "f16"):
    NAMES[f"pack_lanes_{_name}"] = _pack(_name)
    NAMES[f"unpack_lanes_{_name}"] = _unpack(_name, False)
    NAMES[f"unpack_lanes_{_name}_again"] = _unpack(_name, True)
