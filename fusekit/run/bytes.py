"""How many bytes a segmented graph moves, how few it could, and how many it allocates at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Protocol

import numpy as np

from fusekit.ids import NodeId
from fusekit.ir import Graph, Layout
from fusekit.lower.program import For, If, Load, Program, Snapshot, Statement
from fusekit.passes.base import is_view

_CELLS = 1 << 24  # a block is counted exactly up to so many cells; above, a sum that no byte range can exceed


class HasSnapshots(Protocol):
    """What is asked of a kernel: the snapshots that it takes before it writes."""

    @property
    def program(self) -> Program: ...


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that one launch reads from and writes to memory; ``copied``: its snapshots, read and written."""

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
    return Traffic(moved, bytes_least(graph), peak_bytes(graph))


def moved_by(graph: Graph, segment: NodeId, kernel: HasSnapshots | None = None) -> Moved:
    """What one launch moves: each byte that a phase of it loads, each byte that it stores, its snapshots twice.

    A phase is one innermost loop: what a later one loads again counts again, and what stays in registers does not. A
    library call reads its operands and writes those that its schema marks, and its results.
    """
    reads, writes = _Regions(graph), _Regions(graph)
    for op in graph.members(segment):
        for tensor in _read(graph, op):
            reads.add(tensor)
        for tensor in _written(graph, op):
            writes.add(tensor)
    kept = [s.last - s.first for s in kernel.program.body if isinstance(s, Snapshot)] if kernel else []
    again = _loaded_again(graph, kernel.program) if kernel else 0
    return Moved(reads.count() + again, writes.count(), 2 * sum(kept))


def _loaded_again(graph: Graph, program: Program) -> int:
    """Bytes that second and later phases load of what an earlier phase has loaded."""
    phases: dict[NodeId, dict[int, int]] = {}  # load op -> phase -> bytes
    for number, load in _phased(program.body, [0]):
        steps = [v for v in load.address.free if not v.name.startswith("n")]
        for op in load.ops:
            place = graph.layout(graph.operands(op)[0])
            size = min(prod(v.extent for v in steps) * load.dtype.width, _distinct(place))
            mine = phases.setdefault(op, {})
            mine[number] = max(mine.get(number, 0), size if steps else 0)
    return sum(sum(mine.values()) - max(mine.values()) for mine in phases.values())


def _phased(body: Iterable[Statement], count: list[int], phase: int = 0) -> Iterator[tuple[int, Load]]:
    """Every load with the number of its phase; ``count`` gives out numbers."""
    for statement in body:
        if isinstance(statement, Load):
            yield phase, statement
        elif isinstance(statement, If):
            yield from _phased(statement.body, count, phase)
        elif isinstance(statement, For):
            count[0] += 1
            yield from _phased(statement.body, count, count[0])


def bytes_least(graph: Graph) -> int:
    """What no plan can go below: bytes of arguments read before they are written, and bytes written for the caller.

    Each byte counts once for each; what the program makes and uses up itself does not count.
    """
    kept = {graph.block_of(tensor) for tensor in graph.outputs()} - {None}
    live, written = _Regions(graph), _Regions(graph)
    for op in graph.ops():
        for tensor in _read(graph, op):
            if graph.block(_home(graph, tensor)).kind != "fresh":
                live.add(tensor, unless=written)
        for tensor in _written(graph, op):
            if graph.block(_home(graph, tensor)).kind != "fresh" or graph.block_of(tensor) in kept:
                written.add(tensor)
    return live.count() + written.count()


def peak_bytes(graph: Graph) -> int:
    """The most bytes of memory blocks, made by the program, that are held at once; outputs are held to the end."""
    segments = graph.segments()
    kept = {graph.block_of(tensor) for tensor in graph.outputs()}
    first: dict[NodeId, int] = {}
    last: dict[NodeId, int] = {}
    for k, segment in enumerate(segments):
        for block in _touched(graph, graph.members(segment)):
            first.setdefault(block, k)
            last[block] = len(segments) if block in kept else k
    held = [0] * (len(segments) + 1)
    for block, start in first.items():
        if graph.block(block).kind == "fresh":
            for k in range(start, last[block] + 1):
                held[k] += graph.block(block).nbytes
    return max(held)


def _read(graph: Graph, op: NodeId) -> list[NodeId]:
    """Places whose elements the op reads."""
    payload, operands = graph.op(op), graph.operands(op)
    if payload.target in ("fk.input", "fk.return") or is_view(graph, op):
        return []
    only_written = payload.writes if payload.target == "fk.store" else ()
    return [t for k, t in enumerate(operands) if k not in only_written and not graph.is_value(t)]


def _written(graph: Graph, op: NodeId) -> list[NodeId]:
    """Places whose elements the op writes: operands that it marks, and fresh results."""
    if graph.op(op).target in ("fk.input", "fk.return"):
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


# ---- sets of bytes


@dataclass
class _Regions:
    """A set of bytes, as layouts in blocks."""

    graph: Graph
    layouts: dict[NodeId, dict[Layout, None]] = field(default_factory=dict)
    holes: dict[NodeId, dict[Layout, tuple[Layout, ...]]] = field(default_factory=dict)

    def add(self, tensor: NodeId, unless: _Regions | None = None) -> None:
        """Add a place, without the bytes that ``unless`` has by now."""
        block, layout = _home(self.graph, tensor), self.graph.layout(tensor)
        if unless is not None:
            self.holes.setdefault(block, {}).setdefault(layout, tuple(unless.layouts.get(block, ())))
        self.layouts.setdefault(block, {}).setdefault(layout)

    def count(self) -> int:
        return sum(self._count(block, list(layouts)) for block, layouts in self.layouts.items())

    def _count(self, block: NodeId, layouts: Sequence[Layout]) -> int:
        layouts = [layout for layout in layouts if layout.numel]
        holes = self.holes.get(block, {})
        numbers = {f"n{n.index}": int(n.example) for n in self.graph.numbers()}
        step = _step([*layouts, *(hole for layout in layouts for hole in holes.get(layout, ()))])
        nbytes = self.graph.block(block).nbytes
        if not layouts or nbytes // step > _CELLS:
            return min(nbytes, sum(_distinct(layout) for layout in layouts if layout not in holes.get(layout, ())))
        total = np.zeros(-(-nbytes // step), dtype=bool)
        for layout in layouts:
            mine = np.zeros_like(total) if holes.get(layout) else total
            _mark(mine, layout, step, numbers, True)
            if holes.get(layout):
                for hole in holes[layout]:
                    _mark(mine, hole, step, numbers, False)
                total |= mine
        return int(total.sum()) * step


def _step(layouts: Iterable[Layout]) -> int:
    """The largest cell, in bytes, of which every layout is made; 1 where an offset hangs on a number."""
    out = 0
    for layout in layouts:
        offset = layout.offset.const if layout.offset.is_constant else 1
        out = gcd(out, layout.dtype.width, offset, *layout.strides)
    return out or 1


def _mark(cells: np.ndarray, layout: Layout, step: int, numbers: Mapping[str, int], value: bool) -> None:
    if not layout.numel:
        return
    start = layout.offset.evaluate(numbers) // step
    width = layout.dtype.width // step
    shape, strides = (*layout.shape, width), (*(s // step for s in layout.strides), 1)
    if start < 0 or start >= len(cells):
        return
    np.lib.stride_tricks.as_strided(cells[start:], shape, strides)[...] = value


def _distinct(layout: Layout) -> int:
    """Bytes of a layout, repeated dimensions once."""
    count = layout.dtype.width
    for size, stride in layout.axes():
        count *= size if stride else 1
    return count
