"""Which programs eager's own loop order decides: they have no meaning but what eager happens to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ONE_VALUE = ("fill_", "zero_")
BY_INDEX = ("index_put_", "_index_put_impl_", "index_copy_", "scatter_", "put_")


@dataclass
class Watch(TorchDispatchMode):
    """Looks at every op of an eager run, element by element: for small tensors only.

    ``accidents``: ops that write an element twice, or that read one through another map than they write it.
    ``unordered``: ops on a list of tensors that share memory, which a GPU goes through at once. ``ops``: all that ran.
    """

    accidents: list[str] = field(default_factory=list)
    unordered: list[str] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        found = self._accident(func, args, kwargs)
        out = func(*args, **kwargs)
        self.ops.append(func._overloadpacket.__name__)
        if found:
            self.accidents.append(func._overloadpacket.__name__)
        return out

    def _accident(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        written, read = [], []
        for k, argument in enumerate(func._schema.arguments):
            value = args[k] if k < len(args) else kwargs.get(argument.name)
            leaves = [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
            is_written = argument.alias_info is not None and argument.alias_info.is_write
            (written if is_written else read).extend(leaves)
        name = func._overloadpacket.__name__
        if name.startswith("_foreach") and any(
            not covered(a).isdisjoint(covered(b)) for a, b in combinations(written, 2)
        ):
            self.unordered.append(name)
        if not written or any(torch.Tag.inplace_view == tag for tag in func.tags):
            return False
        if name not in ONE_VALUE and any(overlaps_itself(t) for t in written):
            return True
        if any(_meets_otherwise(t, other) for t in written for other in read):
            return True
        return name in BY_INDEX and not kwargs.get("accumulate") and _repeats(name, args)


@contextmanager
def watched() -> Iterator[Watch]:
    """``with watched() as watch``: what runs inside is looked at."""
    with Watch() as watch:
        yield watch


def addresses(tensor: torch.Tensor) -> torch.Tensor:
    """The address of each element, of the tensor's shape."""
    at = torch.full(tensor.shape, tensor.data_ptr(), dtype=torch.int64)
    for k, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        steps = torch.arange(size) * (stride * tensor.element_size())
        at = at + steps.reshape(-1, *[1] * (tensor.dim() - 1 - k))
    return at


def covered(tensor: torch.Tensor) -> set[int]:
    """The addresses of all bytes of its elements."""
    first = addresses(tensor).reshape(-1).tolist()
    return {at + byte for at in first for byte in range(tensor.element_size())}


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Do two of its elements share a byte?"""
    return len(covered(tensor)) < tensor.numel() * tensor.element_size()


def _meets_otherwise(written: torch.Tensor, read: torch.Tensor) -> bool:
    """Do they share a byte, and not as the same elements at the same positions?"""
    if not read.numel() or not written.numel() or _is_same(written, read):
        return False
    ends = [(t.data_ptr(), max(covered(t)) + 1) for t in (written, read)]
    if ends[0][1] <= ends[1][0] or ends[1][1] <= ends[0][0]:
        return False
    return not covered(written).isdisjoint(covered(read))


def _is_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    def axes(t: torch.Tensor) -> list[tuple[int, int]]:
        return [(n, s) for n, s in zip(t.shape, t.stride(), strict=True) if n > 1]

    return (a.data_ptr(), a.dtype, axes(a)) == (b.data_ptr(), b.dtype, axes(b))


def _repeats(name: str, args: Sequence[Any]) -> bool:
    """Is one place written twice, as far as one index tensor tells?"""
    indices = [leaf for leaf in tree_leaves(args[1:]) if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.int64]
    if not indices or len(indices) > 2:
        return False
    index = indices[0]
    if name == "scatter_" and index.dim():
        ordered = index.sort(args[1]).values
        return bool((ordered.diff(dim=args[1]) == 0).any())
    return index.unique().numel() < index.numel()
