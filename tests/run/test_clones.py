"""Clones share memory as the originals do, and nothing with them."""

import numpy as np
import torch

from fusekit.run.clones import clones
from fusekit.testing.generate import random_program


def overlaps(tensors: list[torch.Tensor]) -> list[int]:
    return [t.data_ptr() - tensors[0].data_ptr() if t.numel() else 0 for t in tensors]


def test_layouts_objects_and_kinds_are_kept() -> None:
    x = torch.randn(4, 3)
    tensors = [
        x, x[1], x, x.t(), torch.nn.Parameter(torch.ones(2)), torch.zeros(0), torch.arange(3).expand(2, 3),
        torch.ones(2, requires_grad=True), torch.randn(8).view(torch.int32), x.as_strided((2,), (1,), 7),
    ]  # fmt: skip
    copies = clones(tensors)
    for one, copy in zip(tensors, copies, strict=True):
        assert type(one) is type(copy) and one.shape == copy.shape and one.stride() == copy.stride()
        assert one.storage_offset() == copy.storage_offset() and torch.equal(one, copy)
        assert one.untyped_storage().nbytes() == copy.untyped_storage().nbytes()
        assert (one.requires_grad, one.is_leaf) == (copy.requires_grad, copy.is_leaf)
    assert copies[2] is copies[0] and copies[1]._base is copies[0]
    copies[1].fill_(9)
    assert copies[0][1].tolist() == [9, 9, 9] and not torch.equal(x[1], copies[1])


def test_two_storages_over_one_array() -> None:
    array = np.arange(10, dtype=np.float32)
    first, second = clones([torch.from_numpy(array), torch.from_numpy(array[3:])])
    before = first._version, second._version
    second.fill_(-1)
    assert first.tolist() == [0, 1, 2] + [-1] * 7 and array[3] == 3
    assert second.storage_offset() == 0 and (first._version, second._version) == (before[0], before[1] + 1)


def test_inference_tensors() -> None:
    with torch.inference_mode():
        x = torch.ones(3)
    (copy,) = clones([x])
    assert copy.is_inference() and torch.equal(copy, x)


def test_random_arguments_keep_their_distances() -> None:
    for seed in range(40):
        tensors = random_program(seed, steps=0).make()
        same = [t for t in tensors if t.untyped_storage().data_ptr() == tensors[0].untyped_storage().data_ptr()]
        assert overlaps(same) == overlaps(clones(same))
