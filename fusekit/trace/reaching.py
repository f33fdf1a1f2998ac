"""Which gradients of a graph hang on which results: where nobody gave a gradient of any of these, there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import HigherOrderOperator

from fusekit.trace.dynamo import GraphCall

_NODE = "CompiledFunctionBackward"
_DEPTH = 3  # from a result to AOT's node in the autograd graph: a view or two that AOT made again
Gradients = Sequence[torch.Tensor | None]


@dataclass(frozen=True, slots=True)
class Reach:
    """For each argument the results on whose gradients its own hangs; None where it may be needed whatever is given.

    AOT fills up with zeros, which an optimizer with momentum or weight decay does not take for no gradient.
    """

    of_argument: tuple[frozenset[int] | None, ...] = ()

    @staticmethod
    def of(call: GraphCall, joint: torch.fx.GraphModule, results: int) -> Reach:
        """The reach in a joint graph of so many results. An autograd.Function is given zeros in eager, too."""
        if any(
            isinstance(n.target, HigherOrderOperator) and "autograd_function" in n.target.name() for n in call.nodes()
        ):
            return Reach()
        output = next(iter(joint.graph.find_nodes(op="output")))
        descriptions = list(output.meta["desc"])[:results]
        hangs: dict[torch.fx.Node, frozenset[int]] = {}
        for node in joint.graph.nodes:
            result = getattr(node.meta.get("desc"), "output", None) if node.op == "placeholder" else None
            own = [descriptions.index(result)] if result in descriptions else []
            hangs[node] = frozenset(own).union(*(hangs[source] for source in node.all_input_nodes))
        gradients = output.args[0][results:]  # type: ignore[index]
        return Reach(tuple(hangs[g] or None if isinstance(g, torch.fx.Node) else None for g in gradients))

    def attach(self, out: Sequence[Any]) -> None:
        """Tell AOT's node behind the results of a call."""
        if len(set(self.of_argument)) > 1 and (node := _node_behind(out)) is not None:
            node.register_hook(self.without_zeros)

    def without_zeros(self, gradients: Gradients, given: Gradients) -> Gradients | None:
        """The gradients of the arguments, of which those are None that hang on what nobody gave."""
        if len(gradients) != len(self.of_argument):
            return None
        missing = frozenset(k for k, gradient in enumerate(given) if gradient is None)
        pairs = zip(gradients, self.of_argument, strict=True)
        return tuple(None if needs is not None and needs <= missing else gradient for gradient, needs in pairs)


def _node_behind(out: Sequence[Any]) -> Any:
    level = [t.grad_fn for t in out if isinstance(t, torch.Tensor) and t.grad_fn is not None]
    for _ in range(_DEPTH):
        found = next((node for node in level if node.name() == _NODE), None)
        if found is not None:
            return found
        level = [following for node in level for following, _ in node.next_functions if following is not None]
    return None
