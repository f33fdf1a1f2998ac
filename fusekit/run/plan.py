"""A plan: everything that a call has to do, in order, prepared once. No graph is read while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import torch

from fusekit.errors import FusekitError
from fusekit.ids import NodeId
from fusekit.ir import Graph, core
from fusekit.run.bind import hold
from fusekit.run.bounds import Parameter, watched
from fusekit.run.decode import Leaves, Scalar, arguments, overload
from fusekit.run.direct import Direct, Launch, direct
from fusekit.run.interpret import Run
from fusekit.run.lines import Lines
from fusekit.run.memory import Blocks, LayoutMismatch, Memory, is_read, place_of, settle_all
from fusekit.run.outputs import Ending, bump, finish, whole_outputs
from fusekit.trace.told import answer, question

Step = Callable[[Memory, Leaves], None]


class Launchable(Protocol):
    """What a plan needs to know of a kernel; ``copies``: launches that only move bytes, besides. ``checks``: the ops
    that look at indices in it; where one is bad it gives back 1 and has stored nothing. ``room``: bytes that it asks
    for; where there are none it gives back 2.
    """

    @property
    def params(self) -> Sequence[Parameter]: ...
    @property
    def checks(self) -> Sequence[NodeId]: ...
    @property
    def copies(self) -> int: ...
    @property
    def room(self) -> int: ...


K = TypeVar("K", bound=Launchable)


@dataclass(frozen=True, slots=True)
class LastRun:
    """What one call launched: generated ``kernels``, library calls, and launches that only move bytes."""

    kernels: int = 0
    extern_calls: int = 0
    copies: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """``steps`` in order, the memory that they work on, what is handed back, and what one call counts.

    ``direct``: the short way, for a plan of kernels only. ``owners``: the segment of each step. ``stored``: the numbers
    of the blocks that each step writes.
    """

    steps: tuple[Step, ...]
    blocks: Blocks
    ending: Ending
    counts: LastRun
    direct: Direct | None = None
    owners: tuple[NodeId, ...] = ()
    stored: tuple[frozenset[int], ...] = ()


def execute(
    plan: Plan,
    tensors: Sequence[torch.Tensor],
    numbers: Sequence[Scalar] = (),
    leaves: Leaves = (),
    odd: Callable[[], None] | None = None,
) -> list[object]:
    """Run a plan on the actual tensors of ``fk.input``; they are mutated as eager would. Returns the output leaves.

    ``numbers``: all parameters of the graph. ``odd`` is called where a library call gave other strides than recorded,
    so that its result was copied. Raises LayoutMismatch where no copy makes up for what it gave.
    """
    if plan.direct is not None:
        return plan.direct(tensors, numbers, leaves)
    memory = Memory(plan.blocks, tensors, numbers)
    done = 0
    try:
        for step in plan.steps:
            step(memory, leaves)
            done += 1
    except BaseException:  # what stands in front of the failed op was done, as in eager
        stored = frozenset[int]().union(*plan.stored[:done])
        bump([place for place in plan.ending.written if place.block in stored], memory)
        raise
    if memory.odd and odd is not None:
        odd()
    return finish(plan.ending, memory, leaves)


def make_plan(
    graph: Graph,
    kernels: Mapping[NodeId, K],
    compile: Callable[[K], Callable[..., int | None]],
    program: Graph | None = None,
) -> Plan:
    """The plan of a graph with segments. ``kernels``: segment -> its kernel; ``compile`` makes one callable.

    A segment of stores without a kernel runs op by op.
    ``program``: the graph as recorded, which still has every write (eager bumps a version for each).
    Raises FusekitError for ops that are in no segment: nothing would run them; InvalidGraph for a graph that could
    touch other memory than that of its own tensors.
    """
    _refuse_unsegmented(graph)
    hold(graph, program, is_foreign=False)
    blocks = Blocks.of(graph)
    ending = Ending.of(graph, blocks, program)
    maker = _Maker(graph, blocks, program)
    counts = [0, 0, 0]
    steps: list[Step] = []
    owners: list[NodeId] = []
    launches: list[Launch] = []
    stored = {segment: _stored(graph, segment, blocks) for segment in graph.segments()}
    dying = _dying(graph, blocks, ending)
    for segment in graph.segments():
        if segment in kernels:
            launch = maker.launch(kernels[segment], compile, dying.get(segment, ()))
            launches.append(launch)
            steps.append(_step(launch))
            counts[0] += 1
            counts[2] += kernels[segment].copies
        else:
            made = maker.without_kernel(segment)
            steps += made
            calls, moves = maker.launched(segment) if made else (0, 0)
            counts[1] += calls
            counts[2] += moves
        if segment in dying:
            steps.append(_release(dying[segment]))
        owners += [segment] * (len(steps) - len(owners))
    blocks = replace(blocks, whole=whole_outputs(ending, blocks))
    by_launch = [some for segment, some in stored.items() if segment in kernels]
    short = direct(blocks, ending, launches, by_launch) if len(launches) == len(steps) - len(dying) else None
    return Plan(tuple(steps), blocks, ending, LastRun(*counts), short, tuple(owners), tuple(stored[s] for s in owners))


def _stored(graph: Graph, segment: NodeId, blocks: Blocks) -> frozenset[int]:
    """Numbers of the blocks that a segment writes."""
    written = [graph.operands(op)[k] for op in graph.members(segment) for k in graph.op(op).writes]
    homes = [graph.block_of(t) for t in written if not graph.is_value(t)]
    return frozenset(blocks.number[block] for block in homes if block is not None)


def _refuse_unsegmented(graph: Graph) -> None:
    left = [
        op
        for op in graph.ops()
        if not isinstance(graph.what(op), core.Input | core.Return) and not graph.segments_of(op)
    ]
    if left:
        some = ", ".join(f"{op} {graph.op(op).target}" for op in left[:4]) + (" ..." if len(left) > 4 else "")
        fix = "give Options(passes=...) that end as fk.PIPELINE does; x.check_steps() interprets earlier stages"
        raise FusekitError(f"a plan needs segments, and in none is {some}", None, fix)


class _Maker:
    """Steps of segments."""

    def __init__(self, graph: Graph, blocks: Blocks, program: Graph | None = None):
        self.graph, self.blocks, self.lines = graph, blocks, Lines(graph, program)

    def launch(self, kernel: K, compile: Callable[[K], Callable[..., int | None]], dying: Sequence[int]) -> Launch:
        """The compiled kernel with the addresses and numbers that it takes."""
        function = compile(kernel)
        if kernel.checks or kernel.room:
            function = watched(function, self.graph, kernel.checks, kernel.params, kernel.room)
        return Launch(function, tuple(self._parameter(param) for param in kernel.params), tuple(dying))

    def _parameter(self, param: Parameter) -> tuple[bool, int]:
        if param.node is not None:
            return True, self.blocks.number[param.node]
        assert param.number is not None
        return False, param.number.index

    def without_kernel(self, segment: NodeId) -> list[Step]:
        """Library calls; nothing for views and for stores of no element; else the ops one by one with torch."""
        ops = self.graph.members(segment)
        if self.graph.segment(segment).scheduler == "extern":
            return [self.call(op) for op in ops if not self._is_value_op(op)] or [self.interpreted(ops)]
        stores = [op for op in ops if isinstance(self.graph.what(op), core.Store)]
        is_empty = all(self.graph.layout(self.graph.operands(op)[1]).numel == 0 for op in stores)
        return [] if is_empty else [self.interpreted(ops)]

    def launched(self, segment: NodeId) -> tuple[int, int]:
        """(library calls, copies) of a segment that runs without a kernel: each op is a call of torch's."""
        ops = self.graph.members(segment)
        copies = sum(isinstance(self.graph.what(op), core.Load | core.Store) for op in ops)
        return len(ops) - copies, copies

    def _is_value_op(self, op: NodeId) -> bool:
        is_ours = not isinstance(self.graph.what(op), core.Call)
        return is_ours or any(map(self.graph.is_value, self.graph.results(op)))

    def call(self, op: NodeId) -> Step:
        """A library call: the exact overload on real memory."""
        payload, what = self.graph.op(op), self.graph.what(op)
        assert isinstance(what, core.Call), f"{op} is no call of torch's"
        function, read_all = overload(what.target), arguments(what)
        graph, number = self.graph, self.blocks.number
        operands = tuple((t, place_of(graph, number, t, self.lines)) for t in graph.operands(op))
        results = tuple(place_of(graph, number, t, self.lines) for t in graph.results(op))
        read = [is_read(self.graph, t) for t in self.graph.results(op)]
        where = f"{op} {payload.target}" + (f" at {payload.origin}" if payload.origin else "")

        def run(memory: Memory, leaves: Leaves) -> None:
            made = {node: memory.tensor(place) for node, place in operands}  # an object that comes twice is one object
            args, kwargs = read_all([made[node] for node, _ in operands], memory.numbers, leaves)
            with torch.no_grad():
                out = function(*args, **kwargs)
            try:
                settle_all(memory, results, read, out, where)
            except LayoutMismatch as error:
                error.told = question(function, args, kwargs), answer(out)
                raise

        return run

    def interpreted(self, ops: Sequence[NodeId]) -> Step:
        """The ops one by one with torch: slow, and right where no kernel can be made."""
        ordered = sorted(ops, key=self.graph.position)

        def run(memory: Memory, leaves: Leaves) -> None:
            machine = Run(self.graph, memory.tensors, memory.numbers, leaves, memory)
            for op in ordered:
                machine.step(op)

        return run


def _step(launch: Launch) -> Step:
    function, takes, _ = launch

    def step(memory: Memory, leaves: Leaves) -> None:
        function(*[memory.address(k) if is_address else memory.numbers[k] for is_address, k in takes])

    return step


def _release(blocks: Sequence[int]) -> Step:
    def release(memory: Memory, leaves: Leaves) -> None:
        for block in blocks:
            memory.release(block)

    return release


def _dying(graph: Graph, blocks: Blocks, ending: Ending) -> dict[NodeId, list[int]]:
    """Segment -> blocks that the program makes, that no output holds and that no later segment touches."""
    held = {leaf.place.block for leaf in ending.returned if leaf.place is not None}
    last: dict[int, NodeId] = {}
    for segment in graph.segments():
        for block in touched(graph, graph.members(segment)):
            last[blocks.number[block]] = segment
    out: dict[NodeId, list[int]] = {}
    for block, segment in last.items():
        if blocks.fresh[block] and block not in held:
            out.setdefault(segment, []).append(block)
    return out


def touched(graph: Graph, ops: Iterable[NodeId]) -> list[NodeId]:
    """The memory blocks in which operands and results of the ops lie, each once."""
    tensors = [t for op in ops for t in (*graph.operands(op), *graph.results(op))]
    return list(dict.fromkeys(block for t in tensors if (block := graph.block_of(t)) is not None))
