"""Inputs whose bytes lie in another order than their dimensions say: an allocation that is a split of logical.

No trace gives such a graph, since a tensor of torch has one stride a dimension. The bytes of the input are read through
the axes of the allocation, and the logical tensor is a rearrangement of that, written with ops of the program: later
passes make index forms of it, and no loop knows of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fusekit.domains import Allocation, Axes, MergeAxes, ReorderAxes, SplitBy, TransformBy
from fusekit.errors import FusekitError, IllegalTransform, UnsupportedError
from fusekit.ids import NodeId
from fusekit.ir import Block, Draft, Graph, Layout, Op, Operand, Symbol, Tensor, core
from fusekit.memory import algebra
from fusekit.schedule.text import parse_schedule
from fusekit.why import Reason

Steps = tuple[tuple[str, tuple[int, ...]], ...]
ROW_MAJOR = (("memory_format", Symbol("torch.contiguous_format")),)


def with_allocation(graph: Graph, allocations: Mapping[str, str]) -> Graph:
    """The traced graph in which the bytes of each named input lie as its chain says: ``split(1, 4).reorder(1, 0, 2)``.

    The chain starts at the logical dimensions; the bytes are row-major over the axes that it ends with. Raises
    IllegalTransform where a split does not divide, UnsupportedError for an input that is written, returned, strided, or
    in one block with another.
    """
    draft = graph.draft("allocation")
    for name, text in allocations.items():
        _allocate(graph, draft, NodeId(name), text)
    return draft.finish().graph


def reading(shape: tuple[int, ...], text: str) -> tuple[tuple[int, ...], Steps]:
    """How an input of this logical shape is read: the shape of its axes in memory, and the steps from there to the
    logical tensor, each ("permute", dims) or ("reshape", shape). Raises IllegalTransform for a split with a rest."""
    steps: list[tuple[str, tuple[int, ...]]] = []
    for one in parse_schedule(text).transforms:
        steps.insert(0, _inverse(shape, one))
        shape = Allocation.of(shape, (one,)).axes.extents
    return shape, tuple(steps)


def _inverse(shape: tuple[int, ...], one: TransformBy) -> tuple[str, tuple[int, ...]]:
    """The step back to ``shape``."""
    match one:
        case ReorderAxes(order):
            Axes.of(shape).then(one)  # refuses what is no permutation
            return "permute", tuple(order.index(d) for d in range(len(order)))
        case SplitBy() | MergeAxes():
            Allocation.of(shape, (one,)).bind(Allocation.of(shape).strides)  # refuses what leaves a rest
            return "reshape", shape
        case _:
            raise IllegalTransform(f"{one} says nothing of memory", None, "use split, merge and reorder")


def _allocate(graph: Graph, draft: Draft, name: NodeId, text: str) -> None:
    entry = next((op for op in graph.ops() if isinstance(graph.what(op), core.Input)), None)
    if entry is None or name not in graph.results(entry):
        raise FusekitError(f"{name} is no input", None, f"the inputs are {', '.join(graph.inputs())}")
    layout, block = graph.layout(name), graph.block_of(name)
    assert block is not None
    shape, steps = reading(layout.shape, text)
    if problem := _problem(graph, name, block):
        raise UnsupportedError(f"an allocation for {name}, which {problem}", "what_if(allocation=...)")
    payload = graph.block(block)
    home = draft.add_block(Block(payload.nbytes, payload.device, payload.kind))
    draft.replace(block, replace(payload, kind="fresh"), because=Reason.of("allocated", chain=text))
    held = draft.add_tensor(graph.tensor(name), id=f"{name}.bytes", block=home, layout=layout, role="input")
    draft.redefine(entry, graph.results(entry).index(name), held)
    chain = _Chain(draft, graph.ops()[1], held, home, layout)
    for step in (("reshape", shape), *steps):
        chain.step(*step)
    chain.then("clone", (), layout, block, name)


def _problem(graph: Graph, name: NodeId, block: NodeId) -> str | None:
    layout = graph.layout(name)
    if layout != Layout.contiguous(layout.shape, layout.dtype):
        return "is not contiguous from the start of its memory"
    if any(t != name and graph.block_of(t) == block for t in graph.inputs()):
        return "shares memory with another input"
    if any(graph.block_of(t) == block for t in graph.outputs()):
        return "is returned, or a view of it"
    written = (graph.operands(op)[w] for op in graph.ops() for w in graph.op(op).writes)
    return "is written" if any(graph.block_of(t) == block for t in written) else None


@dataclass
class _Chain:
    """Ops of the program in front of ``before``, each on what the last one made."""

    draft: Draft
    before: NodeId
    at: NodeId
    block: NodeId
    layout: Layout

    def step(self, kind: str, dims: tuple[int, ...]) -> None:
        if kind == "permute":
            self.then(kind, (dims,), algebra.permute(self.layout, dims))
            return
        made = algebra.reshape(self.layout, dims)
        if isinstance(made, Reason):
            dense = Layout.contiguous(self.layout.shape, self.layout.dtype)
            device = self.draft.payload(self.block)
            assert isinstance(device, Block)
            self.then("clone", (), dense, self.draft.add_block(Block(dense.nbytes, device.device, "fresh")))
            made = Layout.contiguous(dims, dense.dtype)
        self.then("view", (dims,), made)

    def then(
        self,
        name: str,
        args: tuple[object, ...],
        layout: Layout,
        block: NodeId | None = None,
        result: NodeId | None = None,
    ) -> None:
        """One op; ``block``: where it makes its result, if that is no view; ``result``: the tensor that it makes."""
        if result is None:
            payload, role = Tensor(layout.dtype, layout.shape), "new" if block else "alias"
            home = block or self.block
            result = self.draft.add_tensor(payload, id=f"%{name}", block=home, layout=layout, role=role)
        kwargs = ROW_MAJOR if name == "clone" else ()
        op = Op(core.Call(f"aten.{name}.default", (Operand(0), *args), kwargs))
        self.draft.add_op(op, (self.at,), (result,), before=self.before)
        self.at, self.block, self.layout = result, block or self.block, layout
