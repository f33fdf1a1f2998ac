"""Segments of random programs: their order respects every edge, so no cycle can be; equal programs give equal text, in
any process."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import fusekit as fk
from fusekit.ir import INPUT, RETURN, Graph
from fusekit.passes.base import is_view

Tensors = list[torch.Tensor]
OPS: dict[str, Callable[..., torch.Tensor]] = {
    "neg": lambda a, b: a.neg(),
    "cast": lambda a, b: a.to(torch.bfloat16).float(),
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "row": lambda a, b: a - a.mean(1, keepdim=True) + b,
    "column": lambda a, b: a * b.amax(0),
    "swap": lambda a, b: (a + 1).t().contiguous().t(),
    "shift": lambda a, b: torch.cat([a[1:], b[:1]], 0),
    "cut": lambda a, b: fk.cut(a),
    "call": lambda a, b: a.cumsum(1),
    "write": lambda a, b: a.add_(b),
    "write_part": lambda a, b: (a[1:3].copy_(b[:2] * 2), a)[1],
}


def program(seed: int) -> Callable[..., object]:
    """6 to 24 ops over three arguments of one shape; a third of the values come back."""
    choose = random.Random(seed)
    steps = [(choose.choice(list(OPS)), choose.random(), choose.random()) for _ in range(choose.randint(6, 24))]
    kept = [choose.random() < 0.35 for _ in steps]

    def f(*args: torch.Tensor) -> Tensors:
        pool = list(args)
        for name, first, second in steps:
            pool.append(OPS[name](pool[int(first * len(pool))], pool[int(second * len(pool))]))
        return [t for t, keep in zip(pool[3:], kept, strict=True) if keep] or pool[-1:]

    return f


def arguments() -> Tensors:
    return [torch.linspace(-1, 1, 35).roll(k).reshape(5, 7) for k in range(3)]


def out_of_order(graph: Graph) -> list[str]:
    """Edges from a later segment to an earlier one, and ops that nothing runs."""
    at = {segment: k for k, segment in enumerate(graph.segments())}
    problems = [
        f"{first} in {a} must not follow {then} in {b}"
        for first, then, _ in graph.orderings()
        for a in graph.segments_of(first)
        for b in graph.segments_of(then)
        if at[a] > at[b]
    ]
    for op in graph.ops():
        homes = graph.segments_of(op)
        if not homes and graph.op(op).target not in (INPUT, RETURN):
            problems.append(f"{op} {graph.op(op).target} is in no segment")
        for tensor in graph.operands(op):
            if is_view(graph, op) or not graph.has_producer(tensor):
                continue
            maker = graph.producer(tensor)
            if graph.is_value(tensor):
                problems += [f"{home} lacks {maker}" for home in homes if home not in graph.segments_of(maker)]
            elif not is_view(graph, maker):
                makers = graph.segments_of(maker)
                problems += [f"{maker} follows {op}" for h in homes if any(at[m] > at[h] for m in makers)]
    return problems


@pytest.mark.parametrize("seed", range(40))
def test_every_edge_points_forward(seed: int) -> None:
    x = fk.explore(program(seed), *arguments())
    assert out_of_order(x["segment"].graph) == []
    assert out_of_order(x.graph) == []
    report = x.check_steps()[x.steps[-1].name]
    assert report.ok, report


def texts() -> str:
    return "\n".join(fk.explore(program(seed), *arguments()).text() for seed in range(12))


def test_one_program_has_one_text_in_every_process(root: Path) -> None:
    code = "from tests.behaviours.test_random import texts; print(texts())"
    found = {texts()}
    for seed in ("0", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        run = subprocess.run([sys.executable, "-c", code], env=environment, cwd=root, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        found.add(run.stdout.removesuffix("\n"))
    assert len(found) == 1
