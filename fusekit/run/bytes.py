"""How many bytes a segmented graph moves, how few it could, and how many it allocates at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Protocol

from fusekit.ids import NodeId
from fusekit.index import Form, Var
from fusekit.ir import Graph, Layout, core
from fusekit.lower.print_threads import scratch_of
from fusekit.lower.program import For, If, Load, Program, Snapshot, Statement
from fusekit.passes.base import is_view
from fusekit.run.regions import Regions, distinct
from fusekit.run.rereads import read_again


class HasSnapshots(Protocol):
    """What is asked of a kernel: the snapshots that it takes before it writes."""

    @property
    def program(self) -> Program: ...


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that one launch reads from and writes to memory; ``copied``: its snapshots, and what blocks hand to the
    last one, written and read."""

    reads: int
    writes: int
    copied: int = 0

    @property
    def total(self) -> int:
        return self.reads + self.writes + self.copied


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of one call: ``moved`` by all launches, the ``least`` possible, and the ``peak`` that is held at once."""

    moved: int
    least: int
    peak: int


def traffic(graph: Graph, kernels: Mapping[NodeId, HasSnapshots] | None = None) -> Traffic:
    """What a graph with segments moves; ``kernels`` by segment tell of snapshots."""
    kernels = kernels or {}
    moved = sum(moved_by(graph, segment, kernels.get(segment)).total for segment in graph.segments())
    return Traffic(moved, bytes_least(graph, kernels), peak_bytes(graph, kernels))


def moved_by(graph: Graph, segment: NodeId, kernel: HasSnapshots | None = None) -> Moved:
    """What one launch moves: each byte that a pass over its loops loads, what each store writes, its copies twice.

    What a pass loads again counts again, unless it is still near (``run.rereads`` says when). A library call reads its
    operands and writes those that its schema marks, and its results.
    """
    reads, writes = Regions(graph), Regions(graph)
    if kernel is None:
        for op in graph.members(segment):
            for tensor in _read(graph, op):
                _add_read(graph, reads, op, tensor)
            for tensor in _written(graph, op):
                writes.add(_home(graph, tensor), graph.layout(tensor))
        return Moved(reads.count(), writes.count())
    stored = sum(distinct(graph.layout(t)) for op in graph.members(segment) for t in _written(graph, op))
    program = kernel.program
    threads, wide = prod(axis.var.extent for axis in program.axes), program.lanes.extent if program.lanes else 1
    _add_loads(graph, reads, program.body, threads, wide)
    return Moved(reads.count() + read_again(graph, program), stored, 2 * _extra(program))


def _extra(program: Program) -> int:
    """Bytes of memory that a launch needs besides: snapshots, and what blocks leave for the last one."""
    kept = sum(s.last - s.first for s in program.body if isinstance(s, Snapshot))
    return kept + (scratch_of(program).partials if program.axes else 0)


def _add_loads(graph: Graph, reads: Regions, body: Iterable[Statement], turns: int, wide: int) -> None:
    """What the loads of a program read; ``turns``: how often the loops around run them; ``wide``: lanes of a vector."""
    for statement in body:
        match statement:
            case Load(address=address, ops=ops, dtype=dtype, lanes=lanes) if ops:
                block, layout = _home(graph, graph.operands(ops[0])[0]), graph.layout(graph.operands(ops[0])[0])
                if _is_looked_up(graph, ops[0]):
                    each = dtype.width * (wide if lanes else 1)
                    reads.look_up(block, min(distinct(layout), turns * each))
                else:
                    for op in ops:  # one statement may be the load of several places, each under its own guard
                        reads.add(block, _part(graph, address, op))
            case If(body=inside):
                _add_loads(graph, reads, inside, turns, wide)
            case For(var=var, body=inside):
                _add_loads(graph, reads, inside, turns * var.extent, wide)
            case _:
                pass


def _part(graph: Graph, address: Form, op: NodeId) -> Layout:
    """The layout of what a load reads in all iterations, where it is one and smaller than its tensor."""
    (place,) = graph.operands(op)
    whole, nbytes = graph.layout(place), graph.block(_home(graph, place)).nbytes
    steps = [(atom, c) for atom, c in address.terms if isinstance(atom, Var)]
    small = prod(var.extent for var, _ in steps) < whole.numel
    if not small or len(steps) < len(address.terms) or any(var.kind == "number" for var, _ in steps):
        return whole
    found = Layout.of(address.const, [var.extent for var, _ in steps], [c for _, c in steps], whole.dtype)
    low, high = found.extent
    return found if low >= 0 and high <= nbytes else whole


def _is_looked_up(graph: Graph, op: NodeId) -> bool:
    """Is what the op loads only looked up in, at positions that data decide?"""
    users = [u for t in graph.results(op) for u in graph.users(t)]
    return bool(users) and all(
        isinstance(graph.what(u), core.Lookup) and graph.operands(u)[1] not in graph.results(op) for u in users
    )


def _add_read(graph: Graph, reads: Regions, op: NodeId, tensor: NodeId, unless: Regions | None = None) -> None:
    """What an op of the graph reads: of a tensor that is only looked up in, as much as its look-ups give."""
    layout = graph.layout(tensor)
    if not _is_looked_up(graph, op):
        reads.add(_home(graph, tensor), layout, unless)
        return
    users = dict.fromkeys(u for t in graph.results(op) for u in graph.users(t))
    given = sum(prod(graph.tensor(t).shape) for u in users for t in graph.results(u))
    reads.look_up(_home(graph, tensor), min(distinct(layout), given * layout.dtype.width))


def bytes_least(graph: Graph, kernels: Mapping[NodeId, HasSnapshots] | None = None) -> int:
    """What no plan can go below: bytes of arguments read before they are written, and bytes written for the caller.

    Each byte counts once for each; what the program makes and uses up itself does not count. ``kernels`` tell of which
    part of a load anything is needed.
    """
    kept = {graph.block_of(tensor) for tensor in graph.outputs()} - {None}
    live, written = Regions(graph), Regions(graph)
    parts = _parts(graph, kernels or {})
    for op in graph.ops():
        for tensor in _read(graph, op):
            if graph.block(_home(graph, tensor)).kind == "fresh":
                continue
            if op in parts and not _is_looked_up(graph, op):
                for part in parts[op]:
                    live.add(_home(graph, tensor), part, written)
            else:
                _add_read(graph, live, op, tensor, written)
        for tensor in _written(graph, op):
            if graph.block(_home(graph, tensor)).kind != "fresh" or graph.block_of(tensor) in kept:
                written.add(_home(graph, tensor), graph.layout(tensor))
    return live.count() + written.count()


def _parts(graph: Graph, kernels: Mapping[NodeId, HasSnapshots]) -> dict[NodeId, list[Layout]]:
    """What kernels read of each load; a load of which one of its segments has no kernel is left out."""
    found: dict[NodeId, list[Layout]] = {}
    for kernel in kernels.values():
        todo = list(kernel.program.body)
        while todo:
            statement = todo.pop()
            if isinstance(statement, Load):
                for op in statement.ops:
                    found.setdefault(op, []).append(_part(graph, statement.address, op))
            elif isinstance(statement, (If, For)):
                todo += statement.body
    return {op: parts for op, parts in found.items() if all(s in kernels for s in graph.segments_of(op))}


def peak_bytes(graph: Graph, kernels: Mapping[NodeId, HasSnapshots] | None = None) -> int:
    """The most bytes, made by the program, that are held at once: memory blocks, outputs to the end, and what a launch
    needs besides."""
    segments, kernels = graph.segments(), kernels or {}
    kept = {graph.block_of(tensor) for tensor in graph.outputs()}
    first: dict[NodeId, int] = {}
    last: dict[NodeId, int] = {}
    for k, segment in enumerate(segments):
        for block in _touched(graph, graph.members(segment)):
            first.setdefault(block, k)
            last[block] = len(segments) if block in kept else k
    more = [0] * (len(segments) + 2)  # how many bytes more are held than a segment before
    for block, start in first.items():
        if graph.block(block).kind == "fresh":
            more[start] += graph.block(block).nbytes
            more[last[block] + 1] -= graph.block(block).nbytes
    extra = [_extra(kernels[s].program) if s in kernels else 0 for s in segments] + [0]
    return max(held + besides for held, besides in zip(accumulate(more), extra, strict=False))


def _read(graph: Graph, op: NodeId) -> list[NodeId]:
    """Places whose elements the op reads."""
    payload, operands = graph.op(op), graph.operands(op)
    if isinstance(payload.what, core.Input | core.Return) or is_view(graph, op):
        return []
    only_written = payload.writes if isinstance(payload.what, core.Store) else ()
    return [t for k, t in enumerate(operands) if k not in only_written and not graph.is_value(t)]


def _written(graph: Graph, op: NodeId) -> list[NodeId]:
    """Places whose elements the op writes: operands that it marks, and fresh results."""
    if isinstance(graph.what(op), core.Input | core.Return):
        return []
    written = [graph.operands(op)[k] for k in graph.op(op).writes]
    read = {graph.block_of(t) for t in graph.operands(op)}
    fresh = [t for t in graph.results(op) if not graph.is_value(t) and graph.block_of(t) not in read]
    return [t for t in (*written, *fresh) if not graph.is_value(t)]


def _home(graph: Graph, tensor: NodeId) -> NodeId:
    block = graph.block_of(tensor)
    assert block is not None
    return block


def _touched(graph: Graph, ops: Iterable[NodeId]) -> list[NodeId]:
    tensors = (t for op in ops for t in (*graph.operands(op), *graph.results(op)))
    return list(dict.fromkeys(block for t in tensors if (block := graph.block_of(t)) is not None))
