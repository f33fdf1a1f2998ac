"""What both front doors do: passes over a recorded graph, kernels of its segments, a plan that runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fusekit.errors import UnsupportedError
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.lower import CannotLower, Kernel, lower_segment
from fusekit.passes import PIPELINE, Pass
from fusekit.run.compile import compile_kernel
from fusekit.run.plan import Plan, make_plan
from fusekit.why import Explanation

BACKENDS = ("auto", "cpu")


@dataclass(frozen=True)
class Options:
    """How a function is compiled.

    ``backend``: "auto" (by the arguments' device) or "cpu". ``precision``: "eager" rounds where eager rounds.
    ``strict``: a library call where a kernel was expected is an error. ``passes``: the pipeline, in order.
    """

    backend: str = "auto"
    precision: str = "eager"
    strict: bool = False
    passes: tuple[Pass, ...] = field(default=PIPELINE, repr=False)

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            fix = f"use one of {', '.join(map(repr, BACKENDS))}"
            raise UnsupportedError(f"the backend {self.backend!r}", "Options(backend=...)", fix)
        if self.precision != "eager":
            raise UnsupportedError(f"the precision {self.precision!r}", "Options(precision=...)", 'use "eager"')


@dataclass(frozen=True)
class Step:
    """The graph after one pass, with what the pass said; the first step is the trace itself."""

    name: str
    graph: Graph
    explanations: tuple[Explanation, ...] = ()
    seconds: float = 0.0

    def __repr__(self) -> str:
        return f"<step {self.name}: {self.graph!r}, {len(self.explanations)} explanations>"


@dataclass(frozen=True)
class Compiled:
    """Kernels by segment, and why a pointwise segment has none."""

    kernels: Mapping[NodeId, Kernel]
    refused: Mapping[NodeId, str]


def run_passes(graph: Graph, options: Options, watch: Callable[[Step], None] | None = None) -> tuple[Step, ...]:
    """One step a pass, after the step ``trace``."""
    steps = [Step("trace", graph)]
    for one in options.passes:
        started = time.perf_counter()
        result = one(steps[-1].graph)
        steps.append(Step(one.name, result.graph, result.explanations, time.perf_counter() - started))
        if watch is not None:
            watch(steps[-1])
    if options.strict:
        _refuse_library_calls(steps)
    return tuple(steps)


def _refuse_library_calls(steps: list[Step]) -> None:
    graph = steps[-1].graph
    for segment in graph.segments():
        if graph.segment(segment).scheduler != "extern":
            continue
        op = graph.members(segment)[0]
        said = [e for step in steps for e in step.explanations if e.subject == (op,) and e.reason.name != "extern-call"]
        why = str(said[0].reason) if said else "a library call"
        fix = "leave out strict=True to run it as a library call"
        raise UnsupportedError(f"{graph.op(op).target} as a kernel ({why})", graph.op(op).origin or op, fix)


def lower_graph(graph: Graph) -> Compiled:
    """The kernel of every pointwise segment; one that cannot be lowered runs op by op, and says why."""
    kernels: dict[NodeId, Kernel] = {}
    refused: dict[NodeId, str] = {}
    for segment in graph.segments():
        if graph.segment(segment).scheduler != "pointwise":
            continue
        try:
            kernels[segment] = lower_segment(graph, segment)
        except CannotLower as refusal:
            refused[segment] = str(refusal)
    return Compiled(kernels, refused)


def plan_of(
    graph: Graph,
    compiled: Compiled,
    program: Graph | None = None,
    compile: Callable[[Kernel], Callable[..., None]] = compile_kernel,
) -> Plan:
    """Everything that a call does, prepared; compiles the kernels that the cache does not hold.

    ``program``: the graph as recorded, which still tells every write and which results are arguments.
    """
    return make_plan(graph, compiled.kernels, compile, lambda kernel: kernel.copies, program)
