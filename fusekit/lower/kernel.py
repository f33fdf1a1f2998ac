"""A segment's kernel: one source text, what it is called with, and the record of its races."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.lower.assemble import assemble
from fusekit.lower.build import Nest, build
from fusekit.lower.hazards import Protected, protect
from fusekit.lower.print_cpu import RESERVED, Source, print_cpu
from fusekit.lower.program import For, Load, Param, Program
from fusekit.lower.refuse import CannotLower
from fusekit.lower.scalars import scalar_of
from fusekit.memory import Race
from fusekit.ops import REGISTER

# Numba compiles about 250 statements a second here; more than this many values take longer than 5 s.
MOST_VALUES = 1200
# Elements from which on threads save more (100 us a million, serially) than they cost to start and to wait for.
PARALLEL_FROM = 1 << 20


@dataclass(frozen=True, slots=True)
class Kernel:
    """``source`` is a Python module whose function ``name`` takes ``params`` in order.

    ``order``: "any" when the record says that iterations may run in any order, else the way the loops must run.
    ``lines``: source line (from 1) and the ops that it computes. ``copies``: snapshots taken by each call.
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

    @property
    def parallel(self) -> bool:
        """May its outermost loop be shared out to threads?"""
        return any(isinstance(statement, For) and statement.parallel for statement in self.program.body)


def lower_segment(
    graph: Graph,
    segment: NodeId | Sequence[NodeId],
    *,
    ordered: bool = True,
    threaded: bool = True,
    most_values: int = MOST_VALUES,
) -> Kernel:
    """The kernel of a pointwise segment, or of some fk.store ops.

    ``ordered``: may the kernel rely on the order of its loops? (A CPU's may, a GPU's not.) ``threaded``: may
    a large kernel whose iterations need no order share its outermost loop out to threads? Raises CannotLower.
    """
    stores = _stores(graph, segment)
    name = _kernel_name(graph, stores)
    if not stores:
        source = print_cpu(Program((), ()), name, graph)
        return Kernel(name, source.text, (), (), "any", (), (), 0, Program((), ()))
    nest = build(graph, stores, RESERVED, most_values)
    safe = protect(nest, ordered)
    parallel = threaded and safe.order == "any" and prod(nest.loops.space) >= PARALLEL_FROM
    program = assemble(graph, nest, safe.snapshots, safe.kept, safe.order == "backward", parallel)
    source = print_cpu(program, name, graph, _notes(graph, nest))
    return _kernel(source, program, nest, safe)


def _kernel(source: Source, program: Program, nest: Nest, safe: Protected) -> Kernel:
    return Kernel(
        source.name, source.text, program.params, nest.loops.space, safe.order, safe.races, source.lines,
        len(safe.snapshots), program,
    )  # fmt: skip


def can_lower(graph: Graph, op: NodeId) -> str | None:
    """Why this op has no place in a kernel; None when it has one."""
    payload = graph.op(op)
    for tensor in (*graph.operands(op), *graph.results(op)):
        if (problem := _dtype_problem(graph, tensor)) is not None:
            return problem
    if payload.target in OURS:
        return None
    found = scalar_of(graph, op)
    return found if isinstance(found, str) else None


OURS = frozenset(f"fk.{word}" for word in ("load", "store", "window", "overlay", "fill", "iota", "cast", "bits"))


def _dtype_problem(graph: Graph, tensor: NodeId) -> str | None:
    dtype = graph.tensor(tensor).dtype
    return None if dtype in REGISTER else f"no kernel holds {dtype} scalars"


def _stores(graph: Graph, segment: NodeId | Sequence[NodeId]) -> tuple[NodeId, ...]:
    """The stores that have an element to write."""
    members = graph.members(segment) if isinstance(segment, str) else segment
    stores = (op for op in members if graph.op(op).target == "fk.store")
    return tuple(op for op in stores if graph.layout(graph.operands(op)[1]).numel)


def _kernel_name(graph: Graph, stores: Iterable[NodeId]) -> str:
    """``fk_`` and the first few ops it computes, in program order."""
    words: dict[str, None] = {}
    seen: set[NodeId] = set()
    stack = [graph.operands(op)[0] for op in stores]
    found: list[NodeId] = []
    while stack:
        tensor = stack.pop()
        if tensor in seen or not graph.is_value(tensor):
            continue
        seen.add(tensor)
        found.append(graph.producer(tensor))
        stack += graph.operands(found[-1])
    for op in sorted(found, key=graph.position):
        target = graph.op(op).target
        if target.startswith("aten."):
            words[target.split(".")[1]] = None
    return "_".join(["fk", *list(words)[:4]]) if words else "fk_copy"


def _notes(graph: Graph, nest: Nest) -> list[str]:
    """One line a block: which tensors of it the kernel touches."""
    touched: dict[NodeId, dict[NodeId, None]] = {block: {} for block in graph.blocks() if block in nest.names.blocks}
    for item in nest.items:
        if isinstance(item.statement, Load) and item.block is not None:
            touched[item.block].update((graph.operands(op)[0], None) for op in item.statement.ops)
    for root in nest.roots:
        touched[root.block].update((graph.operands(op)[1], None) for op in root.store.ops)
    return [
        f"{nest.names.blocks[block]}: block {block}: "
        + ", ".join(f"{place} {graph.layout(place).dtype} {list(graph.layout(place).shape)}" for place in places)
        for block, places in touched.items()
    ]


__all__ = ["CannotLower", "Kernel", "can_lower", "lower_segment"]
