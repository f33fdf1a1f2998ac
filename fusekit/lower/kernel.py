"""A segment's kernel: one source text, what it is called with, and the record of its races."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Literal

from fusekit.domains import reference_of, roots
from fusekit.escape import identifier
from fusekit.ids import NodeId
from fusekit.ir import Graph, core
from fusekit.ir import Segment as SegmentPayload
from fusekit.lower.assemble import Ways, assemble
from fusekit.lower.build import Nest, Segment, build
from fusekit.lower.checks import check_ops
from fusekit.lower.hazards import Protected
from fusekit.lower.narrow import sums_apart
from fusekit.lower.partials import in_parts
from fusekit.lower.print_cpu import RESERVED, Source, print_cpu
from fusekit.lower.program import Buffer, For, Hold, Load, Param, Program, Snapshot, Store
from fusekit.lower.refuse import CannotLower
from fusekit.lower.remedies import safest
from fusekit.lower.scalars import scalar_of
from fusekit.lower.target import TARGETS, Target
from fusekit.lower.target import Name as TargetName
from fusekit.memory import Race
from fusekit.ops import REGISTER
from fusekit.schedule import Cost, Schedule, choose, parse_schedule
from fusekit.why import Reason

# Numba compiles about 250 statements a second here; more than this many values take longer than 5 s.
MOST_VALUES = 1200
Precision = Literal["eager", "fast"]
# Elements from which on threads save more (100 us a million, serially) than they cost to start and to wait for.
PARALLEL_FROM = 1 << 20


@dataclass(frozen=True, slots=True, repr=False)
class Kernel:
    """``source`` is a Python module whose function ``name`` takes ``params`` in order.

    ``order``: "any" when the record says that iterations may run in any order, else the way the loops must run.
    ``lines``: source line (from 1) and the ops that it computes. ``copies``: snapshots taken by each call.
    ``checks``: looks at indices, before which nothing is stored; where one is bad the kernel ends, and gives back 1.
    ``precision``: "eager" rounds where eager does; "fast" only where it stores, and may contract.
    ``schedule``: the chain of its loops, which is its segment's.
    ``blocks_per_sm``: blocks that one multiprocessor of a GPU shall hold, 0 for as it comes.
    """

    name: str
    source: str
    params: tuple[Param, ...]
    space: tuple[int, ...]
    order: Literal["any", "forward", "backward"]
    races: tuple[Race, ...]
    lines: tuple[tuple[int, tuple[NodeId, ...]], ...]
    copies: int
    program: Program
    checks: tuple[NodeId, ...] = ()
    precision: Precision = "eager"
    schedule: str = ""
    blocks_per_sm: int = 0

    def __repr__(self) -> str:
        takes = ", ".join(f"{param.name}: {param.kind}" for param in self.params)
        return f"<kernel {self.name}({takes}) over {list(self.space)}, {len(self.source.splitlines())} lines>"

    def export(self, path: str | Path) -> Path:
        """Write the source to a file, which is given back."""
        path = Path(path)
        path.write_text(self.source, encoding="utf-8")
        return path

    @property
    def room(self) -> int:
        """Bytes of its own memory that a call asks for; where there are none it gives back 2, having stored nothing."""
        snapshots = [s.last - s.first for s in self.program.body if isinstance(s, Snapshot | Hold)]
        return sum(snapshots) + sum(s.size for s in self.program.body if isinstance(s, Buffer))

    @property
    def parallel(self) -> bool:
        """May its outermost loop be shared out to threads?"""
        return any(isinstance(statement, For) and statement.parallel for statement in self.program.body)


def lower_segment(
    graph: Graph,
    segment: NodeId | Sequence[NodeId],
    *,
    schedule: Schedule | None = None,
    target: TargetName = "cpu",
    ordered: bool = True,
    threaded: bool = True,
    most_values: int = MOST_VALUES,
    precision: Precision = "eager",
) -> Kernel:
    """The kernel of a segment, or of some fk.store ops.

    ``schedule``: how its loops run; without one, as the segment says, else as a scheduler has it. ``ordered``: may the
    kernel rely on the order of its loops? (A CPU's may, a GPU's not.) ``threaded``: may a large kernel whose iterations
    need no order share its outermost loop out to threads? ``precision``: "fast" rounds only what is stored. Raises
    CannotLower, and IllegalTransform for a schedule.
    """
    role = replace(TARGETS[target], exact=precision == "eager")
    graph, segment = as_segment(graph, segment)
    roots = _roots(graph, segment)
    name = _kernel_name(graph, roots)
    reference = reference_of(graph, segment)
    if not roots or reference is None:
        source = print_cpu(Program((), ()), name, graph)
        return Kernel(name, source.text, (), (), "any", (), (), 0, Program((), ()))
    whole = Segment(graph, roots, reference, check_ops(graph, segment))
    if schedule is None:
        schedule = _schedule_of(graph, segment, target)
    safe = _safe(whole, schedule, role, ordered, most_values)
    nest = safe.nest
    is_parallel = threaded and _is_parallel(nest, safe)
    ways = Ways(safe.snapshots, safe.kept, safe.order == "backward", is_parallel, safe.waits, safe.later)
    program = assemble(graph, nest, ways)
    program = in_parts(program, nest.names) if is_parallel else program
    program = sums_apart(program, nest.names) if target == "cpu" else program
    how = {"exact": role.exact} if target == "cuda" else {}
    source = _printer(target)[1](program, name, graph, _notes(graph, nest), **how)
    made = _kernel(source, program, nest, safe, whole.checks)
    return replace(made, precision=precision, schedule=str(schedule), blocks_per_sm=nest.placements.blocks_per_sm)


def lowers(graph: Graph, segment: NodeId, schedule: Schedule, target: TargetName) -> Cost | Reason:
    """Does a schedule make a kernel? What it costs to be safe, or why not; no text is made. (``schedule.Lowers``)"""
    found, reference = _roots(graph, segment), reference_of(graph, segment)
    if not found or reference is None:
        return (0, 0)
    try:
        whole = Segment(graph, found, reference, check_ops(graph, segment))
        return _safe(whole, schedule, TARGETS[target], True, MOST_VALUES).cost
    except CannotLower as refusal:
        return Reason.of("does-not-lower", because=refusal.what)


def _schedule_of(graph: Graph, segment: NodeId, target: TargetName) -> Schedule:
    """The segment's own; of one that no pass has scheduled, as a scheduler has it."""
    own = graph.segment(segment).schedule
    return parse_schedule(own) if own else choose(graph, segment, target, lowers=lowers).schedule


def _safe(whole: Segment, schedule: Schedule, role: Target, ordered: bool, most_values: int) -> Protected:
    """The nest of a schedule with what makes it safe. Raises CannotLower."""
    reserved, _ = _printer(role.name)
    return safest(whole, lambda one: build(one, schedule, role, reserved, most_values), ordered and role.ordered)


def _printer(target: TargetName) -> tuple[frozenset[str], Callable[..., Source]]:
    """Words that the target's source needs itself, and what prints it."""
    if target == "cpu":
        return RESERVED, print_cpu
    from fusekit.lower.print_cuda import RESERVED_CUDA, print_cuda

    return RESERVED_CUDA, print_cuda


def _is_parallel(nest: Nest, safe: Protected) -> bool:
    """May outermost loops be shared out to threads, and is it worth it? (What they fold: see ``in_parts``.)"""
    order = nest.loops.order
    if safe.order != "any" or not order or prod(nest.loops.space) < PARALLEL_FROM:
        return False
    outermost = {order[x.path[0][1]] for x in (*nest.items, *nest.roots) if x.path}
    return not outermost.isdisjoint(nest.loops.shared) and not any(kept.path == () for kept in nest.kept)


def _kernel(source: Source, program: Program, nest: Nest, safe: Protected, checks: tuple[NodeId, ...]) -> Kernel:
    return Kernel(
        source.name, source.text, program.params, nest.loops.space, safe.order, safe.races, source.lines,
        len(safe.snapshots), program, checks,
    )  # fmt: skip


def can_lower(graph: Graph, op: NodeId) -> str | None:
    """Why this op has no place in a kernel; None when it has one."""
    for tensor in (*graph.operands(op), *graph.results(op)):
        if (problem := _dtype_problem(graph, tensor)) is not None:
            return problem
    is_ours = not isinstance(graph.what(op), core.Call | core.Input | core.Return)
    found = None if is_ours else scalar_of(graph, op)
    return found if isinstance(found, str) else None


def _dtype_problem(graph: Graph, tensor: NodeId) -> str | None:
    dtype = graph.tensor(tensor).dtype
    return None if dtype in REGISTER else f"no kernel holds {dtype} scalars"


def as_segment(graph: Graph, segment: NodeId | Sequence[NodeId]) -> tuple[Graph, NodeId]:
    """The segment; for stores that are in none, a graph in which they are one."""
    if isinstance(segment, str):
        return graph, segment
    needed: set[NodeId] = set(segment)
    todo = [graph.operands(op)[0] for op in segment]
    while todo:
        tensor = todo.pop()
        if graph.is_value(tensor) and graph.producer(tensor) not in needed:
            needed.add(graph.producer(tensor))
            todo += graph.operands(graph.producer(tensor))
    draft = graph.draft("lower")
    node = draft.add_segment(SegmentPayload("pointwise"), [op for op in graph.ops() if op in needed])
    return draft.finish().graph, node


def _roots(graph: Graph, segment: NodeId) -> tuple[NodeId, ...]:
    """Reductions, and stores that have an element to write; none where nothing is written."""
    found = [op for op in roots(graph, segment) if isinstance(graph.what(op), core.Reduce) or _writes(graph, op)]
    return tuple(found) if any(not isinstance(graph.what(op), core.Reduce) for op in found) else ()


def _writes(graph: Graph, store: NodeId) -> bool:
    return bool(graph.layout(graph.operands(store)[1]).numel)


def _kernel_name(graph: Graph, stores: Iterable[NodeId]) -> str:
    """``fk_`` and the first few ops it computes, in program order."""
    words: dict[str, None] = {}
    seen: set[NodeId] = set()
    stack = [graph.operands(op)[0] for op in stores if not isinstance(graph.what(op), core.Reduce)]
    found: list[NodeId] = []
    while stack:
        tensor = stack.pop()
        if tensor in seen or not graph.is_value(tensor):
            continue
        seen.add(tensor)
        found.append(graph.producer(tensor))
        stack += graph.operands(found[-1])
    for op in sorted(found, key=graph.position):
        match graph.what(op):
            case core.Reduce(kind):
                words[kind] = None
            case core.Call(target) if target.startswith("aten."):
                words[target.split(".")[1]] = None
            case _:
                pass
    return identifier("_".join(["fk", *list(words)[:4]])) if words else "fk_copy"


def _notes(graph: Graph, nest: Nest) -> list[str]:
    """One line a block: which tensors of it the kernel touches."""
    touched: dict[NodeId, dict[NodeId, None]] = {block: {} for block in graph.blocks() if block in nest.names.blocks}
    for item in nest.items:
        if isinstance(item.statement, Load) and item.block is not None:
            touched[item.block].update((graph.operands(op)[0], None) for op in item.statement.ops)
    for root in nest.roots:
        if isinstance(root.statement, Store) and root.block is not None:
            touched[root.block].update((graph.operands(op)[1], None) for op in root.statement.ops)
    return [
        f"{nest.names.blocks[block]}: block {block}: "
        + ", ".join(f"{place} {graph.layout(place).dtype} {list(graph.layout(place).shape)}" for place in places)
        for block, places in touched.items()
    ]


__all__ = ["CannotLower", "Kernel", "can_lower", "lower_segment", "lowers"]
