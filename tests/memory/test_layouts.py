"""Overlap, relations and hulls against sets of bytes, NumPy's solver and every element."""

import itertools
import random

import numpy as np
import pytest

from fusekit import dtypes
from fusekit.index import Form, Var, number_var
from fusekit.ir import Layout
from fusekit.memory import (
    Kind,
    Overlap,
    has_internal_overlap,
    hull,
    locate,
    meets,
    nested,
    overlap,
    relate,
    shared_bytes,
)

DTYPES = (dtypes.U8, dtypes.I16, dtypes.F32, dtypes.C64)
N, M = number_var(0, 4), number_var(1, 3)


def addresses(layout, env):
    """Byte address of every index."""
    start = layout.offset.evaluate(env)
    indices = itertools.product(*map(range, layout.shape))
    return {index: start + sum(s * i for s, i in zip(layout.strides, index, strict=True)) for index in indices}


def byte_set(layout, env):
    return {a + p for a in addresses(layout, env).values() for p in range(layout.dtype.width)}


def random_layout(rng):
    """Slices of a dense parent, permuted and flipped, or any strides at all (0, negative, overlapping)."""
    dtype = rng.choice(DTYPES)
    unit = rng.choice([1, dtype.width, dtype.width, dtype.width])
    dims = rng.randint(0, 3)
    if rng.random() < 0.6:
        parent = Layout.contiguous([rng.randint(1, 5) for _ in range(dims)], dtype)
        shape, strides = list(parent.shape), list(parent.strides)
        for k in range(dims):
            if rng.random() < 0.5:
                step = rng.choice([1, 2, -1])
                shape[k] = max(1, shape[k] // abs(step) - rng.randint(0, 1))
                strides[k] *= step
        order = rng.sample(range(dims), dims)
        shape, strides = [shape[k] for k in order], [strides[k] for k in order]
    else:
        shape = [0 if rng.random() < 0.03 else rng.randint(1, 5) for _ in range(dims)]
        strides = [rng.randint(-6, 12) * unit for _ in range(dims)]
    return Layout.of(rng.randint(0, 16) * unit, shape, strides, dtype)


def parameters_in(rng, layout):
    """The layout with parameters in its offset, by steps that may or may not be strides of it."""
    moves = [*layout.strides, layout.dtype.width, layout.dtype.width, 3]
    offset = layout.offset + Form.of(N) * rng.choice(moves)
    if rng.random() < 0.4:
        offset = offset + Form.of(M) * rng.choice(moves)
    return Layout(offset, layout.shape, layout.strides, layout.dtype)


def values():
    return [{N.name: n, M.name: m} for n in range(N.extent) for m in range(M.extent)]


def expected(a, b):
    if not a & b:
        return Overlap.DISJOINT
    if a == b:
        return Overlap.SAME
    return Overlap.CONTAINS if a > b else Overlap.WITHIN if a < b else Overlap.PARTIAL


def check_relation(layout, region, env):
    """Every digit, and every condition, at every element."""
    found = relate(layout, region)
    if found.kind is Kind.NONE:
        return
    here = {}
    for index, address in addresses(region, env).items():
        here.setdefault(address, set()).add(index)
    for index, address in addresses(layout, env).items():
        at = {**env, **{f"i{k}": i for k, i in enumerate(index)}}
        inside = all(0 <= guard.form.evaluate(at) < guard.extent for guard in found.guards)
        if found.kind is Kind.DISJOINT:
            inside = False
        assert inside == (address in here)
        if inside:
            assert tuple(form.evaluate(at) for form in found.index) in here[address]


def as_array(layout):
    """The layout as a NumPy view of one shared buffer."""
    dtype = {1: np.uint8, 2: np.int16, 4: np.float32, 8: np.complex64}[layout.dtype.width]
    buffer = np.ndarray(layout.shape, dtype, BUFFER, 1000 + layout.offset.const, layout.strides)
    return buffer


BUFFER = np.zeros(3000, np.uint8)


@pytest.mark.parametrize("seed", range(5))
def test_pairs_without_parameters(seed):
    rng = random.Random(seed)
    for _ in range(700):
        a, b = random_layout(rng), random_layout(rng)
        bytes_a, bytes_b = byte_set(a, {}), byte_set(b, {})
        assert overlap(a, b) is expected(bytes_a, bytes_b), (a, b)
        assert meets(a, b) is bool(bytes_a & bytes_b)
        assert shared_bytes(a, b) == len(bytes_a & bytes_b)
        assert meets(a, b) is np.shares_memory(as_array(a), as_array(b))
        check_relation(a, b, {})
        union = hull(a, b)
        if union is not None:
            assert byte_set(union, {}) == bytes_a | bytes_b


@pytest.mark.parametrize("seed", range(4))
def test_pairs_with_parameters_at_all_their_values(seed):
    rng = random.Random(100 + seed)
    for _ in range(200):
        a, b = parameters_in(rng, random_layout(rng)), random_layout(rng)
        if rng.random() < 0.3:  # what both offsets hold cancels
            b = Layout(b.offset + a.offset, b.shape, b.strides, b.dtype)
        found = {expected(byte_set(a, env), byte_set(b, env)) for env in values()}
        answer = overlap(a, b)
        assert (answer is Overlap.DISJOINT) == (found == {Overlap.DISJOINT}), (a, b)
        if answer in (Overlap.SAME, Overlap.CONTAINS):
            assert found <= {Overlap.SAME, Overlap.CONTAINS}
        if answer in (Overlap.SAME, Overlap.WITHIN):
            assert found <= {Overlap.SAME, Overlap.WITHIN}
        for env in values():
            check_relation(a, b, env)
            check_relation(b, a, env)


def test_internal_overlap_is_that_of_the_bytes():
    rng = random.Random(7)
    for _ in range(1500):
        layout = random_layout(rng)
        starts = sorted(addresses(layout, {}).values())
        twice = any(y - x < layout.dtype.width for x, y in itertools.pairwise(starts))
        assert has_internal_overlap(layout) == twice, layout
        if nested(layout) and layout.numel and not any(s == 0 for _, s in layout.axes()):
            assert not twice


def f32(offset, shape, strides):
    """A layout in elements of 4 bytes."""
    return Layout.of(4 * offset, shape, [4 * s for s in strides], dtypes.F32)


def test_large_layouts_need_no_enumeration():
    whole = f32(0, (100_000, 1031), (1031, 1))
    assert overlap(whole, f32(7, (100_000,), (1031,))) is Overlap.CONTAINS
    assert overlap(f32(7, (100_000,), (1031,)), whole) is Overlap.WITHIN
    assert overlap(f32(0, (100_000, 500), (1031, 1)), f32(500, (100_000, 531), (1031, 1))) is Overlap.DISJOINT
    assert overlap(f32(0, (100_000, 500), (1031, 1)), f32(400, (100_000, 531), (1031, 1))) is Overlap.PARTIAL
    assert overlap(whole, f32(0, (1031, 100_000), (1, 1031))) is Overlap.SAME
    assert overlap(f32(0, (50_000_000,), (2,)), f32(1, (50_000_000,), (2,))) is Overlap.DISJOINT


def test_a_spent_budget_is_unknown():
    a = Layout.of(0, (10, 10, 10, 10), (7919, 7907, 7901, 7883), dtypes.U8)
    b = Layout.of(3, (10, 10, 10, 10), (7877, 7873, 7867, 7853), dtypes.U8)
    assert meets(a, b, 0) is None
    assert overlap(a, b, 0) is Overlap.UNKNOWN
    assert relate(a, b).kind in (Kind.NONE, Kind.DISJOINT)


def test_rows_keep_plain_digits():
    whole, rows = f32(0, (8, 16), (16, 1)), f32(32, (4, 16), (16, 1))
    found = relate(whole, rows)
    i0, i1 = Form.of(Var("i0", 8)), Form.of(Var("i1", 16))
    assert found.kind is Kind.PARTIAL
    assert found.index == (i0 - 2, i1)
    assert [(g.form, g.extent) for g in found.guards] == [(i0 - 2, 4)]


def test_a_parameter_goes_into_the_shift():
    n = Form.of(number_var(0, 8))
    cache, row = f32(0, (8, 16), (16, 1)), Layout(n * 64, (16,), (4,), dtypes.F32)
    assert relate(row, cache).index == (n, Form.of(Var("i0", 16)))
    assert relate(row, cache).kind is Kind.INSIDE
    back = relate(cache, row)
    assert back.kind is Kind.PARTIAL
    assert [(g.form, g.extent) for g in back.guards] == [(Form.of(Var("i0", 8)) - n, 1)]
    assert overlap(cache, row) is Overlap.CONTAINS
    following = Layout(n * 64 + 64, (16,), (4,), dtypes.F32)
    assert overlap(row, following) is Overlap.DISJOINT


def test_locate_by_mixed_radix():
    flat = Form.of(Var("k", 24)) * 4
    found = locate(flat, f32(0, (4, 6), (6, 1)))
    assert found.kind is Kind.INSIDE
    for k in range(24):
        assert tuple(form.evaluate({"k": k}) for form in found.index) == divmod(k, 6)
    assert locate(flat, f32(0, (2, 3), (1, 1))).kind is Kind.NONE
    assert locate(flat, f32(0, (0, 3), (3, 1))).kind is Kind.DISJOINT


def test_hull_joins_boxes():
    assert hull(f32(0, (4, 6), (6, 1)), f32(12, (4, 6), (6, 1))) == f32(0, (6, 6), (6, 1))
    assert hull(f32(12, (4, 6), (6, 1)), f32(0, (4, 6), (6, 1))) == f32(0, (6, 6), (6, 1))
    assert hull(f32(0, (4, 6), (6, 1)), f32(8, (2, 2), (6, 1))) == f32(0, (4, 6), (6, 1)), "one holds the other"
    assert hull(f32(0, (2, 6), (6, 1)), f32(12, (2, 6), (6, 1))) is None, "they only touch"
    assert hull(f32(0, (3, 3), (6, 1)), f32(7, (3, 3), (6, 1))) is None, "a staircase"
    moving = Layout(Form.of(N) * 4, (4,), (4,), dtypes.F32)
    assert hull(moving, f32(0, (4,), (1,))) is None
