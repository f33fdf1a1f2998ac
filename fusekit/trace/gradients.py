"""A graph with its gradient: AOT's forward and backward graph, where they are known to be right."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx.traceback as fx_traceback
from torch._functorch import config as aot_config
from torch._functorch.aot_autograd import aot_module_simplified
from torch._functorch.partitioners import default_partition, must_recompute
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils.checkpoint import CheckpointPolicy

from fusekit.errors import UnsupportedError
from fusekit.ops.extern import hidden_writes
from fusekit.trace import refusals
from fusekit.trace.ambient import ambient
from fusekit.trace.dynamo import GraphCall, line_of_node
from fusekit.trace.fallback import Autocast, is_plain_checkpoint
from fusekit.trace.guards import layout_of, token
from fusekit.trace.private import C
from fusekit.trace.reaching import Reach
from fusekit.trace.record import record
from fusekit.trace.spans import Span, meeting

Compiler = Callable[[GraphCall, bool], Callable[..., Any]]  # (graph, is it the forward one)
_ABSOLUTE = ("aten::as_strided", "aten::as_strided_", "aten::as_strided_scatter")
_WRITING_OPERATORS = {
    *("setitem", "iadd", "isub", "imul", "imatmul", "itruediv", "ifloordiv", "imod", "ipow", "iconcat"),
    *("iand", "ior", "ixor", "ilshift", "irshift"),
}
_TAG = "partitioner_tag"
_DIFFERENTIABLE = (  # higher-order ops whose gradient AOT takes as eager does
    "autograd_function_apply",
    "tag_activation_checkpoint",
)


def exact_key(flat: Sequence[Any], is_exact: bool) -> tuple[Any, ...]:
    """What AOT's graphs depend on: layouts, autograd state, overlaps, numbers, ambient state.

    ``is_exact``: they also name bytes of whole storages, as they do wherever inputs meet (a synthetic base).
    """
    tensors = [a for a in flat if isinstance(a, torch.Tensor)]
    pattern = meeting([Span.of_storage(t) for t in tensors])
    whole = is_exact or bool(pattern)
    layouts = tuple([layout_of(t, whole) for t in tensors])
    return layouts, pattern, tuple([token(a) for a in flat if not isinstance(a, torch.Tensor)]), ambient()


def refuse_what_cannot_be_differentiated(call: GraphCall) -> None:
    """Raise for graphs whose backward graph nobody has shown to be eager's."""
    for node in call.nodes():
        if not isinstance(node.target, HigherOrderOperator):
            continue
        where = line_of_node(node) or call.where
        if node.target.name() not in _DIFFERENTIABLE:
            raise UnsupportedError(f"the gradient of {node.target.name()}", where)
        if node.target.name() == "tag_activation_checkpoint" and not is_plain_checkpoint(node):
            raise UnsupportedError("a checkpoint with a policy, or that keeps no random state,", where)


class _Shared(Exception):
    """An output is a view of memory that is saved for the gradient."""


class Differentiated:
    """A graph with its gradient: AOT's forward and backward graph for arguments like ``flat``, each compiled by
    ``compile``. Ops that write in place stay as they are. ``is_exact`` as in ``exact_key``.

    Raises UnsupportedError where the backward graph is not known to be right.
    """

    def __init__(self, call: GraphCall, flat: Sequence[Any], compile: Compiler):
        refuse_what_cannot_be_differentiated(call)
        self.is_exact = False
        self._call, self._compile, self._reach = call, compile, Reach()
        _raise_for_written_leaves(call, flat)
        tensors = _traced_apart(call, flat)
        try:
            self._lifted = _Lifted(call, flat, with_bases=False)
            self._run = self._split(tensors)
        except _Shared:
            self._lifted = _Lifted(call, flat, with_bases=True)
            self._run = self._split(tensors)

    def _split(self, tensors: Sequence[torch.Tensor]) -> Callable[..., Any]:
        with (
            aot_config.patch(donated_buffer=False),  # retain_graph=True is allowed
            warnings.catch_warnings(),
            C._DisableAutocast(),  # backward runs under the modes in which it is called, and so it is traced under none
        ):
            warnings.simplefilter("ignore")
            return aot_module_simplified(
                self._lifted,  # type: ignore[arg-type]
                list(tensors),
                fw_compiler=lambda gm, example_inputs: self._boxed(gm, "_forward"),
                bw_compiler=lambda gm, example_inputs: self._boxed(gm, "_backward"),
                partition_fn=self._partition,
                disable_functionalization=True,
            )

    def __call__(self, flat: Sequence[Any]) -> Any:
        out = self._run(*[a for a in flat if isinstance(a, torch.Tensor)])
        self._reach.attach(out)
        if self._lifted.locked:
            out = [_locked(t, self._lifted.locked.get(k)) for k, t in enumerate(out)]
        return out[: self._lifted.count] if self._lifted.with_bases else out

    def _boxed(self, module: torch.fx.GraphModule, part: str) -> Callable[[list[Any]], Any]:
        call = GraphCall(module, self._call.__name__ + part)
        run = self._compile(call, part == "_forward")

        def boxed(args: list[Any]) -> Any:
            taken = tuple(args)
            args.clear()
            return run(*taken)

        boxed._boxed_call = True  # type: ignore[attr-defined]
        return boxed

    def _partition(self, joint: torch.fx.GraphModule, inputs: Any, **kwargs: Any) -> Any:
        _refuse_lost_statistics(self._call, joint)
        _tag_backward(joint)
        _give_zeros_memory(joint)
        _save_random_numbers(joint)
        self._reach = Reach.of(self._call, joint, kwargs["num_fwd_outputs"])
        forward, backward = default_partition(joint, inputs, **kwargs)
        _draw_where_it_was_written(joint, forward, backward)
        _refuse_writes_to_what_was_saved(backward)
        if not self._lifted.with_bases and _shares_what_is_saved(forward, kwargs["num_fwd_outputs"]):
            raise _Shared
        ops = [node.target for graph in (forward, backward) for node in graph.graph.nodes]
        self.is_exact = any(isinstance(op, OpOverload) and op._schema.name in _ABSOLUTE for op in ops)
        return forward, backward


def _traced_apart(call: GraphCall, flat: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors that AOT traces for those in ``flat``: of two that overlap, no view of the other for autograd.

    Else the gradient of one would flow into the other in the trace, and at the call once more. Raises UnsupportedError
    where one of them is also written: then the history of both matters.
    """
    tensors = [a for a in flat if isinstance(a, torch.Tensor)]
    pairs = [pair for pair in meeting([Span.of(t) for t in tensors]) if not pair[4]]
    if any(not one_storage for _, _, _, one_storage, _ in pairs):
        raise UnsupportedError("arguments that share memory through two storages, in a graph with gradients")
    with_gradient = [k for a, b, *_ in pairs if tensors[a].requires_grad or tensors[b].requires_grad for k in (a, b)]
    if not with_gradient:
        return tensors
    apart = [t.detach().requires_grad_(t.requires_grad) if k in with_gradient else t for k, t in enumerate(tensors)]
    if written := _written(call, flat) & set(with_gradient):
        name = call.names[next(k for k, a in enumerate(flat) if a is tensors[min(written)])]
        raise UnsupportedError(f"{name} is written, and shares memory with an argument that requires grad,", call.where)
    return apart


def _raise_for_written_leaves(call: GraphCall, flat: Sequence[Any]) -> None:
    """Eager's error for a leaf that is written under grad mode: Dynamo looks at the first call only, AOT not at all."""
    tensors = [a for a in flat if isinstance(a, torch.Tensor)]
    leaves = {k for k, t in enumerate(tensors) if t.requires_grad and t.is_leaf}
    if not leaves or not any(map(_may_write, call.nodes())) or not leaves & _written(call, flat):
        return
    try:
        record(call, flat)
    except UnsupportedError as error:
        if error.fix != refusals.OR_NO_GRAD:  # not at the end, for a result with a gradient
            raise


def _may_write(node: torch.fx.Node) -> bool:
    """Does the node look like a write to one of its operands? Rather too often than too seldom."""
    name = getattr(node.target, "__name__", str(node.target))
    is_told = any(value is True for value in (*node.args, *node.kwargs.values()))  # inplace=True
    is_named = name.endswith("_") or name in _WRITING_OPERATORS
    return bool(node.all_input_nodes) and (is_told or is_named or "out" in node.kwargs)


def _written(call: GraphCall, flat: Sequence[Any]) -> set[int]:
    """Which of the tensors in ``flat`` lie in a memory block that the graph writes."""
    with torch.no_grad():
        graph = record(call, [a.detach() if isinstance(a, torch.Tensor) else a for a in flat]).graph
    blocks = {graph.block_of(graph.operands(op)[k]) for op in graph.ops() for k in graph.op(op).writes}
    return {k for k, tensor in enumerate(graph.inputs()) if graph.block_of(tensor) in blocks}


class _Lifted(torch.nn.Module):
    """The graph as a module of the tensors among ``flat``; the other arguments are fixed.

    ``with_bases``: after its ``count`` outputs it answers the base of each that is a view of what the graph made. AOT
    then rebuilds the view from that base; it would otherwise cut the output's version counter off from that of what is
    saved for the gradient, and backward would not notice a later write to the output.
    """

    def __init__(self, call: GraphCall, flat: Sequence[Any], with_bases: bool):
        super().__init__()
        self.call, self.with_bases, self.count = call, with_bases, 0
        self.locked: dict[int, Any] = {}  # results that eager lets nobody write, by position
        self.modes = Autocast.now()
        self.others = [None if isinstance(a, torch.Tensor) else a for a in flat]
        self.places = [k for k, a in enumerate(flat) if isinstance(a, torch.Tensor)]

    def forward(self, *tensors: torch.Tensor) -> Any:
        flat = list(self.others)
        for k, tensor in zip(self.places, tensors, strict=True):
            flat[k] = tensor
        # anomaly mode gives the nodes of the backward graph the line of their forward op
        with fx_traceback.preserve_node_meta(), torch.autograd.detect_anomaly(check_nan=False), self.modes.around():
            out = self.call.for_gradients(*flat)
        _refuse_cut_histories(out, tensors)
        self.count = len(out)
        self.locked = dict(_locks(out, tensors))
        return (*out, *_hidden_bases(out, tensors)) if self.with_bases else out


def _locks(out: Sequence[Any], tensors: Sequence[torch.Tensor]) -> Iterator[tuple[int, Any]]:
    """Results that are views which must not be written under grad mode (one of several, or made without gradients),
    and why."""
    for k, o in enumerate(out):
        if isinstance(o, torch.Tensor) and o.requires_grad and o._is_view() and not any(o is t for t in tensors):
            meta = C._autograd._get_creation_meta(o)
            if meta != C._autograd.CreationMeta.DEFAULT:
                yield k, meta


def _locked(t: Any, meta: Any) -> Any:
    """The result as such a view, as which AOT does not give it back."""
    if meta is None or not t.requires_grad:
        return t
    view = t.view_as(t)
    C._autograd._set_creation_meta(view, meta)
    return view


def _refuse_cut_histories(out: Sequence[Any], tensors: Sequence[torch.Tensor]) -> None:
    """A result with a gradient in the memory of an argument, of which it is no view for autograd: AOT would rebuild it
    from the argument, and its gradient would be lost (``y = x.detach(); y.copy_(w)``)."""
    for o in out:
        if not isinstance(o, torch.Tensor) or not o.requires_grad:
            continue
        storage = o.untyped_storage()._cdata
        for t in tensors:
            kin = o is t or (o._base is not None and (o._base is t or o._base is t._base)) or t._base is o
            if t.untyped_storage()._cdata == storage and not kin:
                raise UnsupportedError("a result that was detached from an argument and given another gradient")


def _hidden_bases(out: Sequence[Any], tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Bases of the outputs that are neither outputs themselves nor memory of an argument, each once."""
    found: dict[int, torch.Tensor] = {}
    for o in out:
        if isinstance(o, torch.Tensor) and o.requires_grad and o._base is not None:
            known = (*out, *tensors, *(t._base for t in tensors))
            if not any(o._base is t for t in known):
                found[id(o._base)] = o._base
    return list(found.values())


def _batch_norms(nodes: Iterator[torch.fx.Node]) -> int:
    names = [getattr(node.target, "__name__", str(node.target)) for node in nodes]
    return sum("batch_norm" in name and "backward" not in name for name in names)


def _refuse_lost_statistics(call: GraphCall, joint: torch.fx.GraphModule) -> None:
    """A batch norm whose result nobody reads still updates its statistics, which its schema does not say."""
    kept = (node for node in joint.graph.nodes if node.op == "call_function")
    if _batch_norms(kept) < _batch_norms(call.nodes()):
        raise UnsupportedError("a batch norm whose result is not used, in a graph with gradients")


def _give_zeros_memory(joint: torch.fx.GraphModule) -> None:
    """Zero tensors without memory, by which autograd answers an exact zero, are traced as if they were on "meta",
    where their kernels ask for element types. Nothing else of a gradient is there, since no argument is."""
    values = (node.meta.get("val") for node in joint.graph.nodes)
    device = next(value.device for value in values if isinstance(value, torch.Tensor) and not value.is_meta)
    for node in [node for node in joint.graph.nodes if not _is_of_forward(node)]:
        value = node.meta.get("val")
        if node.kwargs.get("device") == torch.device("meta"):
            node.kwargs = {**node.kwargs, "device": device}
        elif node.op == "get_attr" and isinstance(value, torch.Tensor) and value.is_meta:
            with joint.graph.inserting_before(node):
                zeros = joint.graph.call_function(
                    torch.ops.aten.zeros.default, (list(value.shape),), {"dtype": value.dtype, "device": device}
                )
            zeros.meta = {**node.meta, "val": value.new_zeros(value.shape, device=device)}
            node.replace_all_uses_with(zeros)
            joint.graph.erase_node(node)


def _tag_backward(joint: torch.fx.GraphModule) -> None:
    """Each node is of forward or of backward: those of an autograd.Function's backward have lost their tag."""
    nodes = list(joint.graph.nodes)
    last = max(k for k, node in enumerate(nodes) if node.meta.get(_TAG) == "is_forward")
    for k, node in enumerate(nodes):
        node.meta.setdefault(_TAG, "is_backward" if k > last else "is_forward")


def _is_of_forward(node: torch.fx.Node) -> bool:
    return "forward" in node.meta[_TAG]


def _draws(node: torch.fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def _save_random_numbers(joint: torch.fx.GraphModule) -> None:
    """What is computed anew in backward, as a checkpoint wants it, is computed from the numbers drawn in forward.

    Raises UnsupportedError where there are writes besides: eager does those of a checkpoint again, AOT does not.
    """
    nodes = [node for node in joint.graph.nodes if node.op == "call_function"]
    if not any(must_recompute(node) for node in nodes):
        return
    for node in nodes:
        if isinstance(node.target, OpOverload) and (
            node.target._schema.is_mutable or hidden_writes(str(node.target), tuple(node.args))
        ):
            raise UnsupportedError(f"a checkpoint beside a write, by {node.target},", line_of_node(node))
        if _draws(node):
            for kept in (node, *node.users):
                kept.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _draw_where_it_was_written(
    joint: torch.fx.GraphModule, forward: torch.fx.GraphModule, backward: torch.fx.GraphModule
) -> None:
    """Each random op stays in the graph of its half of the function alone; what was computed only for it goes as well.

    The partition keeps it in both, as it keeps what has effects: backward would draw other numbers than forward did,
    for nobody, and every number after it would be another one than eager's.
    """
    in_forward = {node.name for node in joint.graph.nodes if _is_of_forward(node)}
    for module, is_forward in ((forward, True), (backward, False)):
        for node in reversed(module.graph.nodes):
            if _draws(node) and (node.name in in_forward) != is_forward:
                if node.users:
                    raise UnsupportedError(f"{node.target}, which forward and backward would both draw,")
                module.graph.erase_node(node)
        module.graph.eliminate_dead_code()
        module.recompile()


def _shares_what_is_saved(forward: torch.fx.GraphModule, count: int) -> bool:
    """Is one of the first ``count`` outputs a view of memory that the graph made and that is saved for backward?

    Raises UnsupportedError for a view that has siblings (``unbind``, ``chunk``): AOT cuts these off in any case.
    """
    leaves = next(iter(forward.graph.find_nodes(op="output"))).args[0]
    saved = {_storage_of(node) for node in leaves[count:]}  # type: ignore[index]
    saved -= {_storage_of(node) for node in forward.graph.find_nodes(op="placeholder")}
    views = [node for node in leaves[:count] if _is_view(node) and _storage_of(node) in saved]  # type: ignore[index]
    for node in views:
        while _is_view(node):
            if node.target is operator.getitem:
                what = "one of several views of a tensor that is saved for the gradient, as a result"
                raise UnsupportedError(what, line_of_node(node))
            node = node.args[0]
    return bool(views)


def _storage_of(node: Any) -> int | None:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def _is_view(node: Any) -> bool:
    if not isinstance(node, torch.fx.Node) or node.op != "call_function" or not node.args:
        return False
    if node.target is operator.getitem:
        return _is_view(node.args[0])
    return isinstance(node.target, OpOverload) and node.target._schema.arguments[0].alias_info is not None


def _refuse_writes_to_what_was_saved(backward: torch.fx.GraphModule) -> None:
    """A backward graph may write to what it made itself: anything else would be written once for each call of it."""
    outside: set[torch.fx.Node] = set()
    for node in backward.graph.nodes:
        if node.op == "placeholder":
            outside.add(node)
        elif isinstance(node.target, OpOverload):
            schema = node.target._schema
            for argument, value in zip(schema.arguments, node.args, strict=False):
                if isinstance(value, torch.fx.Node) and value in outside and argument.alias_info is not None:
                    if argument.alias_info.is_write:
                        raise UnsupportedError(f"{node.target} on a saved tensor, in the gradient")
                    outside.add(node)  # a view
