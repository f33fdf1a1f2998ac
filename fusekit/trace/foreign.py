"""Ops of other libraries, whose stand-in kernels may give other layouts than the ops themselves.

Nobody can tell before they ran. The first call of a key therefore runs in eager and is watched; later ones are recorded
with the layouts that were seen there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from fusekit.trace.nested import mapped, tensors_in
from fusekit.trace.schema import operands

Layout = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]  # shape, strides (0 where they do not count), dtype
Seen = tuple[tuple[str, tuple[Layout, ...]], ...]  # (overload, layouts of its results) of each foreign call, in order

_OURS = frozenset(("aten", "prims", "prim", "profiler", "fusekit"))
_TRIALS = 3  # watched calls of one key before its layouts count as hanging on data
_KEPT = 1024


class Unobserved(Exception):
    """The recording failed after it had guessed the layout of a foreign result: only eager knows whether it must."""


def is_foreign(func: OpOverload) -> bool:
    """Is the overload none of torch's own?"""
    return func.namespace not in _OURS


def layout_of(t: torch.Tensor) -> Layout:
    """What another call of the op must give, to be the same."""
    shape = tuple(t.shape)
    strides = tuple(stride if size > 1 and t.numel() else 0 for size, stride in zip(shape, t.stride(), strict=True))
    return shape, strides, t.dtype


class Watch(TorchDispatchMode):
    """Runs a function in eager; notes what its foreign ops answer, and how many library calls there are."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[str, tuple[Layout, ...]]] = []
        self.calls = 0

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if is_foreign(func):
            self.rows.append((str(func), tuple(map(layout_of, tensors_in(out)))))
        is_view = any(a.alias_info is not None for a in func._schema.arguments)
        self.calls += not is_view or any(True for _ in tensors_in(operands(func, args, kwargs or {})[0]))
        return out


class Sightings:
    """What was seen, by key."""

    def __init__(self) -> None:
        self._seen: OrderedDict[object, Seen] = OrderedDict()
        self._trials: dict[object, int] = {}

    def of(self, key: object) -> Seen:
        """What the last watched call of the key saw; nothing where there was none."""
        return self._seen.get(key, ())

    def add(self, key: object, seen: Seen) -> None:
        self._seen[key] = seen
        self._trials[key] = self._trials.get(key, 0) + 1
        if len(self._seen) > _KEPT:
            gone, _ = self._seen.popitem(last=False)
            self._trials.pop(gone, None)

    def forget(self, key: object) -> None:
        """What was seen was not what came; the trials still count."""
        self._seen.pop(key, None)

    def move(self, old: object, new: object) -> None:
        """The key of a call has become another one, since more is known of what the function reads."""
        if old != new and old in self._seen:
            self._seen.setdefault(new, self._seen[old])

    def is_settled(self, key: object, seen: Seen) -> bool:
        """Do the layouts that a recording assumes agree with what was seen?"""
        return bool(self._seen.get(key)) and self._seen[key] == seen

    def is_hopeless(self, key: object) -> bool:
        """Did every trial see something else? Then the layouts hang on data, and eager it is."""
        return self._trials.get(key, 0) > _TRIALS


def restated(out: Any, wanted: Sequence[Layout]) -> Any:
    """A foreign call's fresh results as they were seen."""
    results = list(tensors_in(out))
    if len(results) != len(wanted):
        return out
    made = {id(t): empty(layout, t.device) for t, layout in zip(results, wanted, strict=True) if layout_of(t) != layout}
    return mapped(out, lambda t: made.get(id(t), t)) if made else out


def empty(layout: Layout, device: torch.device) -> torch.Tensor:
    """A tensor of that layout; strides that do not count are those of a dense one."""
    shape, strides, dtype = layout
    step, filled = 1, list(strides)
    for k in reversed(range(len(shape))):
        if not strides[k] and not (shape[k] > 1 and 0 not in shape):
            filled[k] = step
        step = max(step, filled[k] * max(shape[k], 1))
    return torch.empty_strided(shape, filled, dtype=dtype, device=device)
