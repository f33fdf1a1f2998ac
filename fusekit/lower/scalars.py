"""Between the op table and the printers: the scalar form of an op of the graph, and texts of loads and conversions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from fusekit.dtypes import BF16, BOOL, F16, F64, I64, DType
from fusekit.ids import NodeId
from fusekit.ir import Graph, Number
from fusekit.lower.program import Fold
from fusekit.ops import REGISTER, Kind, Refusal, Scalar, cast, functions, literal, plan
from fusekit.ops.text import parameter as parameter_text

HALVES = (BF16, F16)
_WORD = re.compile(r"[A-Za-z_]\w*")
_SIMPLE = re.compile(r"\w+|[\w.]+\([^()]*\)")


def scalar_of(graph: Graph, node: NodeId) -> Scalar | str:
    """What one element of the op's result is, or why it has no scalar form."""
    op, results = graph.op(node), graph.results(node)
    if not op.target.startswith("aten.") or len(results) != 1 or op.writes:
        return f"{op.target} is no function of single elements"
    kinds = [_kind(graph, tensor) for tensor in graph.operands(node)]
    found = plan(op.target, op.args, dict(op.kwargs), kinds)
    if isinstance(found, Refusal):
        return found.reason
    dtype = graph.tensor(results[0]).dtype
    return found if found.result == dtype else f"{op.target} gives {found.result}, the recording says {dtype}"


def _kind(graph: Graph, tensor: NodeId) -> Kind:
    payload = graph.tensor(tensor)
    return Kind(payload.dtype, not payload.shape, None, prod(payload.shape) == 1)


def helpers_in(text: str) -> frozenset[str]:
    """The functions of the op table that a line calls; a comment calls nothing."""
    return frozenset(_WORD.findall(text.partition("#")[0])) & functions().keys()


def held(dtype: DType) -> str:
    """The dtype as which memory is read and written."""
    return "u16" if dtype in HALVES else dtype.name


def unpack(text: str, dtype: DType) -> str:
    """What memory holds, as a register."""
    return f"unpack_{dtype}({text})" if dtype in HALVES else text


def pack(text: str, dtype: DType) -> str:
    """A register, as what memory holds."""
    return f"pack_{dtype}({text})" if dtype in HALVES else text


def bits(name: str, source: DType, target: DType) -> str:
    """The register of ``target`` with the bits of one of ``source``."""
    raw = f"np.uint8({name})" if source is BOOL else pack(name, source)
    if target is BOOL:
        return f"{raw} != 0"
    kind = "np.uint16" if source in HALVES else "np.uint8" if source is BOOL else REGISTER[source]
    seen = "np.uint16" if target in HALVES else REGISTER[target]
    return unpack(f"{kind}({raw}).view({seen})", target)  # Numba views only what is wrapped on the spot


def position(form: str, start: int | float | Number, step: int | float | Number, dtype: DType) -> str:
    """An element of an arange: computed in int64 or float64, as ATen does."""
    values = [x.example if isinstance(x, Number) else x for x in (start, step)]
    first, each = (f"n{x.index}" if isinstance(x, Number) else repr(x) for x in (start, step))
    if any(isinstance(value, float) for value in values):
        return cast(f"(np.float64({first}) + np.float64({each})*np.float64({form}))", F64, dtype)
    scaled = f"({form})" if each == "1" else f"{each}*({form})"
    return cast(f"np.int64({scaled})" if first == "0" else f"np.int64({scaled} + {first})", I64, dtype)


def convert(name: str, source: DType, target: DType) -> str:
    return cast(name, source, target)


def parameter(name: str, example: int | float, dtype: DType) -> str:
    return parameter_text(name, example, dtype)


def unrounded(scalar: Scalar) -> Scalar:
    """The scalar form without the rounding of halves: registers of float32 keep what they have."""
    body = scalar.body
    for dtype in HALVES:
        while (at := body.find(f"to_{dtype}(")) >= 0:
            start = body.index("(", at)
            end = _closing(body, start)
            is_whole = at == 0 and end == len(body) - 1
            body = body[1 + start : end] if is_whole else body[:at] + body[start:]
    return replace(scalar, body=body)


def _closing(text: str, start: int) -> int:
    """Where the bracket at ``start`` closes."""
    depth = 0
    for k in range(start, len(text)):
        depth += (text[k] == "(") - (text[k] == ")")
        if not depth:
            return k
    raise ValueError(f"{text!r}: no bracket closes the one at {start}")


def apply(scalar: Scalar, operands: Sequence[str]) -> str:
    """The body with operands put in."""
    texts = [text if _SIMPLE.fullmatch(text) else f"({text})" for text in operands]
    return scalar.body.format(*texts, **{f"n{number.index}": f"n{number.index}" for number in scalar.numbers})


def register(dtype: DType) -> str:
    """The numpy type of a register."""
    return "np.bool_" if dtype is BOOL else REGISTER[dtype]


def identity(fold: Fold, dtype: DType) -> str:
    """What an accumulator of ``dtype`` starts with."""
    if fold in (Fold.ANY, Fold.ALL) or dtype is BOOL:
        return f"np.bool_({fold in (Fold.ALL, Fold.MIN, Fold.ARGMIN)})"
    register = REGISTER[dtype]
    if fold in (Fold.SUM, Fold.PROD):
        return f"{register}({int(fold is Fold.PROD)})"
    is_low = fold in (Fold.MAX, Fold.ARGMAX)
    if dtype.is_floating:
        return f"{register}({'-' if is_low else ''}np.inf)"
    bits = 8 * dtype.width
    low, high = (0, 2**bits - 1) if dtype.kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return f"{register}({low if is_low else high})"


def folded(fold: Fold, name: str, value: str, dtype: DType) -> str:
    """The accumulator ``name`` with ``value``, both registers of ``dtype``; elements may come in any order."""
    if dtype is BOOL:
        return f"{name} {'|' if fold in (Fold.ANY, Fold.MAX) else '&'} {value}"
    if fold in (Fold.MAX, Fold.MIN):
        return f"{fold.value}_any({name}, {value})" if dtype.is_floating else f"{fold.value}({name}, {value})"
    if dtype.is_floating:
        return f"{fold.value}_any({name}, {value})"
    return f"{REGISTER[dtype]}({name} {'+' if fold is Fold.SUM else '*'} {value})"


__all__ = [
    "Scalar",
    "apply",
    "bits",
    "convert",
    "folded",
    "helpers_in",
    "identity",
    "literal",
    "pack",
    "parameter",
    "position",
    "register",
    "scalar_of",
    "unpack",
    "unrounded",
]
