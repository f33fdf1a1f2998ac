"""What is asked of a long program takes time in proportion to it: counted in walks, not in seconds."""

from __future__ import annotations

import pytest
import torch

import fusekit as fk
from fusekit.ids import NodeId
from fusekit.ir import Graph, Op


def many(count: int) -> fk.Exploration:
    def f(a: torch.Tensor) -> list[torch.Tensor]:
        return [(a * k).sin() for k in range(count)]

    return fk.explore(f, torch.rand(4))


def looks(x: fk.Exploration, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many payloads of ops ``summary`` asks for."""
    count, ask = 0, Graph.op

    def op(self: Graph, node: NodeId) -> Op:
        nonlocal count
        count += 1
        return ask(self, node)

    monkeypatch.setattr(Graph, "op", op)
    x.summary()
    monkeypatch.undo()
    return count


def test_a_summary_walks_the_graph_a_fixed_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    few, more = many(20), many(80)
    assert few.kernels and more.kernels
    assert looks(more, monkeypatch) < 6 * looks(few, monkeypatch)
