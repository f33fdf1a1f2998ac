"""Positions that data decide: each look-up is behind a check of its own index, or its range is known without one.

A kernel believes that the index of a ``fk.take`` or ``fk.gather`` is inside of the dimension it looks up in. So the
range of that index is found here, from constants and from what ``fk.check_index`` let pass, by interval arithmetic over
the few ops that stand between: casts, windows, additions, and the choice of what counts from the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fusekit.ids import NodeId
from fusekit.ir.arguments import Operand
from fusekit.ir.graph import Graph
from fusekit.ir.layout import Layout
from fusekit.ir.payloads import Op

Problems = Iterator[tuple[NodeId, str]]
Range = tuple[int, int]
Known = dict[NodeId, Range]
FAR = 1 << 63
ANY: Range = (-FAR, FAR - 1)
MOST = 64  # ops between a look-up and its load
LOOK_UPS = ("fk.take", "fk.gather")


def lookups_are_checked(graph: Graph) -> Problems:
    """The index of every look-up is known to be inside of the dimension."""
    looking = [op for op in graph.ops() if graph.op(op).target in LOOK_UPS]
    if not looking:
        return
    ranges = _Ranges(graph)
    for op in looking:
        source, index = graph.operands(op)
        dim = graph.op(op).kwarg("dim")
        size = graph.tensor(source).shape[dim] if isinstance(dim, int) else 0
        if 0 in graph.tensor(index).shape:
            continue
        low, high = ranges.of(index, op)
        if low < 0 or high >= size:
            seen = "nothing bounds" if (low, high) == ANY else f"{low} to {high} bounds"
            yield op, f"looks up in {size} elements at positions that {seen}: a fk.check_index has to come before"


@dataclass
class _Checked:
    """An index in memory that was looked at: what it may be, and whether its bytes were written since."""

    layout: Layout
    range: Range
    ignore: int | None


@dataclass
class _Ranges:
    graph: Graph
    checked: dict[NodeId, list[_Checked]] = field(default_factory=dict[NodeId, list[_Checked]])  # by the load
    stored: dict[NodeId, NodeId] = field(
        default_factory=dict[NodeId, NodeId]
    )  # load -> the value that was stored there

    def __post_init__(self) -> None:
        """What each load was checked by, and what was stored there, in one walk through the program.

        A check counts for all loads of its bytes up to the next write of the block, and for those before it back to the
        last write: they read the same bytes, and no look-up comes before its kernel's checks.
        """
        graph = self.graph
        checks: dict[NodeId, list[_Checked]] = {}
        loads: dict[NodeId, list[NodeId]] = {}
        stores: dict[NodeId, dict[Layout, NodeId]] = {}
        for op in graph.ops():
            payload, operands = graph.op(op), graph.operands(op)
            if payload.target == "fk.check_index" and (block := graph.block_of(operands[0])) is not None:
                found = _Checked(graph.layout(operands[0]), _allowed(payload), _ignored(payload))
                checks.setdefault(block, []).append(found)
                for load in loads.get(block, ()):
                    if graph.layout(graph.operands(load)[0]).is_same_map(found.layout):
                        self.checked.setdefault(load, []).append(found)
            elif payload.target == "fk.load" and (block := graph.block_of(operands[0])) is not None:
                loads.setdefault(block, []).append(op)
                layout = graph.layout(operands[0])
                self.checked[op] = [one for one in checks.get(block, ()) if one.layout.is_same_map(layout)]
                if layout in stores.get(block, {}):
                    self.stored[op] = stores[block][layout]
            elif payload.target not in ("fk.input", "fk.return"):
                for block in _changed(graph, op):
                    checks.pop(block, None)
                    loads.pop(block, None)
                    stores.pop(block, None)
                    if payload.target == "fk.store":
                        stores[block] = {graph.layout(operands[1]): operands[0]}

    def of(self, value: NodeId, by: NodeId, known: Known | None = None, depth: int = 0) -> Range:
        """The range of a value's elements, as the op ``by`` sees them; ``known``: of values, where a choice tells."""
        graph, known = self.graph, known or {}
        if value in known:
            return known[value]
        if depth > MOST or not graph.has_producer(value):
            return ANY
        op = graph.producer(value)
        payload, operands = graph.op(op), graph.operands(op)

        def at(k: int, given: Known | None = None) -> Range:
            return self.of(operands[k], by, given or known, depth + 1)

        match payload.target:
            case "fk.load":
                return self._loaded(op, by, depth)
            case "fk.fill":
                return _whole(payload.kwarg("value"))
            case "fk.iota":
                ends = _whole(payload.kwarg("start", 0)), _whole(payload.kwarg("step", 1))
                return _plus(ends[0], _times(ends[1], (0, max(graph.tensor(value).shape[0] - 1, 0))))
            case "fk.window" | "fk.cut" | "fk.cast" if graph.tensor(operands[0]).dtype.is_integral:
                found, dtype = at(0), graph.tensor(value).dtype
                half = 1 << (8 * dtype.width - 1)
                fits = dtype.kind == "int" and -half <= found[0] <= found[1] < half
                return found if fits or payload.target != "fk.cast" else ANY
            case "fk.overlay":
                return _either(at(0), at(1))
            case "aten.add.Tensor" | "aten.add.Scalar" if payload.kwarg("alpha", 1) == 1 and len(payload.args) == 2:
                return _plus(*(self._argument(payload, operands, k, by, known, depth) for k in range(2)))
            case "aten.where.self" if len(operands) == 3:
                return _either(
                    at(1, self._where(operands[0], by, known, True)), at(2, self._where(operands[0], by, known, False))
                )
            case _:
                return ANY

    def _argument(self, op: Op, operands: tuple[NodeId, ...], k: int, by: NodeId, known: Known, depth: int) -> Range:
        arg = op.args[k]
        if isinstance(arg, Operand):
            return self.of(operands[arg.position], by, known, depth + 1)
        return _whole(arg)

    def _loaded(self, load: NodeId, by: NodeId, depth: int) -> Range:
        """What a check of these bytes let pass, if it comes before the look-up; else what was stored there."""
        low, high = ANY
        for one in self.checked.get(load, ()):
            span = one.range if one.ignore is None else _either(one.range, (one.ignore, one.ignore))
            low, high = max(low, span[0]), min(high, span[1])
        if (low, high) == ANY and load in self.stored:
            return self.of(self.stored[load], by, None, depth + 1)
        return low, high

    def _where(self, condition: NodeId, by: NodeId, known: Known, holds: bool) -> Known:
        """``known``, and what the condition tells of the value that it compares."""
        graph = self.graph
        if not graph.has_producer(condition):
            return known
        op = graph.op(graph.producer(condition))
        operands = graph.operands(graph.producer(condition))
        if len(op.args) != 2 or not isinstance(op.args[0], Operand) or not isinstance(op.args[1], int):
            return known
        value, bound = operands[op.args[0].position], op.args[1]
        low, high = self.of(value, by, known)
        match op.target, holds:
            case ("aten.lt.Scalar", True) | ("aten.ge.Scalar", False):
                high = min(high, bound - 1)
            case ("aten.lt.Scalar", False) | ("aten.ge.Scalar", True):
                low = max(low, bound)
            case ("aten.ne.Scalar", True) | ("aten.eq.Scalar", False):
                low, high = self._without(value, bound, (low, high))
            case _:
                return known
        return {**known, value: (low, high)}

    def _without(self, value: NodeId, ignored: int, found: Range) -> Range:
        """The range of an index that is not the one that its check lets pass besides."""
        graph = self.graph
        while graph.has_producer(value) and graph.op(graph.producer(value)).target in ("fk.cast", "fk.window"):
            value = graph.operands(graph.producer(value))[0]
        load = graph.producer(value) if graph.has_producer(value) else NodeId("")
        spans = [one.range for one in self.checked.get(load, ()) if one.ignore == ignored]
        for low, high in spans:
            found = max(found[0], low), min(found[1], high)
        return found


def _changed(graph: Graph, op: NodeId) -> set[NodeId]:
    """Blocks that an op writes, or that it brings."""
    operands = graph.operands(op)
    touched = [operands[w] for w in graph.op(op).writes] + list(graph.results(op))
    return {block for t in touched if (block := graph.block_of(t)) is not None}


def _allowed(op: Op) -> Range:
    size = op.kwarg("size")
    assert isinstance(size, int), "elements-agree has looked at it"
    return (-size if op.kwarg("wraps") else 0), size - 1


def _ignored(op: Op) -> int | None:
    ignore = op.kwarg("ignore")
    return ignore if isinstance(ignore, int) else None


def _whole(value: object) -> Range:
    return (int(value), int(value)) if isinstance(value, bool | int) else ANY


def _fits(low: int, high: int) -> Range:
    return (low, high) if low >= -FAR and high < FAR else ANY


def _plus(a: Range, b: Range) -> Range:
    return ANY if ANY in (a, b) else _fits(a[0] + b[0], a[1] + b[1])


def _times(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return ANY if ANY in (a, b) else _fits(min(ends), max(ends))


def _either(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])
