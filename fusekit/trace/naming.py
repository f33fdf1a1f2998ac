"""Names of inputs and results, as a user would write them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.utils._pytree import GetAttrKey, MappingKey, SequenceKey

from fusekit.escape import node_name
from fusekit.trace.nested import keyed_leaves


def function_name(fn: Any) -> str:
    """A name for the graph: the function's, or its class's."""
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return clean(name) or "f"


def argument_names(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """A name for each leaf of ``(args, kwargs)``: the parameter's name, and the path inside it: ``cfg.w``, ``ts.0``."""
    heads = _parameter_names(fn, len(args))
    pairs, _ = keyed_leaves((tuple(args), dict(kwargs)))
    return tuple(_name_of(path, heads) for path, _ in pairs)


def capture_name(path: str, leaves: Sequence[tuple[str, object]], names: Sequence[str]) -> str:
    """A capture inside an argument that is no tensor is named after that argument: ``model.norm.weight``."""
    for (leaf, _), name in zip(leaves, names, strict=True):
        if path.startswith(leaf):
            return name + path[len(leaf) :]
    return path


def _name_of(path: Sequence[Any], heads: Sequence[str]) -> str:
    side, top, *rest = [_key(step) for step in path]
    head = heads[int(top)] if side == "0" else top
    return ".".join([head, *rest])


def _key(step: Any) -> str:
    match step:
        case SequenceKey():
            return str(step.idx)
        case MappingKey():
            return str(step.key)
        case GetAttrKey():
            return step.name
    return re.sub(r"\W", "", str(step))


def _parameter_names(fn: Callable[..., Any], count: int) -> tuple[str, ...]:
    target = fn.forward if hasattr(fn, "forward") and hasattr(fn, "_parameters") else fn
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        parameters = []
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}.{k}" for k in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    names += [f"arg{k}" for k in range(len(names), count)]
    return tuple(names[:count])


def clean(path: str) -> str:
    """A path as an id: letters, digits, underscores and dots; ``self.ws[0]`` is ``self.ws.0``."""
    text = re.sub(r"\[['\"]?([^\]]*?)['\"]?\]", r".\1", path)
    return node_name(text).strip(".")


def result_name(overload: str) -> str:
    """``exp`` for ``aten.exp_.default``, ``add`` for ``aten.add.Tensor``."""
    name = overload.split(".")[1]
    return clean(name.strip("_") or name)
