"""What a graph of Dynamo's does in eager: a graph is made to be traced, and not every node means alone what the
function meant."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils.checkpoint
from torch._ops import HigherOrderOperator
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _get_current_dispatch_mode, _pop_mode_temporarily

from fusekit.trace.private import C

_TRANSFORMS = ("torch._functorch.", "torch._C._functorch", "torch.autograd.forward_ad")


def is_transform(node: torch.fx.Node) -> bool:
    """Does the node enter or leave a transform of torch.func, or belong to one?"""
    return (getattr(node.target, "__module__", None) or "").startswith(_TRANSFORMS)


def as_written(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph with checkpoints that checkpoint: Dynamo's op only tags them for AOT, and keeps no random state."""
    if not any(_is_tag(n) for part in _graphs(module) for n in part.graph.nodes):
        return module
    graph = torch.fx.Graph()
    copied: dict[torch.fx.Node, torch.fx.Node] = {}
    graph.output(graph.graph_copy(module.graph, copied))
    made = torch.fx.GraphModule(module, graph)
    for node in list(graph.nodes):
        if _is_tag(node):
            node.target = _checkpoint
        elif node.op == "get_attr":
            found = operator.attrgetter(str(node.target))(module)
            if isinstance(found, torch.fx.GraphModule):
                _set(made, str(node.target), as_written(found))
    made.meta.update(module.meta)
    made.recompile()
    return made


def _graphs(module: torch.fx.GraphModule) -> Iterator[torch.fx.GraphModule]:
    return (part for part in module.modules() if isinstance(part, torch.fx.GraphModule))


def _set(module: torch.nn.Module, path: str, value: torch.nn.Module) -> None:
    owner, _, name = path.rpartition(".")
    setattr(module.get_submodule(owner), name, value)


def _is_tag(node: torch.fx.Node) -> bool:
    return isinstance(node.target, HigherOrderOperator) and node.target.name() == "tag_activation_checkpoint"


def is_plain_checkpoint(node: torch.fx.Node) -> bool:
    """Does the tag stand for a checkpoint that computes all anew, from the same random numbers?"""
    region = operator.attrgetter(str(node.args[0]))(node.graph.owning_module)
    return node.kwargs.get("preserve_rng_state", True) is True and "_checkpoint_context_fn" not in region.meta


def _checkpoint(region: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
    """``torch.utils.checkpoint`` as the function called it.

    Dynamo has made arguments of what the region reads besides, of a batch norm's statistics, too. Eager does not mind
    that these are written; so what takes no part in gradients is held here, and only that is checked for writes which
    forward did not write itself.
    """
    if "_checkpoint_context_fn" in region.meta:
        kwargs["context_fn"] = region.meta["_checkpoint_context_fn"]
    passed = [k for k, a in enumerate(args) if isinstance(a, torch.Tensor) and a.requires_grad]
    held = [a for a in args if isinstance(a, torch.Tensor) and not a.requires_grad and not a.is_inference()]
    before = [t._version for t in held]
    kept: list[tuple[torch.Tensor, int]] = []

    def run(*given: torch.Tensor) -> Any:
        if any(t._version != version for t, version in kept):
            what = "one of the variables needed for gradient computation has been modified by an inplace operation"
            raise RuntimeError(f"{what}: an argument of a checkpoint")
        now = dict(zip(passed, given, strict=True))
        return region.forward(*(now.get(k, a) for k, a in enumerate(args)))

    out = torch.utils.checkpoint.checkpoint(run, *(args[k] for k in passed), **kwargs)
    kept += [(t, version) for t, version in zip(held, before, strict=True) if t._version == version]
    return out


@contextlib.contextmanager
def put_back_after_error() -> Iterator[None]:
    """Modes are as before where an op raises: a graph enters and leaves them by nodes, which have no ``finally``."""
    states = [(read(), write) for read, write in _MODES]
    depth, is_dual = C._functorch.get_dynamic_layer_stack_depth(), forward_ad._current_level >= 0
    hooks, nesting = C._autograd._saved_tensors_hooks_is_enabled(), _nesting()
    try:
        yield
    except BaseException:
        if C._functorch.get_dynamic_layer_stack_depth() > depth:
            C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if not is_dual:
            _leave_dual_level()
        if hooks:
            C._autograd._saved_tensors_hooks_enable()
        for _ in range(_nesting() - nesting):
            torch.autocast_decrement_nesting()
        for state, write in states:
            write(state)
        raise


def _leave_dual_level() -> None:
    """No level of forward mode is open; a graph's nodes open one behind Python's count of them."""
    try:
        C._exit_dual_level(level=C._enter_dual_level())
    except RuntimeError:  # there is one at most
        C._exit_dual_level(level=0)
        forward_ad._current_level = -1


def _nesting() -> int:
    """How many regions of autocast are open."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


@dataclass(frozen=True, slots=True)
class Autocast:
    """Modes of autocast: (device, is it on, the element type that is cast to) of each device, and whether casts of
    weights are kept."""

    devices: tuple[tuple[str, bool, torch.dtype], ...]
    is_cached: bool

    @staticmethod
    def now() -> Autocast:
        kinds = ("cpu", "cuda")
        devices = tuple((kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds)
        return Autocast(devices, torch.is_autocast_cache_enabled())

    def set(self) -> None:
        for kind, is_on, dtype in self.devices:
            torch.set_autocast_enabled(kind, is_on)
            torch.set_autocast_dtype(kind, dtype)
        torch.set_autocast_cache_enabled(self.is_cached)

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """These modes, whatever is on now. A weight that is used twice is cast once, as in eager, where its gradients
        are added before they are cast back."""
        before = Autocast.now()
        self.set()
        try:
            yield
        finally:
            before.set()
            torch.clear_autocast_cache()  # it would keep stand-ins


_MODES: tuple[tuple[Callable[[], Any], Callable[[Any], object]], ...] = (
    (torch.is_grad_enabled, C._set_grad_enabled),
    (C._is_fwd_grad_enabled, C._set_fwd_grad_enabled),
    (C._functorch.get_inplace_requires_grad_allowed, C._functorch.set_inplace_requires_grad_allowed),
    (Autocast.now, Autocast.set),
)


@contextlib.contextmanager
def without_aot_check() -> Iterator[None]:
    """AOT watches the first call of a graph by a mode of its own, for aliases among results of other libraries' ops.

    Under any mode torch computes a complex ``pinv`` wrongly, and with a mode on the call would be another one than all
    that follow, to be recorded by itself.
    """
    top = _get_current_dispatch_mode()
    if top is None or type(top).__name__ != "_AnalyzeCustomOpInputOutputMode":
        yield
        return
    with _pop_mode_temporarily():
        yield
