"""Values that cross from one kernel to another in memory: stored once where they are made, loaded where read."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fusekit.ids import NodeId
from fusekit.ir import Block, Draft, Graph, Layout, Op, Ordering, Tensor, core


def store_once(graph: Graph, reads: Mapping[NodeId, Collection[NodeId]]) -> Graph:
    """The graph in which the ops of ``reads[value]`` read the value from memory, in a block of its own.

    A value ``%t`` gets ``^store.t`` right after what makes it, the place ``%t.mem``, and ``^load.t`` in front of the
    first reader.
    """
    draft = graph.draft("segment")
    for value, readers in reads.items():
        if readers:
            _cross(graph, draft, value, sorted(readers, key=graph.position))
    return draft.finish().graph


def _cross(graph: Graph, draft: Draft, value: NodeId, readers: list[NodeId]) -> None:
    made, name = graph.tensor(value), value[1:]
    layout = Layout.contiguous(made.shape, made.dtype)
    block = draft.add_block(Block(layout.nbytes, _device(graph), "fresh"))
    place = draft.add_tensor(made, id=f"%{name}.mem", block=block, layout=layout, role="new")
    payload = Op(core.Store(because="another kernel reads it"))
    after = graph.ops()[graph.position(graph.producer(value)) + 1]
    store = draft.add_op(payload, (value, place), (), id=f"^store.{name}", before=after)
    found = draft.add_tensor(Tensor(made.dtype, made.shape), id=f"%{name}.in")
    load = draft.add_op(Op(core.Load()), (place,), (found,), id=f"^load.{name}", before=readers[0])
    draft.order(store, load, Ordering(("RAW",), "same elements"))
    for reader in readers:
        for k, operand in enumerate(graph.operands(reader)):
            if operand == value:
                draft.rewire(reader, k, found)


def _device(graph: Graph) -> str:
    """Where kernels run: a CPU number among CUDA tensors is no place for a value."""
    devices = [graph.block(block).device for block in graph.blocks()]
    return next((d for d in devices if not d.startswith("cpu")), devices[0] if devices else "cpu")
