"""Library calls that give other tensors than their stand-ins: the call is made again, as if nothing had been."""

import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fusekit as fk
from fusekit.trace import told
from tests.dynamo.differ import drawn


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    monkeypatch.setattr(told, "_told", type(told._told)())


TABLE = torch.linspace(-1, 1, 28).reshape(7, 4).bfloat16()
ROWS, OFFSETS = torch.tensor([1, 2, 6, 2]), torch.tensor([0, 1])


def bags(rows, offsets):
    """Sums of rows, and what a CPU leaves out of the side results that stand-ins tell for halves."""
    found, counts, sizes, _ = torch.ops.aten._embedding_bag(TABLE, rows, offsets)
    return found, counts, sizes


def same(want, got):
    return len(want) == len(got) and all(
        torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(want, got, strict=True)
    )


def test_what_a_call_gave_is_believed():
    compiled = fk.jit(bags)
    for _ in range(3):
        assert same(bags(ROWS, OFFSETS), compiled(ROWS, OFFSETS))
    assert compiled.cache_info().recordings == 2
    other = fk.jit(lambda rows, offsets: bags(rows, offsets)[1:])  # knows it by now
    assert same(bags(ROWS, OFFSETS)[1:], other(ROWS, OFFSETS))
    assert other.cache_info().recordings == 1


def test_writes_and_random_numbers_happen_once():
    def fn(rows, offsets, count, table, generator):
        count.add_(1)
        noise = torch.rand(2, 4)
        table[1:].mul_(noise[:, :1])
        own = torch.rand(2, 4, generator=generator)
        return *bags(rows, offsets), F.dropout(noise, 0.5), own

    compiled, seen = fk.jit(fn), []
    for call in (fn, compiled):
        count, table, generator = torch.zeros(()), torch.ones(3, 2), torch.Generator().manual_seed(4)
        torch.manual_seed(1)
        results = [t for _ in range(3) for t in call(ROWS, OFFSETS, count, table, generator)]
        states = drawn(), generator.get_state().tolist(), count._version, table._version
        seen.append(([*results, count, table], states))
    assert compiled.cache_info().recordings == 2
    assert same(seen[0][0], seen[1][0]) and seen[0][1] == seen[1][1]


def test_the_memory_of_this_calls_numbers_is_put_back():
    def fn(rows, offsets, table, first):
        table[first : first + 2].add_(1)
        return bags(rows, offsets)

    compiled, want, got = fk.jit(fn), torch.zeros(9), torch.zeros(9)
    for first in (0, 3, 6, 5, 1):
        if first == 5:
            told._told.clear()
        fn(ROWS, OFFSETS, want, first)
        compiled(ROWS, OFFSETS, got, first)
        assert torch.equal(want, got)


def test_an_answer_that_changes_is_refused_before_anything_happened(monkeypatch):
    monkeypatch.setattr(sys.modules["fusekit.jit"], "learn", lambda asked, gave: False)
    count = torch.zeros(())
    with pytest.raises(fk.UnsupportedError, match="_embedding_bag"):
        fk.jit(lambda rows, offsets, count: (count.add_(1), *bags(rows, offsets)))(ROWS, OFFSETS, count)
    assert count == 0 and count._version == 0


@pytest.mark.parametrize("layer", [nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.BatchNorm1d(4)])
def test_statistics_of_halves_with_float_weights_are_floats(layer):
    """A fused norm gives them itself: nobody would notice what the op gives."""
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1)).bfloat16()
    ops = {"LayerNorm": torch.native_layer_norm, "GroupNorm": torch.native_group_norm}

    def fn(x):
        kind = type(layer).__name__
        if kind == "LayerNorm":
            return ops[kind](x, (4,), layer.weight, layer.bias, layer.eps)
        if kind == "GroupNorm":
            return ops[kind](x, layer.weight, layer.bias, 6, 4, 1, 2, layer.eps)
        return torch.native_batch_norm(x, layer.weight, layer.bias, None, None, True, 0.1, layer.eps)

    with torch.no_grad():
        want, got = fn(x), fk.jit(fn)(x)
    assert [t.dtype for t in got] == [t.dtype for t in want] == [torch.bfloat16, torch.float32, torch.float32]
    for one, other in zip(want, got, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-2, atol=1e-2)


def test_a_result_that_nobody_reads_is_not_looked_at():
    def fn(slope, x, w, mean, rstd):
        mask = [False, True, True]
        return torch.ops.aten.native_batch_norm_backward(slope, x, w, None, None, mean, rstd, True, 1e-5, mask)[1:]

    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    args = torch.ones(6, 4), x, torch.ones(4), x.mean(0), x.var(0).rsqrt()
    compiled = fk.jit(fn)
    for want, got in zip(fn(*args), compiled(*args), strict=True):
        torch.testing.assert_close(got, want)
    assert compiled.cache_info().recordings == 1
