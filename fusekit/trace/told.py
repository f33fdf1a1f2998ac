"""What library calls gave, where their stand-ins say otherwise: every later recording believes the calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from fusekit.trace.foreign import Layout, empty, layout_of
from fusekit.trace.nested import tensors_in
from fusekit.trace.oracle import mixed_answer
from fusekit.trace.schema import bound

Question = tuple[Any, ...]  # the overload, and what it was called with
Room = Callable[[torch.Tensor], int]
Answer = tuple[Layout | None, ...]  # of each result; None for one that is no tensor

_KEPT = 1024
_told: OrderedDict[Question, Answer] = OrderedDict()


def question(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Question:
    """A call as far as layouts, element types and numbers go."""
    return func, tuple([(argument.name, _seen(value)) for argument, value in bound(func, args, kwargs)])


def _seen(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return layout_of(value), value.device
    return tuple(map(_seen, value)) if isinstance(value, (list, tuple)) else repr(value)


def results_in(out: Any) -> list[torch.Tensor | None]:
    """The results of a call in order, with None for one that was not asked for."""
    if out is None or isinstance(out, torch.Tensor):
        return [out]
    return [found for item in out for found in results_in(item)] if isinstance(out, (list, tuple)) else []


def answer(out: Any) -> Answer:
    """What a call gave."""
    return tuple([None if t is None else layout_of(t) for t in results_in(out)])


def learn(asked: Question, gave: Answer) -> bool:
    """Keep what a call gave. False where the same call has given something else, or was believed already: then what
    it gives hangs on data."""
    is_new = asked not in _told
    _told[asked] = gave
    if len(_told) > _KEPT:
        _told.popitem(last=False)
    return is_new


def as_told(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any, room: Room) -> Any:
    """A call's results as such a call gave them, if one ever gave other ones than its stand-in. ``room``: bytes of a
    tensor's storage."""
    if any(result.alias_info is not None for result in func._schema.returns):
        return out
    asked = question(func, args, kwargs)
    gave = _told.get(asked)
    if gave is None and (eager := mixed_answer(func, args, kwargs, room)) is not None:
        gave = answer(eager)
        learn(asked, gave)
    if gave is None or gave == answer(out):
        return out
    stood = results_in(out)
    device = next((t.device for t in (*tensors_in(out), *tensors_in([list(args), dict(kwargs)]))), torch.device("cpu"))
    stood += [None] * (len(gave) - len(stood))
    made = [
        None if layout is None else t if t is not None and layout_of(t) == layout else empty(layout, device)
        for t, layout in zip(stood, gave, strict=False)
    ]
    return made[0] if len(func._schema.returns) == 1 and len(made) == 1 else tuple(made)
