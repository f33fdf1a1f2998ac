"""A tiny replay of recorded calls with torch, and photographs of what a function can reach."""

import contextlib
import random
import sys
from collections.abc import Callable, Iterable, Sequence

import torch
from torch.utils._pytree import tree_flatten

from fusekit.run.interpret import interpret
from fusekit.trace import Recording, record


def run_graph(
    recording: Recording, args: Sequence[object], kwargs: dict | None = None, numbers: Sequence = ()
) -> object:
    """The recording's graph on these arguments, op by op."""
    leaves, _ = tree_flatten((tuple(args), dict(kwargs or {})))
    objects = {
        symbol: leaves[value] if symbol.startswith("leaf:") else value for symbol, value in recording.objects.items()
    }
    with torch.no_grad() if recording.grad else contextlib.nullcontext():
        flat = interpret(recording.graph, recording.tensors(leaves), numbers, objects)
    outputs = [
        value if output.operand is not None else output.value
        for value, output in zip(flat, recording.outputs, strict=True)
    ]
    return recording.result(outputs, (args, kwargs or {}))


def replayed(fn: Callable) -> Callable:
    """``fn`` recorded anew at each call, and its graph run instead."""

    def call(*args: object, **kwargs: object) -> object:
        return run_graph(record(fn, args, kwargs), args, kwargs)

    return call


def photograph(tensors: Iterable[torch.Tensor]) -> list[object]:
    """Everything of these tensors, and of torch's and Python's global state, that a recording must leave alone."""
    rows: list[object] = [_row(t) for t in tensors]
    rows += [torch.get_rng_state().tolist(), random.getstate(), torch.is_grad_enabled(), sys.getprofile()]
    rows += [torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled(), torch.get_default_dtype()]
    return [*rows, torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()]


def _row(t: torch.Tensor) -> tuple[object, ...]:
    storage = t.detach().untyped_storage()
    raw = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,)).tolist()
    grad = id(t.grad) if t.is_leaf else None
    facts = (id(t), tuple(t.shape), t.stride(), t.storage_offset(), t.dtype, t.requires_grad, t.is_leaf, grad)
    return (*facts, raw, t._version, storage.data_ptr(), len(t._backward_hooks or ()))
