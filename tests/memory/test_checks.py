"""Eager's memory errors, asked of eager."""

import random

import pytest
import torch

from fusekit.ir import Layout
from fusekit.memory import as_strided_error, is_dense, is_expanded, memory_error
from fusekit.torch_types import FROM_TORCH


def layout_of(t):
    width = t.element_size()
    return Layout.of(t.storage_offset() * width, t.shape, [s * width for s in t.stride()], FROM_TORCH[t.dtype])


def random_view(rng, base):
    shape = [rng.randint(1, 4) for _ in range(rng.randint(0, 3))]
    strides, step = [], 1
    for n in shape[::-1]:
        strides.insert(0, rng.choice([step, step, step, 0, rng.randint(1, 6)]))
        step *= n
    order = rng.sample(range(len(shape)), len(shape))
    return base.as_strided([shape[k] for k in order], [strides[k] for k in order], rng.randint(0, 8))


def accepted(call):
    try:
        call()
    except RuntimeError as error:
        return "to a single memory location" not in str(error)
    return True


@pytest.mark.parametrize("seed", range(3))
def test_in_place_ops_raise_what_the_rules_say(seed):
    rng = random.Random(seed)
    refused = 0
    for _ in range(400):
        base = torch.rand(80)
        a, b = random_view(rng, base), random_view(rng, base)
        if list(torch.broadcast_shapes(a.shape, (1,) * a.dim())) != list(a.shape) or not fits(b, a):
            continue
        error = memory_error("add_", layout_of(a), [(layout_of(b), False)])
        assert (error is None) == accepted(lambda a=a, b=b: a.add_(b)), (layout_of(a), layout_of(b), error)
        refused += error is not None
    assert refused > 20


def fits(b, a):
    try:
        return torch.broadcast_shapes(a.shape, b.shape) == a.shape
    except RuntimeError:
        return False


def test_dense_and_expanded_are_eagers():
    rng = random.Random(3)
    for _ in range(300):
        t = random_view(rng, torch.zeros(200))
        assert is_dense(layout_of(t)) == torch.ops.aten.is_non_overlapping_and_dense(t)
        assert is_expanded(layout_of(t)) == (not accepted(lambda t=t: t.exp_()))


def test_ops_with_rules_of_their_own():
    v = torch.rand(4, 4)
    wide = v[0].expand(4, 4)
    whole, expanded = layout_of(v), layout_of(wide)
    assert memory_error("fill_", expanded, scalar=True) is None and accepted(lambda: wide.fill_(1))
    assert memory_error("masked_fill_", expanded, scalar=True) is None
    assert memory_error("index_copy_", whole, [(layout_of(v[1:3]), False)])
    assert not accepted(lambda: v.index_copy_(0, torch.tensor([0, 1]), v[1:3]))
    assert memory_error("add_", whole, [(whole, True)]) is None and accepted(lambda: v.add_(v))
    assert memory_error("scatter_", whole, [(whole, True)])
    assert memory_error("copy_", whole, [(layout_of(v.view(torch.int32)), False)]) is None
    assert accepted(lambda: v.copy_(v.view(torch.int32)))
    assert memory_error("add_", whole, [(layout_of(v.t()), False)]) and not accepted(lambda: v.add_(v.t()))
    assert memory_error("copy_", layout_of(v[:, 1:]), [(layout_of(v[:, :-1]), False)]) is None


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [((2, 2), (2, 1), 0), ((2, 2), (9, 1), 0), ((2,), (-1,), 3), ((0, 9), (9, 9), 4), ((3,), (1,), 8)],
)
def test_as_strided_beyond_the_storage(shape, strides, offset):
    t = torch.zeros(10)
    error = as_strided_error(shape, strides, offset, 4, 40)
    if error is None:
        t.as_strided(shape, strides, offset)
    else:
        with pytest.raises(RuntimeError, match=error.split(":")[0]):
            t.as_strided(shape, strides, offset)
