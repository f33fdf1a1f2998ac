"""Triangles of matrices: the operand where a guard on row and column holds, zero elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from fusekit.index import loop_vars
from fusekit.ir import Guard, Layout
from fusekit.passes.call import Call, Rule, Write
from fusekit.passes.values import Value, Values


def _triangle(sign: int) -> Rule:
    """``sign`` 1: what lies on diagonal number ``diagonal`` or below it; -1: on it or above."""

    def rule(call: Call) -> tuple[Write, ...] | None:
        diagonal, shape = call.arg(1, "diagonal", 0), call.layout(call.operands[0]).shape
        if type(diagonal) is not int or len(shape) < 2:
            return None
        index = loop_vars(shape)
        inside = (index[-2] - index[-1] + diagonal) * sign  # >= 0 where the operand shows
        guard = Guard(inside, max(inside.bounds[1] + 1, 1))

        def make(values: Values, reads: Sequence[Value], region: Layout) -> Value:
            zeros = values.fill(0, shape, region.dtype)
            return values.overlay(zeros, reads[0], index, (guard,))

        return (call.result(make, call.operands[0]),)

    return rule


RULES: dict[str, Rule] = {"tril.default": _triangle(1), "triu.default": _triangle(-1)}
