"""What both front doors do: passes over a recorded graph, kernels of its segments, a plan that runs them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from fusekit.errors import FusekitError, InvalidGraph, UnsupportedError
from fusekit.escape import line
from fusekit.ids import NodeId
from fusekit.ir import PROGRAM, Graph, Invariant, PassResult
from fusekit.kinds import FLAG, a, expect, maybe
from fusekit.lower import CannotLower, Kernel, lower_segment, lowers
from fusekit.lower.kernel import Precision
from fusekit.memory.segment_rules import unwritten_reads
from fusekit.passes import PIPELINE, AliasGroups, Functionalize, Pass, SchedulePass, SegmentOps, UserPass, as_pass
from fusekit.run.bind import hold
from fusekit.run.compile import compile_kernel
from fusekit.run.cuda import describe, device_count
from fusekit.run.cuda import kernel as cuda
from fusekit.run.cuda.simulated import simulated_kernel
from fusekit.run.meta import ops_give_what_they_say
from fusekit.run.plan import Plan, make_plan
from fusekit.schedule import Scheduler, Target, fitted, segment_target
from fusekit.why import Explanation, Trial

_NOT_YET = {"random": "eager", "tune": False, "cuda_graph": False}
BACKENDS = ("auto", "cpu", "cuda", "sim")
ALIAS = ("exact", "conservative")
PRECISIONS = ("eager", "fast")


@dataclass(frozen=True)
class Options:
    """How a function is compiled.

    ``backend``: "auto" (by the arguments' device), "cpu", "cuda" (without a GPU it lowers and shows) or "sim" (CUDA's
    kernels thread by thread, on small CPU tensors). ``precision``: "eager" rounds where eager rounds;
    "fast" only what is stored and what the program converts itself, and a product and a sum may become one rounding.
    ``strict``: a library call where a kernel was expected is an error. ``passes``: the pipeline, in order; without
    ``segment`` every step can be looked at and ``check_steps`` interprets it, but there is nothing to run. A function
    of your own from a graph to a PassResult may stand among them, and a list is as good as a tuple.
    ``alias``: "exact" decides overlaps byte for byte; "conservative" takes byte ranges that cross for overlap and has a
    barrier, a further launch, wherever one access of a pair writes: as right, and slower.
    ``random``: "eager" has eager's bits. ``tune`` (try schedules) and ``cuda_graph`` (replay launches) are off. These
    three have no other value yet.
    """

    backend: str = "auto"
    precision: Precision = "eager"
    strict: bool = False
    passes: Sequence[Pass] = field(default=PIPELINE, repr=False)
    alias: str = "exact"
    random: str = "eager"
    tune: bool = False
    cuda_graph: bool = False

    def __post_init__(self) -> None:
        expect("Options", strict=(self.strict, FLAG))
        if self.backend not in BACKENDS:
            fix = f"use one of {', '.join(map(repr, BACKENDS))}"
            raise UnsupportedError(f"the backend {self.backend!r}", "Options(backend=...)", fix)
        if self.precision not in PRECISIONS:
            fix = f"use one of {', '.join(map(repr, PRECISIONS))}"
            raise UnsupportedError(f"the precision {self.precision!r}", "Options(precision=...)", fix)
        if self.alias not in ALIAS:
            fix = f"use one of {', '.join(map(repr, ALIAS))}"
            raise UnsupportedError(f"alias={self.alias!r}", "Options(alias=...)", fix)
        for name, only in _NOT_YET.items():
            if getattr(self, name) != only:
                what, fix = f"{name}={getattr(self, name)!r}", f"leave it out: so far it is {only!r}"
                raise UnsupportedError(what, "Options", fix)
        if not isinstance(self.passes, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            what, fix = f"{self.passes!r:.60} is no list of passes", "give passes such as fk.PIPELINE holds, in order"
            raise FusekitError(what, "Options(passes=...)", fix)
        object.__setattr__(self, "passes", tuple(map(_as_pass, self.passes)))


class Changes(TypedDict, total=False):
    """Fields of Options as keywords of ``fk.jit``, for type checkers."""

    backend: str
    precision: Precision
    strict: bool
    passes: Sequence[Pass]
    alias: str
    random: str
    tune: bool
    cuda_graph: bool


OPTIONS = maybe(a(Options, 'fk.Options(...), such as fk.Options(backend="cpu")'))


def _as_pass(one: object) -> Pass:
    found = as_pass(one)
    if found is None:
        fix = "give passes such as fk.PIPELINE holds: a name, and a call from a graph to a PassResult"
        raise FusekitError(f"{one!r:.60} is no pass", "Options(passes=...)", fix)
    return found


@dataclass(frozen=True)
class Step:
    """The graph after one pass, with what the pass said; the first step is the trace itself. ``merges``: the pairs that
    a segmenter tried."""

    name: str
    graph: Graph
    explanations: tuple[Explanation, ...] = ()
    seconds: float = 0.0
    merges: tuple[Trial, ...] = ()

    def __repr__(self) -> str:
        return f"<step {line(self.name)}: {self.graph!r}, {len(self.explanations)} explanations>"


@dataclass(frozen=True)
class Compiled:
    """Kernels by segment, why a segment has none, and who runs them: "cpu", "cuda" or "sim"."""

    kernels: Mapping[NodeId, Kernel]
    refused: Mapping[NodeId, str]
    backend: str = "cpu"


def backend_of(graph: Graph, backend: str) -> str:
    """The backend that "auto" stands for: that of the device of the graph's memory."""
    if backend != "auto":
        return backend
    kinds = {graph.block(block).device.partition(":")[0] for block in graph.blocks()}
    return "cuda" if "cuda" in kinds else "cpu"


def target_of(backend: str) -> Target:
    """What kernels of a backend are made for."""
    return "cpu" if backend == "cpu" else "cuda"


@contextmanager
def _without_collections() -> Iterator[None]:
    """No garbage collection meanwhile: one looks at all that torch and Numba hold, which takes longer than a pass, and
    the many small objects of a long program set off one after another."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_without_collections()
def run_passes(graph: Graph, options: Options, watch: Callable[[Step], None] | None = None) -> tuple[Step, ...]:
    """One step a pass, after the step ``trace``."""
    steps = [Step("trace", graph)]
    target = target_of(backend_of(graph, options.backend))
    proven: tuple[Invariant, ...] = PROGRAM  # of every trace
    after: UserPass | None = None  # the last pass of the user's
    for one in options.passes:
        if isinstance(one, SegmentOps | SchedulePass):
            one = replace(one, target=target, schedulers=_fitted(one.schedulers, graph, options), lowers=lowers)
        if options.alias == "conservative" and isinstance(one, AliasGroups | Functionalize | SegmentOps):
            one = replace(one, exact=False)
        _refuse_out_of_place(one, steps[-1].graph, proven)
        started = time.perf_counter()
        result = _run(one, steps[-1].graph, after)
        took = time.perf_counter() - started
        steps.append(Step(one.name, result.graph, result.explanations, took, result.merges))
        after = one if isinstance(one, UserPass) else after
        proven = one.check(result.graph, proven) if isinstance(one, UserPass) else getattr(one, "ensures", ())
        if isinstance(one, UserPass):
            ops_give_what_they_say(result.graph, one.name)
            _refuse_new_reads(steps[-2].graph, result.graph, one.name)
        if watch is not None:
            watch(steps[-1])
    if steps[-1].graph.segments() and any(isinstance(one, UserPass) for one in options.passes):
        hold(steps[-1].graph, graph, is_foreign=True)  # before kernels are made of it
    if options.strict:
        _refuse_library_calls(steps)
    return tuple(steps)


def _run(one: Pass, graph: Graph, after: UserPass | None) -> PassResult:
    """The pass on the graph. What a graph of a user's does to a pass of ours is no bug of that pass."""
    if after is None or isinstance(one, UserPass):
        return one(graph)
    fix = f"look at what {after.name} changes: the pass relies on it"
    try:
        return one(graph)
    except InvalidGraph as error:
        what = f"the pass {one.name} cannot take the graph that {after.name} made: {error.what}"
        raise InvalidGraph(what, error.where, fix) from error
    except (AssertionError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        what = f"the pass {one.name} cannot take the graph that {after.name} made: {type(error).__name__}: {error}"
        raise InvalidGraph(what, None, fix) from error


def _refuse_new_reads(before: Graph, graph: Graph, by: str) -> None:
    """A pass of a user's that takes out what writes some memory, and not what reads it."""
    known = unwritten_reads(before)
    for block, (op, tensor) in unwritten_reads(graph).items():
        if block not in known:
            what = f"the pass {by} broke reads-are-written: {op} reads {tensor}, where nothing was written"
            raise InvalidGraph(what, graph.op(op).origin or op, "leave what writes it, or take out what reads it")


def _fitted(schedulers: tuple[Scheduler, ...], graph: Graph, options: Options) -> tuple[Scheduler, ...]:
    """The schedulers for the device that the kernels will run on, where there is one."""
    if backend_of(graph, options.backend) != "cuda" or not device_count():
        return schedulers
    return fitted(schedulers, describe(0).multiprocessors)


def _refuse_out_of_place(one: Pass, graph: Graph, proven: tuple[Invariant, ...]) -> None:
    """A pass of the user's own may expect nothing; what the pass before has ensured is not looked at again."""
    for invariant in getattr(one, "expects", ()):
        problem = None if invariant in proven else next(iter(invariant.check(graph)), None)
        if problem is not None:
            what = f"the pass {one.name} does not take this graph ({invariant.name}: {problem[0]} {problem[1]})"
            order = ", ".join(p.name for p in PIPELINE)
            raise FusekitError(what, "Options(passes=...)", f"the order of fk.PIPELINE is {order}")


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


def lower_graph(graph: Graph, backend: str = "auto", precision: Precision = "eager") -> Compiled:
    """The kernel of every pointwise segment; one that cannot be lowered runs op by op, and says why."""
    backend = backend_of(graph, backend)
    target = target_of(backend)
    kernels: dict[NodeId, Kernel] = {}
    refused: dict[NodeId, str] = {}
    for segment in graph.segments():
        if graph.segment(segment).scheduler != "pointwise":
            continue
        try:
            runs_on = segment_target(graph, segment, target)
            kernel = lower_segment(graph, segment, target=runs_on, precision=precision)
            kernels[segment] = cuda.as_cuda(kernel, graph) if runs_on == "cuda" else kernel
        except CannotLower as refusal:
            refused[segment] = str(refusal)
    return Compiled(kernels, refused, backend)


def compiler_of(graph: Graph, backend: str) -> Callable[[Any], Callable[..., int | None]]:
    """What makes a callable of a kernel. Raises BackendUnavailable where the device is missing."""
    if backend == "cpu":
        return compile_kernel
    if backend == "sim":
        return simulated_kernel
    device = cuda.device_of(graph)

    def compiled(kernel: Kernel) -> Callable[..., int | None]:
        if isinstance(kernel, cuda.CudaKernel):
            return cuda.compile_kernel(kernel, device)
        return compile_kernel(kernel)  # 0-d CPU tensors among CUDA ones

    return compiled


def plan_of(
    graph: Graph,
    compiled: Compiled,
    program: Graph | None = None,
    compile: Callable[[Kernel], Callable[..., int | None]] | None = None,
) -> Plan:
    """Everything that a call does, prepared; compiles the kernels that the cache does not hold.

    ``program``: the graph as recorded, which still tells every write and which results are arguments.
    """
    maker = compile or (compiler_of(graph, compiled.backend) if compiled.kernels else compile_kernel)
    return make_plan(graph, compiled.kernels, maker, program)
