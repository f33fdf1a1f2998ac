"""Do the ops of a graph give what the graph says? Asked of torch itself, on tensors without data.

Functionalize and the kernels believe a graph's shapes and layouts, and never call the ops that have a meaning of their
own. So in a graph of a user's each op is called once on torch's meta device, where nothing is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from fusekit.errors import FusekitError, InvalidGraph
from fusekit.ids import NodeId
from fusekit.ir import Graph, Symbol, core, is_tuple
from fusekit.run.bind import calls_say_what_they_write
from fusekit.run.decode import caller
from fusekit.torch_types import TO_TORCH
from fusekit.trace.nested import tensors_in

META = torch.device("meta")


def ops_give_what_they_say(graph: Graph, by: str) -> None:
    """Raises InvalidGraph that names the pass ``by`` for an op that torch refuses, or that gives another result."""
    fix = "change the op, or what the graph says of it"
    for node, problem in calls_say_what_they_write(graph):
        raise InvalidGraph(f"the pass {by} made a graph in which {node} {problem}", node, fix)
    for op in graph.ops():
        what = graph.what(op)
        if isinstance(what, core.Call):
            for problem in _problems(graph, op, what):
                said = f"the pass {by} made a graph in which {op} {graph.op(op).target} {problem}"
                raise InvalidGraph(said, graph.op(op).origin or op, fix)


def _problems(graph: Graph, op: NodeId, what: core.Call) -> Iterator[str]:
    payload = _on_meta(what)
    if payload is None or not graph.operands(op):
        return  # it makes tensors of nothing, or takes objects of a call: only the call itself can tell
    operands = {t: _tensor(graph, t) for t in graph.operands(op)}
    numbers = {n.index: n.example for n in graph.numbers()}
    values = [numbers.get(k, 0) for k in range(max(numbers, default=-1) + 1)]
    try:
        with torch.no_grad():
            found = list(tensors_in(caller(payload)([operands[t] for t in graph.operands(op)], values, ())))
    except NotImplementedError:
        return  # torch has no stand-in for this op
    except FusekitError:
        raise
    except Exception as error:  # whatever torch raises for arguments that the op does not take
        yield f"is refused by torch: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        return
    results = graph.results(op)
    if len(found) != len(results):
        yield f"gives {len(found)} tensors, and the graph says {len(results)}"
    for one, tensor in zip(found, results, strict=False):
        yield from _differences(graph, op, tensor, one, operands)


def _differences(
    graph: Graph, op: NodeId, tensor: NodeId, found: torch.Tensor, operands: dict[NodeId, torch.Tensor]
) -> Iterator[str]:
    """What differs; where fresh memory is laid out is torch's matter, and looked at when it runs."""
    said = graph.tensor(tensor)
    shape = tuple(found.shape)
    if graph.is_value(tensor):
        if len(shape) > len(said.shape) or any(
            n not in (1, m) for n, m in zip(shape[::-1], said.shape[::-1], strict=False)
        ):
            yield f"gives {list(shape)}, and the graph says {list(said.shape)}"
        return
    if shape != said.shape or found.dtype != TO_TORCH[said.dtype]:
        yield f"gives {found.dtype} {list(shape)}, and the graph says {said.dtype} {list(said.shape)}"
        return
    storage = found.untyped_storage()._cdata
    of = {graph.block_of(t) for t, one in operands.items() if one.untyped_storage()._cdata == storage}
    block = graph.block_of(tensor)
    if of and block not in of:
        yield f"gives a view of {of.pop()}, and the graph says {block}"
    elif of and not _is_there(graph, tensor, found):
        yield "gives a view with another layout than the graph says"
    elif not of and any(block == graph.block_of(t) for t in operands):
        yield f"gives memory of its own, and the graph says {block}, where an operand lies"


def _is_there(graph: Graph, tensor: NodeId, found: torch.Tensor) -> bool:
    layout, width = graph.layout(tensor), found.element_size()
    if not layout.numel or not layout.offset.is_constant:
        return True
    strides = zip(layout.shape, layout.strides, found.stride(), strict=True)
    return layout.offset.const == found.storage_offset() * width and all(
        n == 1 or s == t * width for n, s, t in strides
    )


def _tensor(graph: Graph, node: NodeId) -> torch.Tensor:
    """A stand-in; places of one block share a storage only with themselves: an op sees one operand at a time."""
    payload = graph.tensor(node)
    dtype = TO_TORCH[payload.dtype]
    if graph.is_value(node):
        return torch.empty(payload.shape, dtype=dtype, device=META)
    layout, width = graph.layout(node), payload.dtype.width
    block = graph.block_of(node)
    assert block is not None
    storage = torch.UntypedStorage(graph.block(block).nbytes, device=META)
    start = layout.offset.const if layout.offset.is_constant else 0
    return torch.empty(0, dtype=dtype, device=META).set_(
        storage, start // width, layout.shape, tuple(s // width for s in layout.strides)
    )


def _on_meta(op: core.Call) -> core.Call | None:
    """The op with its devices replaced; None for one that takes an object of the call."""
    args, kwargs = _replaced(op.args), _replaced(tuple(v for _, v in op.kwargs))
    if args is None or kwargs is None:
        return None
    return replace(op, args=args, kwargs=tuple((k, v) for (k, _), v in zip(op.kwargs, kwargs, strict=True)))


def _replaced(values: tuple[object, ...]) -> tuple[object, ...] | None:
    out: list[object] = []
    for value in values:
        if isinstance(value, Symbol) and value.name.startswith("device:"):
            out.append(Symbol("device:meta"))
        elif isinstance(value, Symbol) and value.name.startswith(("leaf:", "object:", "output:")):
            return None
        elif is_tuple(value):
            inner = _replaced(value)
            if inner is None:
                return None
            out.append(inner)
        else:
            out.append(value)
    return tuple(out)
