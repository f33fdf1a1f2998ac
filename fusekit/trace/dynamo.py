"""Graphs that Dynamo and AOT hand over, as functions that can be recorded."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils._python_dispatch import _disable_current_modes

from fusekit.errors import UnsupportedError
from fusekit.ir import Origin
from fusekit.trace.fallback import as_written, is_transform, put_back_after_error
from fusekit.trace.origin import NOT_USERS, at_line

_FRAME = re.compile(r'File "(.+?)", line (\d+), in (\S+)')


class GraphCall:
    """An FX graph as a function of tensors and numbers.

    Tensors that the graph module holds are read at each call and come first among the arguments. Dynamo hands a Python
    float that changes between calls over as a 0-d tensor, of which the graph takes the ``item``: here it is a number.
    """

    def __init__(self, module: torch.fx.GraphModule, name: str | None = None):
        nodes = list(module.graph.nodes)
        places = [node for node in nodes if node.op == "placeholder"]
        held = (str(node.target) for node in nodes if node.op == "get_attr")
        self.module = module
        self._eager: torch.fx.GraphModule | None = None
        self._numbers = frozenset(k for k, node in enumerate(places) if _is_number(node))
        self._held = tuple(dict.fromkeys(t for t in held if isinstance(_attribute(module, t), torch.Tensor)))
        frame = next((frame for node in nodes if (frame := _frame_of(node))), None)
        self.where = Origin(*frame[:2]) if frame else None  # the first line of the user's
        self.__name__ = self.__qualname__ = name or (frame[2].strip("<>") if frame else "graph")
        self.names = _identifiers([*self._held, *(_name_of(node) for node in places)])
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in self.names])

    def arguments(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """What ``__call__`` takes, for the arguments that Dynamo or AOT pass."""
        held = [_attribute(self.module, path) for path in self._held]
        if not self._numbers:
            return (*held, *args)
        return (*held, *(a.item() if k in self._numbers else a for k, a in enumerate(args)))

    def __call__(self, *flat: Any) -> Any:
        return self._lined(flat, _Inlined)

    def for_gradients(self, *flat: Any) -> Any:
        """The same for AOT, which has rules of its own for the gradient of a checkpoint or an autograd.Function."""
        return self._lined(flat, _Lined)

    def _lined(self, flat: Sequence[Any], kind: type[_Lined]) -> Any:
        count = len(self._held)
        with torch.set_grad_enabled(torch.is_grad_enabled()):  # an op that raises must not leave a region's mode behind
            return kind(self.module, dict(zip(self._held, flat[:count], strict=True))).run(*flat[count:])

    def eager(self, args: Sequence[Any]) -> Any:
        """What the function behind the graph does in eager, for the arguments that Dynamo or AOT pass."""
        if self._eager is None:
            self._eager = as_written(self.module)
        with put_back_after_error():
            return self._eager.forward(*args)  # not a call of the module, which prints the graph where an op raises

    def nodes(self) -> Iterator[torch.fx.Node]:
        """The nodes that call something, those of graphs inside the graph too."""
        graphs = (part for part in self.module.modules() if isinstance(part, torch.fx.GraphModule))
        return (node for part in graphs for node in part.graph.nodes if node.op.startswith("call"))


class _Lined(torch.fx.Interpreter):
    """Runs a graph node by node, and says of each which line of the user's it came from."""

    def __init__(self, module: torch.fx.GraphModule, held: Mapping[str, torch.Tensor]):
        super().__init__(module)
        self.held, self.nodes = held, tuple(module.graph.nodes)

    def run(self, *args: Any) -> Any:
        """The graph's outputs; without the progress bar and the texts that torch's own loop adds to errors."""
        self.args_iter = iter(args)
        out = None
        for node in self.nodes:  # the last is the output
            out = self.env[node] = self.run_node(node)
        return out

    def run_node(self, n: torch.fx.Node) -> Any:
        frame = _frame_of(n)
        if frame is None:
            return super().run_node(n)
        with at_line(frame[0], frame[1]):
            return super().run_node(n)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.held[target] if target in self.held else super().get_attr(target, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, OpOverload):
            if target.name() == "prims::fma":  # Dynamo's reading of addcmul_, addcdiv_
                return args[0] * args[1] + args[2]  # its definition
            if _takes_a_number(target, args):
                with _disable_current_modes():
                    return target(*args, **kwargs).item()
        return super().call_function(target, args, kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target == "item" and not isinstance(args[0], torch.Tensor):
            return args[0]
        return super().call_method(target, args, kwargs)


class _Inlined(_Lined):
    """Calls of graphs inside the graph are taken apart where that is all they are without a gradient."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        name = target.name() if isinstance(target, HigherOrderOperator) else None
        if name == "tag_activation_checkpoint":
            return _Inlined(args[0], {}).run(*args[1:])
        if name == "autograd_function_apply":
            with torch.no_grad():  # as in its forward, whose graph switches gradients on at its end
                result, _ = _Inlined(args[0], {}).run(*args[2:])
            return result
        return super().call_function(target, args, kwargs)


def _takes_a_number(op: OpOverload, args: Sequence[Any]) -> bool:
    """Is the op's tensor a Python number? AOT leaves ``aten._conj(2-3j)`` where a function had a number: what it gives
    is a number again, which does not promote element types as a tensor would."""
    first = op._schema.arguments[:1]
    return bool(args) and isinstance(args[0], (int, float, complex)) and str(first[0].type) == "Tensor"


def _attribute(module: torch.fx.GraphModule, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _is_number(node: torch.fx.Node) -> bool:
    """Is the placeholder a Python number in a tensor's clothes?"""
    passed = node.meta.get("grapharg")
    if passed is None or not passed.pass_arg_as_tensor or passed.is_tensor:
        return False
    return bool(node.users) and all(user.op == "call_method" and user.target == "item" for user in node.users)


@cache
def _frames(trace: str) -> tuple[tuple[str, int, str], ...]:
    return tuple((file, int(line), name) for file, line, name in _FRAME.findall(trace))


def _frame_of(node: torch.fx.Node) -> tuple[str, int, str] | None:
    """(file, line, function) of the user's innermost frame behind a node."""
    frames = _frames(node.meta.get("stack_trace") or "")
    users = [frame for frame in frames if not frame[0].startswith(NOT_USERS)]
    return next(reversed(users or frames), None)


def _name_of(node: torch.fx.Node) -> str:
    """``x`` for the placeholder of L['x'], ``self_fc_weight`` for one of a module's weight, else its own name."""
    passed = node.meta.get("grapharg")
    source = getattr(passed, "source", None)
    try:
        path = source.name if isinstance(source.name, str) else source.name()  # type: ignore[union-attr]
    except (AttributeError, NotImplementedError):
        return str(node.target)
    path = re.sub(r"\._(modules|parameters|buffers)\b", "", path)
    return re.sub(r"^[LG]\[['\"](\w+)['\"]\]", r"\1", path)


def _identifiers(names: Sequence[str]) -> tuple[str, ...]:
    """The names made identifiers, and different from one another."""
    found: dict[str, None] = {}
    for k, name in enumerate(names):
        clean = re.sub(r"\W+", "_", name).strip("_")
        usable = clean.isidentifier() and not keyword.iskeyword(clean) and clean not in found
        found[clean if usable else f"arg{k}"] = None
    return tuple(found)


def line_of_node(node: torch.fx.Node) -> Origin | None:
    """The user's line behind a node."""
    frame = _frame_of(node)
    return Origin(*frame[:2]) if frame else None


def refusal_of(call: GraphCall) -> UnsupportedError | None:
    """Why no recording can stand for a graph, where its nodes tell: a transform must not be left half way."""
    node = next(filter(is_transform, call.nodes()), None)
    if node is None:
        return None
    return UnsupportedError("a torch.func transform", line_of_node(node) or call.where, "apply the transform outside")
