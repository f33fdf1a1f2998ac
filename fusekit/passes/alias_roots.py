"""What a tensor of a traced program is a view of, or why it is a view of nothing."""

from __future__ import annotations

from fusekit.ids import NodeId
from fusekit.ir import Graph, Layout, core
from fusekit.memory import algebra
from fusekit.passes.base import is_view
from fusekit.why import Reason

_COPIES = ("aten.clone", "aten._reshape_copy", "aten.reshape", "aten.contiguous")


def alias_root(graph: Graph, tensor: NodeId) -> tuple[NodeId, Layout] | Reason:
    """The first tensor up the chain of views from ``tensor``, an argument or an intermediate, and the layout of
    ``tensor`` in its block; the reason why it is no view, where that is ``tensor`` itself."""
    root, shape = tensor, graph.layout(tensor).shape
    while graph.has_producer(root):
        op = graph.producer(root)
        if is_view(graph, op):
            root = graph.operands(op)[0]
            continue
        if root == tensor or isinstance(graph.what(op), core.Input):
            break
        if graph.op(op).target.startswith(_COPIES) and graph.layout(root).numel == graph.layout(tensor).numel:
            why = algebra.reshape(graph.layout(graph.operands(op)[0]), shape)
            return why if isinstance(why, Reason) else (root, graph.layout(tensor))
        break
    if root != tensor:
        return root, graph.layout(tensor)
    if not graph.has_producer(tensor):
        return Reason.of("is-computed", op="nothing")
    op = graph.producer(tensor)
    return Reason.of("is-computed", op=graph.op(op).target)
