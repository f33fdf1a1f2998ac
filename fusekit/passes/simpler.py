"""Rules of ``tidy``: a simpler value that has the same bits, and why it may stand for the one given."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from fusekit import dtypes
from fusekit.dtypes import DType
from fusekit.index import Form, Var, loop_vars, put
from fusekit.ir import Guard, core
from fusekit.passes.rewrite import Rewriter
from fusekit.passes.values import InMemory, Value
from fusekit.why import Reason

Simpler = tuple[Value, Reason]
Rule = Callable[[Rewriter, Value], "Simpler | None"]
Part = tuple[Value, tuple[Form, ...], tuple[Guard, ...]]
"""What an overlay puts, at which index, where."""

DIGITS = {dtypes.F16: 11, dtypes.BF16: 8, dtypes.F32: 24, dtypes.F64: 53}  # of the significand
COMPUTED = core.Call | core.Cast
INVOLUTIONS = ("aten.neg.default", "aten.bitwise_not.default")


def casts(rewriter: Rewriter, v: Value) -> Simpler | None:
    """A cast of a cast, where the type between holds every value of the first."""
    between = _cast(v)
    inner = None if between is None else _cast(between)
    if between is None or inner is None or not holds(between.dtype, inner.dtype):
        return None
    if inner.dtype != v.dtype:
        return rewriter.values.cast(inner, v.dtype), Reason.of("casts-joined", between=between.dtype.name)
    if v.dtype == dtypes.BF16:  # eager's rounding to bfloat16 makes one NaN of all
        return None
    return inner, Reason.of("cast-and-back", dtype=between.dtype.name)


def _cast(v: Value) -> Value | None:
    """What a cast is of; None for anything else."""
    if len(v.operands) != 1 or v.operands[0].dtype == v.dtype or v.operands[0].shape != v.shape:
        return None
    is_copy = isinstance(v.what, core.Call) and v.what.target == "aten._to_copy.default"
    return v.operands[0] if isinstance(v.what, core.Cast) or is_copy else None


def holds(wide: DType, narrow: DType) -> bool:
    """Is every value of ``narrow`` one of ``wide``?"""
    if dtypes.BOOL in (wide, narrow):
        return narrow == dtypes.BOOL
    if wide.is_floating:
        if narrow.is_floating:
            return wide in DIGITS and narrow in DIGITS and wide.width > narrow.width
        return wide != dtypes.F16 and 8 * narrow.width <= DIGITS.get(wide, 0)
    if narrow.is_floating or wide.width <= narrow.width:
        return False
    return not wide.name.startswith("u") or narrow.name.startswith("u")


def pairs(rewriter: Rewriter, v: Value) -> Simpler | None:
    """``-(-x)`` is x, with every sign of zero and NaN; so are two ``not``."""
    if not isinstance(v.what, core.Call) or len(v.operands) != 1:
        return None
    target, inner = v.what.target, v.operands[0]
    if not isinstance(inner.what, core.Call) or inner.what.target != target:
        return None
    if (inner.operands[0].dtype, inner.operands[0].shape) != (v.dtype, v.shape):  # a scalar may have grown on the way
        return None
    if target in INVOLUTIONS or (target == "aten.logical_not.default" and v.dtype == dtypes.BOOL):
        return inner.operands[0], Reason.of("undone-twice", op=target)
    return None


def repeats(rewriter: Rewriter, v: Value) -> Simpler | None:
    """An op on one tensor, of a view that has more elements than the tensor: the op goes in front."""
    if not isinstance(v.what, COMPUTED) or len(set(v.operands)) != 1 or not isinstance(v.operands[0].what, core.Window):
        return None
    view, index = v.operands[0], v.operands[0].what.index
    source = view.operands[0]
    if prod(source.shape) >= prod(view.shape) or v.shape != view.shape or not source.shape:
        return None
    made = rewriter.values.raw(v.what, (source,) * len(v.operands), source.shape, v.dtype)
    reason = Reason.of("before-repeat", op=v.what.target, few=prod(source.shape), many=prod(view.shape))
    moved = rewriter.values.window(made, index, view.shape)
    return None if moved is v else (moved, reason)  # a view moves below a cast again


def windows(rewriter: Rewriter, v: Value) -> Simpler | None:
    """A view of a view, or one that changes nothing."""
    if not isinstance(v.what, core.Window):
        return None
    made = rewriter.values.window(v.operands[0], v.what.index, v.shape)
    return None if made is v else (made, Reason.of("views-joined"))


def views_first(rewriter: Rewriter, v: Value) -> Simpler | None:
    """A squeeze, an unsqueeze or a permute of what is computed element by element, where the operands' own views undo
    it."""
    if not isinstance(v.what, core.Window) or not isinstance(v.operands[0].what, COMPUTED):
        return None
    if v.numel != v.operands[0].numel:
        return None
    if not all(form == Form() or form in loop_vars(v.shape) for form in v.what.index):
        return None
    made = _below(rewriter, v.operands[0], v.what.index, v.shape)
    if made is None or _views(made) >= _views(v):
        return None
    return made, Reason.of("view-undone", shape=str(list(v.shape)))


def _below(rewriter: Rewriter, v: Value, index: tuple[Form, ...], shape: tuple[int, ...]) -> Value | None:
    """``v`` at ``index``, computed of its operands at ``index``; None where something else needs what is computed."""
    values = rewriter.values
    if isinstance(v.what, InMemory):
        return rewriter.load(rewriter.loaded(v)[1].address(index), values.window(v, index, shape), (v,))
    if not isinstance(v.what, COMPUTED):
        return values.window(v, index, shape)
    node = rewriter.node(v)
    if node is None or len(rewriter.graph.users(node)) != 1 or any(o.shape not in ((), v.shape) for o in v.operands):
        return None
    operands = [o if not o.shape else _below(rewriter, o, index, shape) for o in v.operands]
    known = tuple(o for o in operands if o is not None)
    return values.raw(v.what, known, shape, v.dtype) if len(known) == len(operands) else None


def _views(v: Value) -> int:
    """Views that a value is computed through."""
    through = isinstance(v.what, COMPUTED | core.Window)
    return isinstance(v.what, core.Window) + (sum(map(_views, v.operands)) if through else 0)


def parts(rewriter: Rewriter, v: Value) -> Simpler | None:
    """Parts of one tensor put together again as they were."""
    if not isinstance(v.what, core.Overlay):
        return None
    base, found = _parts_of(v)
    source, index, _ = found[0]
    if any((s, i) != (source, index) for s, i, _ in found):
        return _loaded(rewriter, v, found)
    below = (base, loop_vars(v.shape))
    if isinstance(base.what, core.Window):
        below = (base.operands[0], base.what.index)
    if below != (source, index) and not _covers([where for _, _, where in found]):
        return None
    return rewriter.values.window(source, index, v.shape), Reason.of("parts-of-one", parts=len(found))


def _parts_of(v: Value) -> tuple[Value, list[Part]]:
    """What lies below a chain of overlays, and the chain, last one first."""
    found: list[Part] = []
    while isinstance(v.what, core.Overlay):
        value, index = v.operands[1], v.what.index
        if isinstance(value.what, core.Window):
            value, index = value.operands[0], put(value.what.index, index, value.shape)
        found.append((value, index, v.what.where))
        v = v.operands[0]
    return v, found


def _loaded(rewriter: Rewriter, v: Value, found: list[Part]) -> Simpler | None:
    """Parts that were loaded each for itself, and lie in memory as they are put together: a load of the whole."""
    if any(not isinstance(s.what, InMemory) or s.dtype != v.dtype for s, _, _ in found) or not _covers(
        [w for _, _, w in found]
    ):
        return None
    loads = [(rewriter.loaded(s), index) for s, index, _ in found]
    addresses = {(block, layout.address(index)) for (block, layout), index in loads}
    if len(addresses) != 1:
        return None
    made = rewriter.load(next(iter(addresses))[1], v, list(dict.fromkeys(s for s, _, _ in found)))
    return None if made is None else (made, Reason.of("parts-of-one", parts=len(found)))


def _covers(wheres: list[tuple[Guard, ...]]) -> bool:
    """Do intervals along one dimension together hold all of it?"""
    spans: list[tuple[int, int]] = []
    seen: set[Var] = set()
    for where in wheres:
        if not where:
            return True
        (guard, *more), terms = where, where[0].form.terms
        if more or len(terms) != 1 or terms[0][1] != 1 or not isinstance(terms[0][0], Var):
            return False
        seen.add(terms[0][0])
        spans.append((-guard.form.const, guard.extent - guard.form.const))
    at = 0
    for low, high in sorted(spans):
        if low > at:
            return False
        at = max(at, high)
    return len(seen) == 1 and at >= next(iter(seen)).extent


RULES: tuple[Rule, ...] = (casts, pairs, windows, views_first, parts, repeats)
