"""The algebra of layouts against torch: a view where torch gives one, in torch's strides, and a reason elsewhere."""

from __future__ import annotations

import random
from math import prod

import pytest
import torch

from fusekit.dtypes import F32
from fusekit.ir import Layout
from fusekit.memory import algebra
from fusekit.why import Reason

SHAPES = [(2, 3, 4), (4, 5, 6), (6, 4), (2, 2, 2, 3), (1, 4, 1, 3), (), (5,), (0, 3), (12,), (2, 0, 3)]


def layout_of(t: torch.Tensor) -> Layout:
    return Layout.of(t.storage_offset() * 4, t.shape, [s * 4 for s in t.stride()], F32)


def is_as(t: torch.Tensor, layout: Layout | Reason) -> bool:
    return layout == layout_of(t)


def shaken(rng: random.Random) -> torch.Tensor:
    """A tensor that was permuted, expanded, sliced and unsqueezed at random."""
    t = torch.empty(rng.choice(SHAPES))
    for kind in rng.choices(("permute", "expand", "slice", "unsqueeze"), k=rng.randint(0, 3)):
        if kind == "permute":
            t = t.permute(rng.sample(range(t.dim()), t.dim()))
        elif kind == "expand" and t.dim():
            t = t.expand(([2] if rng.random() < 0.3 else []) + [3 if n == 1 else n for n in t.shape])
        elif kind == "slice" and t.dim() and t.shape[0] > 1:
            t = t[rng.randrange(t.shape[0]) :: rng.choice((1, 2))]
        elif kind == "unsqueeze":
            t = t.unsqueeze(rng.randint(0, t.dim()))
    return t


def another_shape(numel: int, rng: random.Random) -> list[int]:
    """A random shape of as many elements."""
    shape: list[int] = [0, rng.randint(1, 3)] if not numel else []
    while numel > 1:
        n = rng.choice([d for d in range(2, numel + 1) if numel % d == 0])
        shape.insert(rng.randint(0, len(shape)), n)
        numel //= n
    for _ in range(rng.randint(0, 2)):
        shape.insert(rng.randint(0, len(shape)), 1)
    return shape


@pytest.mark.parametrize("seed", range(8))
def test_reshape_is_a_view_exactly_where_torch_says_so(seed: int) -> None:
    rng, seen = random.Random(seed), {True: 0, False: 0}
    for _ in range(400):
        t = shaken(rng)
        shape = another_shape(t.numel(), rng)
        try:
            view = t.view(shape)
        except RuntimeError:
            view = None
        made = algebra.reshape(layout_of(t), shape)
        assert isinstance(made, Reason) if view is None else is_as(view, made), (t.shape, t.stride(), shape, made)
        seen[view is None] += 1
    assert min(seen.values()) > 20


@pytest.mark.parametrize("seed", range(4))
def test_the_other_ops_have_torchs_layouts(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        t = shaken(rng)
        layout, d = layout_of(t), rng.randint(0, t.dim())
        assert is_as(t.unsqueeze(d), algebra.broadcast(layout, d))
        shape = [2] * rng.randint(0, 1) + [rng.choice((1, 3)) if n == 1 else n for n in t.shape]
        assert is_as(t.expand(shape), algebra.expand(layout, shape))
        if not t.dim():
            continue
        dims, d = rng.sample(range(t.dim()), t.dim()), rng.randrange(t.dim())
        assert is_as(t.permute(dims), algebra.permute(layout, dims))
        assert is_as(t.squeeze(d), algebra.squeeze(layout, d))
        if t.shape[d] > 1:
            part = t[(slice(None),) * d + (slice(1, None, 2),)]
            assert is_as(part, algebra.narrow(layout, d, 1, part.shape[d], 2))


@pytest.mark.parametrize("seed", range(4))
def test_split_and_merge_are_reshapes(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        t = shaken(rng)
        if t.dim() < 2 or not t.numel():
            continue
        layout, d = layout_of(t), rng.randrange(t.dim() - 1)
        shape = (*t.shape[:d], t.shape[d] * t.shape[d + 1], *t.shape[d + 2 :])
        merged, whole = algebra.merge(layout, d), algebra.reshape(layout, shape)
        assert isinstance(merged, Reason) == isinstance(whole, Reason)
        if isinstance(merged, Layout) and isinstance(whole, Layout):
            assert merged.axes() == whole.axes() and merged.offset == whole.offset
        factor = rng.choice((1, 2, 3))
        parts = algebra.split(layout, d, factor)
        assert isinstance(parts, Reason) == bool(t.shape[d] % factor)
        if isinstance(parts, Layout):
            assert layout_of(t.unflatten(d, (t.shape[d] // factor, factor))).is_same_map(parts)


def test_reasons_name_the_cause() -> None:
    gap = algebra.merge(layout_of(torch.empty(4, 6)[:, :5]), 0)
    assert isinstance(gap, Reason) and (gap.name, gap["stride"], gap["span"]) == ("merge-gap", 6, 5)
    turned = algebra.merge(layout_of(torch.empty(4, 6).t()), 0)
    assert isinstance(turned, Reason) and turned.name == "order-differs"
    expanded = layout_of(torch.empty(4, 5, 1).expand(4, 5, 6))
    for shape, name in (((4, 30), "merge-expanded"), ((40, 3), "split-expanded")):
        found = algebra.reshape(expanded, shape)
        assert isinstance(found, Reason) and found.name == name


def test_facts() -> None:
    dims = algebra.facts(layout_of(torch.empty(4, 6)[:, :5][:, None].expand(4, 3, 5)))
    assert [d.contiguous for d in dims] == [False, False, True]
    assert [d.expanded for d in dims] == [False, True, False]
    assert algebra.order(layout_of(torch.empty(2, 3, 4).permute(2, 0, 1))) == (1, 2, 0)
    assert prod(d.extent for d in dims) == 60
