"""Private copies of tensors that share memory exactly as the originals do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fusekit.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class _Range:
    """The bytes of one storage object."""

    low: int
    high: int
    storage: torch.UntypedStorage


def clones(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """A clone of each tensor, with its layout, ``requires_grad`` and class (Parameter or Tensor).

    Storages whose byte ranges meet get one buffer, with the same displacement and alignment within 64 bytes, so that
    tensors overlap exactly as they did; bytes that no tensor covers are copied too. The same object twice is one clone,
    and views of one base are views of that base's clone, with its version counter.
    """
    copier = _Copier(tensors)
    return [copier.clone(tensor) for tensor in tensors]


class _Copier:
    def __init__(self, tensors: Sequence[torch.Tensor]):
        self.storages: dict[int, torch.UntypedStorage] = {}
        self.done: dict[int, torch.Tensor] = {}
        by_device: dict[torch.device, dict[int, _Range]] = {}
        for tensor in tensors:
            storage = tensor.untyped_storage()
            low = storage.data_ptr()
            by_device.setdefault(tensor.device, {})[storage._cdata] = _Range(low, low + storage.nbytes(), storage)
        for device, ranges in by_device.items():
            for group in _groups(list(ranges.values())):
                self._copy(group, device)

    def _copy(self, group: list[_Range], device: torch.device) -> None:
        low, high = group[0].low, max(one.high for one in group)
        shift = low % 64  # a new buffer begins at a multiple of 64: keep the alignment that the original has
        with torch.inference_mode(False), torch.no_grad():
            buffer = torch.zeros(high - low + shift, dtype=torch.uint8, device=device)
            for one in group:
                begin = one.low - low + shift
                buffer[begin : begin + one.high - one.low].copy_(_flat(one.storage, device))
        for one in group:
            begin = one.low - low + shift
            only = len(group) == 1 and not shift
            self.storages[one.storage._cdata] = (
                buffer.untyped_storage() if only else _part(buffer, begin, begin + one.high - one.low)
            )

    def clone(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self.done:
            self.done[id(tensor)] = self._new(tensor)
        return self.done[id(tensor)]

    def _new(self, tensor: torch.Tensor) -> torch.Tensor:
        inference = tensor.is_inference()
        base = None if inference else tensor._base
        if base is not None and base.dtype == tensor.dtype:
            return self._view(tensor, self.clone(base))
        storage = self.storages[tensor.untyped_storage()._cdata]
        with torch.inference_mode(inference):
            empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            out = empty.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(out, requires_grad=tensor.requires_grad)
        return out.requires_grad_() if tensor.requires_grad else out

    def _view(self, tensor: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(tensor.requires_grad and not tensor.is_leaf):
            out = base.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        return out.requires_grad_() if tensor.requires_grad and tensor.is_leaf else out


def _part(buffer: torch.Tensor, begin: int, end: int) -> torch.UntypedStorage:
    """A storage object over bytes ``begin`` to ``end`` of a buffer: storage offsets must stay what they are."""
    if buffer.device.type != "cpu":
        raise UnsupportedError("copying tensors of several storage objects that overlap on a GPU")
    return torch.from_numpy(buffer.numpy()[begin:end]).untyped_storage()


def _groups(ranges: list[_Range]) -> list[list[_Range]]:
    """Ranges that meet, together, each group in ascending order; an empty storage is a group of its own."""
    out: list[list[_Range]] = []
    high = -1
    for one in sorted(ranges, key=lambda r: (r.low, -r.high)):
        if one.low < high and one.low < one.high:
            out[-1].append(one)
        else:
            out.append([one])
        high = max(high, one.high)
    return out


def _flat(storage: torch.UntypedStorage, device: torch.device) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage, 0, (storage.nbytes(),), (1,))
