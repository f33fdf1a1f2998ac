"""What is legal for ops on values, beyond the stage: what a kernel relies on when it computes positions and elements.

A pass of ours keeps these rules by its construction. A graph from a text or from a pass of a user's is held against
them, since a kernel that reads at a position outside of its tensor reads what is not the program's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite

from fusekit.dtypes import BOOL, I32, I64
from fusekit.ids import NodeId
from fusekit.index import Form, Var
from fusekit.ir.arguments import Guard, Number, is_tuple
from fusekit.ir.graph import INPUT, RETURN, Graph
from fusekit.ir.payloads import Op, Tensor

Problems = Iterator[tuple[NodeId, str]]
FOLDS = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")
ERRORS = ("IndexError", "RuntimeError")
CHECKED = ("embedding", "index_select", "index", "gather", "nll_loss_forward", "nll_loss2d_forward")


def ops_are_known(graph: Graph) -> Problems:
    """Every op of ours is one that has a meaning, with as many operands and results as that takes."""
    for op in graph.ops():
        payload = graph.op(op)
        count = len(graph.operands(op)), len(graph.results(op))
        if payload.target.startswith("fk."):
            wanted = _COUNTS.get(payload.target)
            if wanted is None:
                yield op, f"is {payload.target:.40}, which is no op"
            elif payload.target not in (INPUT, RETURN) and count != wanted:
                yield (
                    op,
                    f"has {count[0]} operands and {count[1]} results, {payload.target} has {wanted[0]} and {wanted[1]}",
                )
        elif any(graph.is_value(t) for t in graph.results(op)) and count[1] != 1:
            yield op, f"makes {count[1]} values, and can make one"


def elements_agree(graph: Graph) -> Problems:
    """Values have the shapes and element types that their ops give them."""
    for op in graph.ops():
        payload = graph.op(op)
        ins, outs = ([graph.tensor(t) for t in some] for some in (graph.operands(op), graph.results(op)))
        rule = _RULES.get(payload.target)
        if rule is not None:
            problem = rule(payload, ins, outs)
        elif outs and not payload.target.startswith("fk.") and graph.is_value(graph.results(op)[0]):
            problem = next(
                (f"{list(t.shape)} is no {list(outs[0].shape)}" for t in ins if not _spreads(t, outs[0])), None
            )
        else:
            continue
        if problem is not None:
            yield op, problem


def forms_stay_inside(graph: Graph) -> Problems:
    """The index of a window is inside of its source everywhere, that of an overlay wherever its guards hold; their
    variables are positions in the result, and numbers of the call."""
    for op in graph.ops():
        payload = graph.op(op)
        if payload.target not in ("fk.window", "fk.overlay"):
            continue
        source = graph.tensor(graph.operands(op)[-1]).shape
        shape = graph.tensor(graph.results(op)[0]).shape
        index, where = payload.kwarg("index", ()), payload.kwarg("where", ())
        if not is_tuple(index) or not is_tuple(where) or not all(isinstance(guard, Guard) for guard in where):
            yield op, "has no tuple of forms, or none of guards"
            continue
        forms = [Form.of(form) for form in index if isinstance(form, Form | int)]
        guards = [guard for guard in where if isinstance(guard, Guard)]
        if len(forms) < len(source):
            yield op, f"has {len(forms)} forms for a source of {len(source)} dimensions"
        odd = [v for form in (*forms, *(g.form for g in guards)) for v in form.free if not _is_of(v, shape)]
        if odd:
            yield op, f"has the variable {odd[0].name:.20} below {odd[0].extent}, which is no position in {list(shape)}"
        elif 0 not in shape and not any(_never(guard) for guard in guards):
            for k, (form, size) in enumerate(zip(forms, source, strict=False)):
                low, high = bounds(form, guards)
                if low < 0 or high >= size:
                    yield op, f"reads at {low} to {high} in dimension {k}, which has {size} elements"


def _never(guard: Guard) -> bool:
    low, high = guard.form.bounds
    return high < 0 or low >= guard.extent


def bounds(form: Form, guards: list[Guard]) -> tuple[int, int]:
    """The range of a form wherever all guards hold: a guard over a multiple of the form's own terms narrows it."""
    low, high = form.bounds
    for guard in guards:
        for sign in (1, -1):
            rest = form - guard.form * sign
            least, most = rest.bounds
            inner = (0, guard.extent - 1) if sign > 0 else (1 - guard.extent, 0)
            low, high = max(low, least + inner[0]), min(high, most + inner[1])
    return low, high


def _is_of(var: Var, shape: tuple[int, ...]) -> bool:
    if var.kind == "number":
        return True
    return any(var.name == f"i{k}" and var.extent == n for k, n in enumerate(shape))


# ---- one op each: what is wrong, or None ----------------------------------------------------------------------------


def _spreads(operand: Tensor, result: Tensor) -> bool:
    """May the operand be read at every position of the result, its dimensions aligned at the last one?"""
    given, wanted = operand.shape[::-1], result.shape[::-1]
    return len(given) <= len(wanted) and all(n in (1, m) for n, m in zip(given, wanted, strict=False))


def _same(op: Op, ins: list[Tensor], outs: list[Tensor]) -> str | None:
    return None if ins[0] == outs[0] else f"makes {outs[0]} of {ins[0]}"


def _dtype_stays(op: Op, ins: list[Tensor], outs: list[Tensor]) -> str | None:
    alike = {t.dtype for t in (*ins, *outs)}
    if len(alike) > 1:
        return f"mixes {' and '.join(sorted(t.name for t in alike))}"
    return f"{list(ins[0].shape)} becomes {list(outs[0].shape)}" if len(ins) > 1 and ins[0] != outs[0] else None


def _cast(op: Op, ins: list[Tensor], outs: list[Tensor]) -> str | None:
    return None if ins[0].shape == outs[0].shape else f"{list(ins[0].shape)} becomes {list(outs[0].shape)}"


def _bits(op: Op, ins: list[Tensor], outs: list[Tensor]) -> str | None:
    if ins[0].dtype.width != outs[0].dtype.width:
        return f"reads {ins[0].dtype} as {outs[0].dtype}, which is of another width"
    return _cast(op, ins, outs)


def _fill(op: Op, ins: list[Tensor], outs: list[Tensor]) -> str | None:
    return _number(op.kwarg("value"), outs[0])


def _number(value: object, made: Tensor) -> str | None:
    """A number that an element can hold; eager wraps integers that are too large, so only 64 bits are asked for."""
    if isinstance(value, Number):
        return None
    if not isinstance(value, bool | int | float | complex):
        return f"{value!r:.40} is no number"
    is_finite = isinstance(value, int) or (isinstance(value, float) and isfinite(value))  # 2.7 counts as 2, as in eager
    if made.dtype.is_integral and made.dtype is not BOOL and not is_finite:
        return f"{value!r:.40} is no number for {made.dtype}"
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return f"a number of {value.bit_length()} bits is too large for {made.dtype}"
    return None


def _iota(op: Op, ins: list[Tensor], outs: list[Tensor]) -> str | None:
    if len(outs[0].shape) != 1:
        return f"counts in {len(outs[0].shape)} dimensions"
    for name, default in (("start", 0), ("step", 1)):
        value = op.kwarg(name, default)
        if isinstance(value, complex):
            return f"{name} is {value!r:.40}"
        problem = _number(value, Tensor(I64 if isinstance(value, int) else outs[0].dtype, ()))
        if problem is not None:
            return problem
    return None


def _reduce(op: Op, ins: list[Tensor], outs: list[Tensor]) -> str | None:
    kind, dims = op.kwarg("kind"), op.kwarg("dims")
    if kind not in FOLDS:
        return f"folds by {kind!r:.20}, and can by {', '.join(FOLDS)}"
    rank = len(ins[0].shape)
    if not is_tuple(dims) or sorted({d for d in dims if isinstance(d, int)}) != list(dims):
        return f"folds the dimensions {dims!r:.40}"
    if any(not isinstance(d, int) or not 0 <= d < rank for d in dims):
        return f"folds dimensions {dims!r:.40} of {rank}"
    if kind in ("max", "min", "argmax", "argmin") and any(isinstance(d, int) and not ins[0].shape[d] for d in dims):
        return "has no element to find an extreme in"
    wanted = {"argmax": I64, "argmin": I64, "any": BOOL, "all": BOOL, "max": ins[0].dtype, "min": ins[0].dtype}
    due = wanted.get(str(kind), outs[0].dtype)
    return None if due is outs[0].dtype else f"gives {due}, and is recorded as {outs[0].dtype}"


def _look_up(op: Op, ins: list[Tensor], outs: list[Tensor]) -> str | None:
    source, index = ins
    dim = op.kwarg("dim")
    if not isinstance(dim, int) or isinstance(dim, bool) or not 0 <= dim < len(source.shape):
        return f"looks up along {dim!r:.20} of {len(source.shape)} dimensions"
    if index.dtype not in (I32, I64):
        return f"looks up at positions in {index.dtype}"
    if source.dtype is not outs[0].dtype:
        return f"looks up {source.dtype} and gives {outs[0].dtype}"
    if op.target == "fk.gather":
        pairs = enumerate(zip(index.shape, source.shape, strict=False))
        if len(index.shape) != len(source.shape) or any(n > m for k, (n, m) in pairs if k != dim):
            return f"looks up {list(index.shape)} in {list(source.shape)} along {dim}"
    return None


def _check(op: Op, ins: list[Tensor], outs: list[Tensor]) -> str | None:
    size, wraps, ignore = op.kwarg("size"), op.kwarg("wraps", False), op.kwarg("ignore")
    if ins[0].dtype not in (I32, I64):
        return f"looks at positions in {ins[0].dtype}"
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 62:
        return f"has the size {size!r:.24}"
    if not isinstance(wraps, bool) or not isinstance(ignore, int | None) or isinstance(ignore, bool):
        return f"wraps {wraps!r:.20} and ignores {ignore!r:.20}"
    if ignore is not None and not -(1 << 63) <= ignore < 1 << 63:
        return f"ignores {ignore!r:.24}"
    if op.kwarg("error") not in ERRORS or op.kwarg("of") not in CHECKED:
        return f"raises {op.kwarg('error')!r:.24} of {op.kwarg('of')!r:.24}"
    return None


_COUNTS = {
    **dict.fromkeys(("fk.load", "fk.window", "fk.cast", "fk.bits", "fk.reduce", "fk.cut"), (1, 1)),
    **dict.fromkeys(("fk.fill", "fk.iota"), (0, 1)),
    **dict.fromkeys(("fk.overlay", "fk.take", "fk.gather"), (2, 1)),
    "fk.store": (2, 0),
    "fk.check_index": (1, 0),
    INPUT: (0, 0),
    RETURN: (0, 0),
}
_RULES: dict[str, Callable[[Op, list[Tensor], list[Tensor]], str | None]] = {
    "fk.cut": _same,
    "fk.window": _dtype_stays,
    "fk.overlay": _dtype_stays,
    "fk.cast": _cast,
    "fk.bits": _bits,
    "fk.fill": _fill,
    "fk.iota": _iota,
    "fk.reduce": _reduce,
    "fk.take": _look_up,
    "fk.gather": _look_up,
    "fk.check_index": _check,
}
