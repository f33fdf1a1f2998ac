"""The graph after every pass, each as a callable that the interpreter runs: what tells which pass broke a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

import torch
from torch.utils._pytree import tree_leaves

from fusekit.ir import Graph
from fusekit.run.decode import symbols
from fusekit.run.interpret import interpret
from fusekit.trace.record import record
from fusekit.trace.recording import Capture, Recording

Pass = Callable[[Graph], object]


def stages(
    fn: Callable[..., object], passes: Sequence[object] | None = None
) -> Iterator[tuple[str, Callable[..., object]]]:
    """("trace", f), then (name of the pass, f) for each pass, where f interprets the graph after it."""
    if passes is None:
        from fusekit.passes import PIPELINE as passes
    yield "trace", interpreted(fn)
    for done in accumulate(([one] for one in passes), lambda before, one: before + one):
        yield done[-1].name, interpreted(fn, done)


def interpreted(fn: Callable[..., object], passes: Sequence[object] = ()) -> Callable[..., object]:
    """``fn`` recorded at each call, its graph sent through the passes, and run op by op."""

    def call(*args: object, **kwargs: object) -> object:
        recording = record(fn, args, kwargs)
        graph = recording.graph
        for one in passes:
            graph = one(graph).graph  # type: ignore[operator]
        return run_recording(recording, graph, args, kwargs)

    call.__name__ = getattr(fn, "__name__", "function")
    return call


def captured(
    fn: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> list[tuple[str, torch.Tensor]]:
    """Path and tensor of everything that the function reads beside its arguments; none where it can't be recorded."""
    try:
        recording = record(fn, args, kwargs)
    except Exception:  # what eager, or the recorder, says is found by the comparison itself
        return []
    return [(s.entry.path, s.entry.read()) for s in recording.inputs if isinstance(s, Capture)]


def run_recording(
    recording: Recording, graph: Graph, args: Sequence[object], kwargs: Mapping[str, object] | None = None
) -> object:
    """Interpret a graph made from a recording on the arguments of a call; the result as the function gives it."""
    call = tuple(args), dict(kwargs or {})
    leaves = tree_leaves(call)
    with torch.no_grad():
        found = interpret(graph, recording.tensors(leaves), (), symbols(recording.objects, leaves), recording.graph)
    pairs = zip(recording.outputs, found, strict=True)
    return recording.result([one.value if one.operand is None else value for one, value in pairs], call)
