"""A function's functional graph, with reductions as values, interpreted and held against eager."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fusekit.ir import Graph, parse, print_graph
from fusekit.passes import AliasGroups, Functionalize
from fusekit.run.closeness import Tolerance
from fusekit.testing.differential import differential
from fusekit.testing.stages import interpreted
from fusekit.trace.record import record

PASSES = (AliasGroups(), Functionalize(reduce=True))


def functional(fn: Callable[..., object], *args: object) -> Graph:
    """The graph after functionalize."""
    with torch.no_grad():
        graph = record(fn, args).graph
    for one in PASSES:
        graph = one(graph).graph
    return graph


def targets(graph: Graph) -> list[str]:
    return [graph.op(op).target for op in graph.ops()]


def library_calls(graph: Graph) -> list[str]:
    """What torch runs itself: ops on places, but for views."""
    return [
        graph.op(op).target
        for op in graph.ops()
        if not graph.op(op).target.startswith("fk.")
        and not any(graph.is_value(t) for t in graph.results(op))
        and (graph.op(op).writes or not _is_view(graph, op))
    ]


def _is_view(graph: Graph, op: str) -> bool:
    homes = {graph.block_of(t) for t in graph.operands(op)}
    return bool(homes) and all(graph.block_of(t) in homes for t in graph.results(op))


def agree(
    fn: Callable[..., object], *args: object, calls: int = 0, rtol: float | None = None, atol: float | None = None
) -> Graph:
    """Assert that the functional graph does what eager does, has ``calls`` library calls, and survives its text."""
    with torch.no_grad():
        report = differential(fn, interpreted(fn, PASSES), args, tolerance=Tolerance(rtol, atol), title=str(fn))
        assert report.ok, report
        graph = functional(fn, *args)
    assert parse(print_graph(graph)) == graph
    found = library_calls(graph)
    assert len(found) == calls, found
    return graph


def raises_alike(fn: Callable[..., object], *args: object) -> None:
    """Assert that eager raises, and that the graph raises the same class and text and leaves the same memory."""
    with torch.no_grad():
        report = differential(fn, interpreted(fn, PASSES), args, title=str(fn))
    assert report.ok, report


def message(fn: Callable[..., object], *args: object) -> str:
    """Class and text of what a call raises."""
    try:
        with torch.no_grad():
            fn(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"
