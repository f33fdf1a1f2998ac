"""Reductions of a segment: how one starts, what it takes, and how lanes, threads and blocks put theirs together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from fusekit.domains import reduced_dims, space_of
from fusekit.dtypes import DType
from fusekit.ids import NodeId
from fusekit.index import Form
from fusekit.ir import Graph, core
from fusekit.lower.blocks import Across
from fusekit.lower.items import Path
from fusekit.lower.loops import Loops, is_block, is_thread
from fusekit.lower.names import Names
from fusekit.lower.program import Combine, Finish, Fold, Init, LaunchAxis
from fusekit.lower.target import Target, lifted
from fusekit.schedule.plan import Plan


@dataclass(frozen=True, slots=True)
class Folded:
    """A reduction at one index of its result: it starts and is finished in the loops of ``path``, around step ``step``.

    ``combine``: what comes between, in order.
    """

    op: NodeId
    tensor: NodeId
    kept: tuple[Form, ...]
    init: Init
    combine: tuple[Combine, ...]
    finish: Finish
    path: Path
    step: int

    @property
    def threads(self) -> tuple[LaunchAxis, ...]:
        return tuple(axis for one in self.combine if one.over == "threads" for axis in one.axes)

    @staticmethod
    def of(
        graph: Graph,
        plan: Plan,
        names: Names,
        target: Target,
        loops: Loops,
        path: Path,
        lanes: bool,
        slot: int,
        across: Across | None,
    ) -> Folded:
        """``path``: the loops around it; ``lanes``: does it take vectors? ``slot``: its shared memory. ``across``: how
        blocks put it together."""
        (tensor,) = graph.results(plan.op)
        fold, source = fold_of(graph, plan.op), graph.tensor(plan.tensor).dtype
        held = target.accumulator(fold, source)
        name = names.fresh(f"{fold.value}_so_far")
        combine = tuple(_combine(graph, plan, name, held, loops, lanes, slot, across))
        vector = lanes and loops.lanes not in plan.over
        result = names.fresh(_RESULTS.get(fold, fold.value))
        extents = [var.extent for var in plan.inside]
        at = row_major(map(Form.of, plan.inside), extents) if extents else None
        made = lifted(graph.tensor(tensor).dtype, target.exact)
        finish = Finish(result, name, fold, held, made, (plan.op,), vector, at)
        init = Init(name, fold, held, lanes, prod(extents) if extents else None)
        return Folded(plan.op, tensor, plan.kept, init, combine, finish, path, plan.steps[plan.level])


_RESULTS = {Fold.SUM: "total", Fold.MAX: "most", Fold.MIN: "least", Fold.PROD: "product"}


def _combine(
    graph: Graph, plan: Plan, name: str, held: DType, loops: Loops, lanes: bool, slot: int, across: Across | None
) -> Iterable[Combine]:
    fold = fold_of(graph, plan.op)
    if lanes and loops.lanes in plan.over:
        yield Combine(name, fold, held, "lanes")
        lanes = False
    if axes := tuple(a for a in loops.axes if is_thread(a) and a.var in plan.over):
        yield Combine(name, fold, held, "threads", axes, slot, lanes=lanes)
    if axes := tuple(a for a in loops.axes if is_block(a) and a.var in plan.over):
        assert across is not None, "whoever has a block axis was asked how blocks put it together"
        alike = tuple(axis for axis in loops.axes if is_thread(axis) and axis.var not in plan.free)
        shape = graph.tensor(graph.results(plan.op)[0]).shape
        at, size = row_major(plan.kept, shape), prod(shape)
        yield Combine(name, fold, held, across.over, axes, slot, at, size, lanes, alike)


def fold_of(graph: Graph, op: NodeId) -> Fold:
    what = graph.what(op)
    assert isinstance(what, core.Reduce), f"{op} is no reduction"
    return Fold(what.kind)


def position_of(graph: Graph, plan: Plan) -> Form:
    """The row-major number of an element among those that are folded."""
    shape, dims = space_of(graph, plan.op), sorted(reduced_dims(graph, plan.op))
    return row_major([plan.index[d] for d in dims], [shape[d] for d in dims])


def row_major(index: Iterable[Form], shape: Iterable[int]) -> Form:
    flat = Form()
    for form, n in zip(index, shape, strict=True):
        flat = flat * n + form
    return flat
