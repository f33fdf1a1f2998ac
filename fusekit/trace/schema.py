"""What an overload's schema says about a call: which value goes to which argument, and which operands it writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from fusekit.ops.extern import hidden_writes

# How many results eager gives where autograd needs none of the rest, though fakes give a tensor for each.
_DEFINED = {"aten::mkldnn_rnn_layer": 3}


def defined_results(func: OpOverload, results: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The results that eager gives too."""
    return results[: _DEFINED.get(func._schema.name, len(results))]


def destinations_for(func: OpOverload, out: Any, written: Sequence[torch.Tensor]) -> Any:
    """What an ``out=`` overload answers: its destinations, though some fakes answer an operand or a new tensor."""
    results = list(out) if isinstance(out, (tuple, list)) else [out]
    if not func._schema.overload_name.endswith("out") or len(results) != len(written):
        return out
    if any(not isinstance(r, torch.Tensor) for r in results):
        return out
    alike = all(r.shape == w.shape and r.dtype == w.dtype for r, w in zip(results, written, strict=True))
    if not alike or all(r is w for r, w in zip(results, written, strict=True)):
        return out
    return type(out)(written) if isinstance(out, (tuple, list)) else written[0]


def bound(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[torch.Argument, Any]]:
    """(schema argument, value) of every argument that was given."""
    for position, argument in enumerate(func._schema.arguments):
        if position < len(args):
            yield argument, args[position]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def is_written(func: OpOverload, args: Sequence[Any], position: int, argument: torch.Argument) -> bool:
    """Does the call write the operand at this schema position?"""
    if argument.alias_info is not None and argument.alias_info.is_write:
        return True
    return position in hidden_writes(str(func), tuple(args))


def operands(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """(values of written arguments, values of the others)."""
    writes: list[Any] = []
    reads: list[Any] = []
    for position, (argument, value) in enumerate(bound(func, args, kwargs)):
        (writes if is_written(func, args, position, argument) else reads).append(value)
    return writes, reads


def base_name(func: OpOverload) -> str:
    """``add_`` of ``aten::add_``."""
    return func._schema.name.split("::")[1]
