"""Reshapes that merge move below what is computed after them: one space, one kernel, the bytes that must be."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import fusekit as fk
from fusekit.ir import Graph, print_graph
from fusekit.testing import differential


def group_norm(x, w, b):
    n, c, h, k = x.shape
    y = x.view(n, 8, c // 8, h, k)
    var, mean = torch.var_mean(y, dim=(2, 3, 4), keepdim=True, correction=0)
    y = ((y - mean) * torch.rsqrt(var + 1e-5)).view(n, c, h, k)
    return F.silu(y * w[None, :, None, None] + b[None, :, None, None])


def with_residual(x, w, b):
    return group_norm(x, w, b) + x


def into_place(x, w, b):
    x.copy_(group_norm(x, w, b))
    return x


def for_a_call(x, w, b):
    return torch.cumsum(group_norm(x, w, b), 1)


def two_outputs(x, w, b):
    y = group_norm(x, w, b)
    return y, y.exp()


def permuted(x, w, b):
    return group_norm(x, w, b).permute(0, 2, 3, 1)


def reads_its_shape(x, w, b):
    y = x.view(x.shape[0], 8, -1, *x.shape[2:]).sin().view(x.shape) * w[:, None, None]
    return y, y.sum(1)


SUNK = [group_norm, with_residual, into_place, for_a_call, two_outputs, permuted]


def args(n: int = 2, c: int = 24, h: int = 7) -> tuple[torch.Tensor, ...]:
    return torch.randn(n, c, h, 9), torch.randn(c), torch.randn(c)


def divisions(graph: Graph) -> int:
    """Windows with a division or a remainder in their index."""
    windows = [line for line in print_graph(graph, lines=False).splitlines() if "fk.window" in line]
    return sum("//" in line or "%" in line.partition("index=")[2] for line in windows)


@pytest.mark.parametrize("fn", [*SUNK, reads_its_shape], ids=lambda f: f.__name__)
def test_right_with_the_pass_and_without(fn: Callable[..., object]) -> None:
    x = fk.explore(fn, *args())
    for name, report in x.check_steps().items():
        assert report.ok, f"after {name}\n{report}"
    assert x.check().ok
    assert x.what_if(without="sink-reshapes").check().ok
    assert differential(fn, fk.jit(fn), args()).ok


@pytest.mark.parametrize("fn", SUNK, ids=lambda f: f.__name__)
def test_nothing_is_divided(fn: Callable[..., object]) -> None:
    x = fk.explore(fn, *args())
    assert divisions(x["functionalize"].graph) > 0 == divisions(x["sink-reshapes"].graph)
    assert [e.reason.name for e in x["sink-reshapes"].explanations if e.verdict == "did"]


def test_the_flagship_is_one_kernel_and_the_least_bytes() -> None:
    x = fk.explore(group_norm, *args(2, 32, 16)).summary()
    assert (x.kernels, x.extern_calls, x.copies, x.alias_segments) == (1, 0, 0, 1)
    assert x.bytes_moved == x.bytes_least


def test_ids_stay() -> None:
    x = fk.explore(group_norm, *args())
    before, after = x["tidy"].graph, x["sink-reshapes"].graph
    for op in before.ops():
        if before.op(op).target.startswith("aten."):
            assert op in after and after.op(op).target == before.op(op).target


def test_what_needs_the_shape_says_so() -> None:
    x = fk.explore(reads_its_shape, *args())
    refused = [e for e in x["sink-reshapes"].explanations if e.verdict == "declined"]
    assert [e.reason.name for e in refused] == ["needed-in-its-shape"] and refused[0].reason["op"] == "fk.reduce"


def test_only_a_split_comes_for_free() -> None:
    """A reshape that splits is not moved: its inverse would merge."""

    def f(x, w):
        return (x - x.mean(1, keepdim=True)).view(4, 3, 10) * w

    x = fk.explore(f, torch.randn(12, 10), torch.randn(3, 10))
    assert not x["sink-reshapes"].explanations and x.check().ok
