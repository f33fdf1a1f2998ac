"""Softmax, log-softmax and their derivatives by definition, in float32 for the halves."""

from __future__ import annotations

from fusekit.passes.build import Build, dims_of, is_contiguous, is_empty, shape_of, write
from fusekit.passes.call import Call, Rule, Write
from fusekit.passes.values import Value

Writes = tuple[Write, ...] | None


def _dims(call: Call, position: int) -> tuple[int, ...] | None:
    dim = call.arg(position, "dim")
    return dims_of(dim, len(shape_of(call, call.operands[0]))) if type(dim) is int else None


def _exponentials(b: Build, x: Value, dims: tuple[int, ...]) -> tuple[Value, Value]:
    """(x - max, sum of its exponentials)."""
    shifted = b.sub(x, b.reduce("max", x, dims))
    return shifted, b.sum(b("exp.default", shifted), dims)


def _forward(is_log: bool) -> Rule:
    def rule(call: Call) -> Writes:
        dims = _dims(call, 1)
        if is_empty(call):
            return ()
        if dims is None or call.arg(2, "half_to_float") is not False:
            return None

        def body(b: Build, r: list[Value]) -> Value:
            shifted, summed = _exponentials(b, b.wide(r[0]), dims)
            if is_log:
                return b.sub(shifted, b("log.default", summed))
            return b.div(b("exp.default", shifted), summed)

        return (write(call, 0, body, call.operands[0]),)

    return rule


def _backward(is_log: bool) -> Rule:
    """Of the upstream gradient and the forward result."""

    def rule(call: Call) -> Writes:
        dims = _dims(call, 2)
        if dims is None or not is_contiguous(call.layout(call.results[0])):
            return None

        def body(b: Build, r: list[Value]) -> Value:
            grad, out = b.wide(r[0]), b.wide(r[1])
            if is_log:
                return b.sub(grad, b.mul(b("exp.default", out), b.sum(grad, dims)))
            return b.mul(out, b.sub(grad, b.sum(b.mul(grad, out), dims)))

        grad_output, output = call.tensor(0, "grad_output"), call.tensor(1, "output")
        if grad_output is None or output is None:
            return None
        return (write(call, 0, body, grad_output, output),)

    return rule


RULES: dict[str, Rule] = {
    "_softmax.default": _forward(is_log=False),
    "_log_softmax.default": _forward(is_log=True),
    "_softmax_backward_data.default": _backward(is_log=False),
    "_log_softmax_backward_data.default": _backward(is_log=True),
}
