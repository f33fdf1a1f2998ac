"""Ops that only move or make elements, as writes of parts: fills, copies, cat, pads, scatters of views, flips, rolls.

Intermediates are blocks too, so a cat is one write a part, a pad a fill and a write, a slice_scatter two writes. Each
rule gives the writes of one op, or None where the op must stay a library call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeGuard

from fusekit.dtypes import DType
from fusekit.index import Form, loop_vars
from fusekit.ir import Layout, Number, Operand, core
from fusekit.memory.algebra import narrow
from fusekit.passes.base import items
from fusekit.passes.call import Call, Make, Rule, Write
from fusekit.passes.regions import diagonal, once, select
from fusekit.passes.values import Value, Values


def _same(values: Values, reads: Sequence[Value], region: Layout) -> Value:
    return reads[0]


def constant(number: core.Scalar) -> Make:
    """The number, converted to the region's dtype as ``fill_`` converts it."""
    return lambda values, reads, region: values.fill(number, region.shape, region.dtype)


def _is_number(value: object) -> TypeGuard[bool | int | float | Number]:
    return isinstance(value, (bool, int, float, Number))


def fill(call: Call) -> tuple[Write, ...] | None:
    """``fill_(t, number)`` and ``fill_(t, 0-d tensor)``, also of an expanded tensor."""
    target, value = call.operands[0], call.arg(1, "value")
    region = once(call.layout(target))
    if isinstance(value, Operand):
        return (Write(call.block(target), region, (call.operands[value.position],), _same),)
    return (Write(call.block(target), region, (), constant(value)),) if _is_number(value) else None


def zero(call: Call) -> tuple[Write, ...]:
    target = call.operands[0]
    return (Write(call.block(target), once(call.layout(target)), (), constant(0)),)


def _filled(position: int, name: str, default: object = None) -> Rule:
    def rule(call: Call) -> tuple[Write, ...] | None:
        number = call.arg(position, name, default)
        return (call.result(constant(number)),) if _is_number(number) else None

    return rule


def _always(number: int) -> Rule:
    return lambda call: (call.result(constant(number)),)


def _empty(call: Call) -> tuple[Write, ...]:
    return ()


def arange(call: Call) -> tuple[Write, ...] | None:
    given = [a for a in call.op.args if not isinstance(a, DType)]
    numbers = [n for n in given if isinstance(n, int) and not isinstance(n, bool)]
    if len(numbers) != len(given) or call.layout(call.results[0]).dtype.is_floating:
        return None
    start = numbers[0] if len(numbers) > 1 else 0
    step = numbers[2] if len(numbers) > 2 else 1
    out = call.layout(call.results[0])
    return (call.result(lambda values, _, __: values.iota(start, step, out.shape[0], out.dtype)),)


def flip(call: Call) -> tuple[Write, ...]:
    source = call.operands[0]
    shape, dims = call.layout(source).shape, items(call.arg(1, "dims"))
    assert dims is not None
    index = list(loop_vars(shape))
    for d in dims if shape else ():  # eager takes dimension 0 of a scalar
        assert isinstance(d, int)
        index[d] = Form.of(shape[d] - 1) - index[d]
    return (call.result(_windowed(tuple(index), shape), source),)


def roll(call: Call) -> tuple[Write, ...] | None:
    source = call.operands[0]
    shape, shifts, dims = call.layout(source).shape, items(call.arg(1, "shifts")), items(call.arg(2, "dims"))
    if shifts is None or not dims or not prod(shape):
        return None
    index = list(loop_vars(shape))
    for shift, d in zip(shifts, dims, strict=True):
        assert isinstance(shift, int) and isinstance(d, int)
        index[d] = (index[d] - shift) % shape[d]
    return (call.result(_windowed(tuple(index), shape), source),)


def repeat(call: Call) -> tuple[Write, ...]:
    source, out = call.operands[0], call.layout(call.results[0]).shape
    shape = call.layout(source).shape
    lead = len(out) - len(shape)
    index = tuple(loop_vars(out)[lead + k] % n if n else Form() for k, n in enumerate(shape))
    return (call.result(_windowed(index, out), source),)


def _windowed(index: tuple[Form, ...], shape: tuple[int, ...]) -> Make:
    return lambda values, reads, _: values.window(reads[0], index, shape)


def cat(call: Call) -> tuple[Write, ...] | None:
    tensors, dim = items(call.op.args[0]), call.arg(1, "dim", 0)
    out = call.layout(call.results[0])
    assert tensors is not None and isinstance(dim, int)
    sources = [call.operands[t.position] for t in tensors if isinstance(t, Operand)]
    if len(sources) > 8 or not out.shape:
        return None
    writes: list[Write] = []
    dim, start = dim % len(out.shape), 0
    for source in sources:
        shape = call.layout(source).shape
        if len(shape) != len(out.shape):  # the legacy empty tensor of shape (0,)
            continue
        writes.append(call.result(_same, source, region=narrow(out, dim, start, shape[dim])))
        start += shape[dim]
    return tuple(writes)


def stack(call: Call) -> tuple[Write, ...] | None:
    tensors, dim = items(call.op.args[0]), call.arg(1, "dim", 0)
    out = call.layout(call.results[0])
    assert tensors is not None and isinstance(dim, int)
    if len(tensors) > 8:
        return None
    sources = [call.operands[t.position] for t in tensors if isinstance(t, Operand)]
    dim %= len(out.shape)
    return tuple(call.result(_same, s, region=select(out, dim, k)) for k, s in enumerate(sources))


def _scattered(part: Callable[[Call, Layout], Layout | None]) -> Rule:
    def rule(call: Call) -> tuple[Write, ...] | None:
        region = part(call, call.layout(call.results[0]))
        if region is None:
            return None
        return call.result(_same, call.operands[0]), call.result(_same, call.operands[1], region=region)

    return rule


def _slice_part(call: Call, out: Layout) -> Layout | None:
    names = ((2, "dim", 0), (3, "start", None), (4, "end", None), (5, "step", 1))
    dim, start, end, step = (call.arg(k, name, default) for k, name, default in names)
    if not isinstance(dim, int) or not isinstance(step, int) or isinstance(start, Number) or isinstance(end, Number):
        return None
    low, high, _ = slice(start, end).indices(out.shape[dim])
    return narrow(out, dim % len(out.shape), low, max(0, -(-(high - low) // step)), step)


def _select_part(call: Call, out: Layout) -> Layout | None:
    dim, index = call.arg(2, "dim"), call.arg(3, "index")
    if not isinstance(dim, int) or not isinstance(index, int):
        return None
    return select(out, dim % len(out.shape), index % out.shape[dim])


def _diagonal_part(call: Call, out: Layout) -> Layout | None:
    offset, dim1, dim2 = (call.arg(k, n, d) for k, n, d in ((2, "offset", 0), (3, "dim1", 0), (4, "dim2", 1)))
    if not (isinstance(offset, int) and isinstance(dim1, int) and isinstance(dim2, int)):
        return None
    return diagonal(out, offset, dim1 % len(out.shape), dim2 % len(out.shape))


def pad(call: Call) -> tuple[Write, ...] | None:
    """Constant padding; a negative pad crops."""
    source, pads, value = call.operands[0], items(call.arg(1, "pad")), call.arg(2, "value", 0)
    if pads is None or not _is_number(value):
        return None
    out, shape = call.layout(call.results[0]), call.layout(source).shape
    interior, index = out, list(loop_vars(shape))
    inner = list(shape)
    for k, (before, after) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        assert isinstance(before, int) and isinstance(after, int)
        d = len(shape) - 1 - k
        inner[d] = max(0, shape[d] + min(before, 0) + min(after, 0))
        interior = narrow(interior, d, max(before, 0), inner[d])
        index[d] = loop_vars(tuple(inner))[d] + max(-before, 0)
    crop = _windowed(tuple(index), tuple(inner))
    return call.result(constant(value)), call.result(crop, source, region=interior)


RULES: dict[str, Rule] = {
    "fill_": fill,
    "zero_": zero,
    "full": _filled(1, "fill_value"),
    "full_like": _filled(1, "fill_value"),
    "new_full": _filled(2, "fill_value"),
    "scalar_tensor": _filled(0, "s"),
    "zeros": _always(0),
    "zeros_like": _always(0),
    "new_zeros": _always(0),
    "ones": _always(1),
    "ones_like": _always(1),
    "new_ones": _always(1),
    "empty": _empty,
    "empty_like": _empty,
    "new_empty": _empty,
    "empty_permuted": _empty,
    "empty_strided": _empty,
    "new_empty_strided": _empty,
    "arange": arange,
    "flip": flip,
    "roll": roll,
    "repeat": repeat,
    "cat": cat,
    "stack": stack,
    "slice_scatter": _scattered(_slice_part),
    "select_scatter": _scattered(_select_part),
    "diagonal_scatter": _scattered(_diagonal_part),
    "constant_pad_nd": pad,
}
