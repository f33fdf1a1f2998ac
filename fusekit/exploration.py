"""The first front door: ``explore`` a function, step through every decision, run it, check it against eager."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from fusekit.errors import BackendUnavailable, FusekitError, UnsupportedError
from fusekit.ids import NodeId
from fusekit.ir import Graph, GraphDiff, print_graph
from fusekit.ir import diff as graph_diff
from fusekit.lower import Kernel
from fusekit.memory import Overlap
from fusekit.pipeline import Compiled, Options, Step, lower_graph, plan_of, run_passes
from fusekit.run.bytes import Traffic, traffic
from fusekit.run.clones import clones
from fusekit.run.closeness import Tolerance
from fusekit.run.compare import CheckReport, compare
from fusekit.run.decode import symbols
from fusekit.run.interpret import interpret
from fusekit.run.observe import observe
from fusekit.run.plan import LastRun, Plan, execute
from fusekit.run.repro import repro
from fusekit.trace import Argument, Capture, Constant, Recording, record
from fusekit.trace.cut import cut
from fusekit.trace.numbers import exactly
from fusekit.trace.shadow import parameters_of
from fusekit.why import Explanation

if TYPE_CHECKING:
    from fusekit.draw import Diagram
    from fusekit.notebook.widget import Stepper
    from fusekit.run.profile import Profile

__all__ = ["CheckReport", "Exploration", "Options", "SegmentView", "Summary", "cut", "diff", "explore", "overlap"]


@dataclass(frozen=True)
class SegmentView:
    """One segment: ``kernel`` is None where nothing is made (a library call, views, a refusal that ``why`` names)."""

    id: NodeId
    scheduler: str
    space: tuple[int, ...]
    ops: tuple[NodeId, ...]
    kernel: Kernel | None
    reads: tuple[NodeId, ...]
    writes: tuple[NodeId, ...]
    refused: str = ""

    def __repr__(self) -> str:
        what = self.kernel.name if self.kernel else self.refused or "nothing generated"
        return f"<segment {self.id} {self.scheduler} {list(self.space)}: {len(self.ops)} ops, {what}>"


@dataclass(frozen=True)
class Summary:
    """Counts of one call, and bytes: moved by the segments, the least possible, and the peak that lives at once."""

    kernels: int
    extern_calls: int
    copies: int
    alias_segments: int
    segments: int
    bytes_moved: int
    bytes_least: int
    peak_bytes: int

    def __repr__(self) -> str:
        moved = f"{self.bytes_moved:,} bytes moved, {self.bytes_least:,} at least"
        counts = f"{self.kernels} kernels, {self.extern_calls} library calls, {self.copies} copies"
        return f"{counts}, {self.alias_segments} alias segments; {moved}, peak {self.peak_bytes:,}"


@dataclass(frozen=True, eq=False, repr=False)
class Exploration:
    """Everything that fusekit decided about one function for one set of arguments.

    The caller's tensors are read only by ``run`` and ``check``, and then through clones; ``run(*args)`` on given
    arguments mutates these as eager would.
    """

    fn: Callable[..., object]
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    options: Options
    recording: Recording
    steps: tuple[Step, ...]
    _plans: list[Plan] = field(default_factory=list)

    # ---- what was decided

    @property
    def graph(self) -> Graph:
        """The graph after the last pass."""
        return self.steps[-1].graph

    def __getitem__(self, step: str | int) -> Step:
        """The step of that name or number."""
        if isinstance(step, int):
            return self.steps[step]
        found = next((s for s in self.steps if s.name == step), None)
        if found is None:
            names = ", ".join(s.name for s in self.steps)
            raise FusekitError(f"no step is called {step!r}", None, f"the steps are {names}")
        return found

    @cached_property
    def _compiled(self) -> Compiled:
        return lower_graph(self.graph, self.options.backend)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Generated kernels in launch order; reading their source needs no compiler and no device."""
        return tuple(self._compiled.kernels.values())

    @property
    def segments(self) -> tuple[SegmentView, ...]:
        return tuple(self._segment(s) for s in self.graph.segments())

    def _segment(self, id: NodeId) -> SegmentView:
        graph, compiled = self.graph, self._compiled
        ops, segment = graph.members(id), graph.segment(id)
        made = {t for op in ops for t in graph.results(op)}
        taken = dict.fromkeys(t for op in ops for t in graph.operands(op) if not graph.is_value(t))
        written = dict.fromkeys(graph.operands(op)[w] for op in ops for w in graph.op(op).writes)
        fresh = dict.fromkeys(t for op in ops for t in graph.results(op) if not graph.is_value(t))
        reads = tuple(t for t in taken if t not in made and (t not in written or segment.scheduler == "extern"))
        kernel, refused = compiled.kernels.get(id), compiled.refused.get(id, "")
        return SegmentView(id, segment.scheduler, segment.space, ops, kernel, reads, (*written, *fresh), refused)

    def summary(self) -> Summary:
        counts, moved = self._plan_counts(), self._traffic
        schedulers = [self.graph.segment(s).scheduler for s in self.graph.segments()]
        alias, total = schedulers.count("alias"), len(schedulers)
        sizes = moved.moved, moved.least, moved.peak
        return Summary(counts.kernels, counts.extern_calls, counts.copies, alias, total, *sizes)

    @cached_property
    def _traffic(self) -> Traffic:
        return traffic(self.graph, self._compiled.kernels)

    def _plan_counts(self) -> LastRun:
        """Of the plan; before the first run, of one without compiled kernels, since counting needs no compiler."""
        if self._plans:
            return self._plans[0].counts
        return plan_of(self.graph, self._compiled, self.recording.graph, compile=lambda _: _never).counts

    def why(self, first: str, second: str | None = None) -> tuple[Explanation, ...]:
        """Explanations of a node, or of a pair (two segments, two ops); an empty tuple where nothing was said."""
        wanted = {first} if second is None else {first, second}
        known = any(n in step.graph for step in self.steps for n in wanted)
        if not known:
            nodes = ", ".join(self.graph.segments())
            raise FusekitError(
                f"no step has a node {' or '.join(wanted)}", None, f"nodes look like %a, ^1; segments: {nodes}"
            )
        said = (e for step in self.steps for e in step.explanations)
        return tuple(e for e in said if wanted <= set(e.subject) or (second is None and first in e.evidence))

    def text(self, step: str | int | None = None) -> str:
        """The textual IR of a step (default: the last) with its reasons; ``fusekit.parse`` reads it back."""
        chosen = self.steps[-1] if step is None else self[step]
        return print_graph(chosen.graph, chosen.explanations)

    def diff(self, first: str | int, second: str | int) -> GraphDiff:
        """What changed from one step to another."""
        return graph_diff(self[first].graph, self[second].graph)

    def diagram(
        self,
        step: str | int | None = None,
        view: str | None = None,
        since: str | int | None = None,
        segment: str | None = None,
    ) -> Diagram:
        """The picture of a step (default: the last). ``view``: program, aliases, segments, domains or memory;
        ``since``: mark what changed from that step on; ``segment``: only its domains."""
        from fusekit.draw import diagram

        chosen = self.steps[-1] if step is None else self[step]
        if view is None:
            view = "segments" if chosen.graph.segments() else "program"
        said = [e for s in self.steps[: self.steps.index(chosen) + 1] for e in s.explanations]
        kernels = self._compiled.kernels if chosen.graph.segments() else None
        before = self[since].graph if since is not None else None
        title = f"{self.recording.name}: {chosen.name}"
        return diagram(
            chosen.graph, view=view, explanations=said, since=before, kernels=kernels, title=title, segment=segment
        )

    # ---- running it

    @property
    def _plan(self) -> Plan:
        if not self._plans:
            self._plans.append(plan_of(self.graph, self._compiled, self.recording.graph))
        return self._plans[0]

    def run(self, *args: object, **kwargs: object) -> object:
        """Run the kernels. Without arguments on clones of the explored ones, which keep their aliasing; with arguments
        on these, mutated as eager would. Raises FusekitError where they have other layouts or aliasing, or numbers
        that make it another program."""
        if args or kwargs:
            return self._call(args, kwargs)
        leaves, _ = self._explored()
        return self._execute(leaves, clones(self._inputs(leaves)))

    def _explored(self) -> tuple[list[Any], TreeSpec]:
        """The explored arguments as (leaves, structure)."""
        if not (self.args or self.kwargs) and any(isinstance(s, Argument) for s in self.recording.inputs):
            what = f"an exploration of {self.name} without arguments (fk.jit keeps none of a call's)"
            raise FusekitError(what, None, "give run some, x.run(*args), or use fk.explore(fn, *args)")
        return tree_flatten((self.args, dict(self.kwargs)))

    def _call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        from fusekit.trace import same_pattern

        leaves, _ = tree_flatten((tuple(args), dict(kwargs)))
        inputs = self._inputs(leaves)
        if problem := same_pattern(self.recording, inputs):
            raise FusekitError(
                f"these arguments are not like the explored ones: {problem}", None, "explore them anew, or use fk.jit"
            )
        return self._execute(leaves, inputs, self._numbers(args, kwargs, leaves))

    def _numbers(
        self, args: Sequence[object], kwargs: Mapping[str, object], leaves: Sequence[object]
    ) -> tuple[int | float, ...]:
        """The graph's parameters for these arguments."""
        explored = tree_leaves((self.args, dict(self.kwargs)))
        was, now = ([exactly(x) for x in some if type(x) in (int, float)] for some in (explored, leaves))
        found = self.recording.examples if was == now else parameters_of(self.recording, self.fn, args, kwargs)
        if found is None:
            raise FusekitError("these numbers make another program", None, "explore them anew, or use fk.jit")
        return found

    def _execute(
        self, leaves: Sequence[object], inputs: Sequence[torch.Tensor], numbers: Sequence[int | float] | None = None
    ) -> object:
        numbers = self.recording.examples if numbers is None else numbers
        flat = execute(self._plan, inputs, numbers, symbols(self.recording.objects, leaves))
        return restructure(self.recording, flat)

    def _inputs(self, leaves: Sequence[object]) -> list[torch.Tensor]:
        return inputs_of(self.recording, leaves)

    def check(self, rtol: float | None = None, atol: float | None = None) -> CheckReport:
        """Outputs, mutated inputs, aliasing, dtypes, strides and exceptions against eager, on clones."""
        return self._check(lambda leaves, inputs: self._execute(leaves, inputs), Tolerance(rtol, atol))

    def check_steps(self) -> dict[str, CheckReport]:
        """The same for the interpreter run on the graph after every pass: which pass broke it?"""
        reports: dict[str, CheckReport] = {}
        for step in self.steps:

            def ours(leaves: Sequence[object], inputs: Sequence[torch.Tensor], graph: Graph = step.graph) -> object:
                flat = interpret(graph, inputs, (), symbols(self.recording.objects, leaves), self.recording.graph)
                return restructure(self.recording, flat)

            reports[step.name] = self._check(ours)
        return reports

    def profile(self, seconds: float = 1.0) -> Profile:
        """Time, bytes and GB/s of every segment, the share of the device's measured copy bandwidth, and eager beside.

        Runs on clones for about ``seconds`` a segmented call, a whole call and eager. Raises BackendUnavailable where
        the device is missing.
        """
        from fusekit.run.profile import profile

        leaves, _ = tree_flatten((self.args, dict(self.kwargs)))
        args, kwargs = self._cloned()
        theirs = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        captures = [s.entry.read() for s in self.recording.inputs if isinstance(s, Capture)]
        eager = (lambda: self.fn(*args, **kwargs)), theirs, captures
        given = self.recording.examples, symbols(self.recording.objects, leaves)
        inputs, kernels = self._inputs(leaves), self._compiled.kernels
        return profile(self.name, self.graph, self._plan, kernels, inputs, *given, eager, seconds)

    def _check(
        self, ours: Callable[[Sequence[object], Sequence[torch.Tensor]], object], tolerance: Tolerance | None = None
    ) -> CheckReport:
        captures = [(s.entry.path, s.entry.read()) for s in self.recording.inputs if isinstance(s, Capture)]

        def call(*args: object, **kwargs: object) -> object:
            leaves, _ = tree_flatten((args, kwargs))
            return ours(leaves, self._inputs(leaves))

        first, second = self._cloned(), self._cloned()
        state = torch.get_rng_state()
        eager = observe(self.fn, *first, captures)
        torch.set_rng_state(state)
        mine = observe(call, *second, captures)
        script = functools.partial(repro, self.fn, self.args, self.kwargs)
        return compare(eager, mine, tolerance=tolerance, title=self.recording.name, script=script)

    def _cloned(self) -> tuple[tuple[object, ...], dict[str, object]]:
        leaves, spec = self._explored()
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        copies = iter(clones(tensors))
        made = [next(copies) if isinstance(x, torch.Tensor) else x for x in leaves]
        args, kwargs = tree_unflatten(made, spec)
        return args, kwargs

    # ---- how it looks

    def __repr__(self) -> str:
        lines = [f"exploration of {self.recording.name}"]
        for step in self.steps:
            said = f"{len(step.explanations)} explanations" if step.explanations else ""
            lines.append(
                f"  {step.name:14} {len(step.graph.ops()):4} ops  {step.seconds * 1000:7.1f} ms  {said}".rstrip()
            )
        for segment in self.segments:
            what = segment.kernel.name if segment.kernel else segment.refused or self._without_kernel(segment)
            lines.append(
                f"  {segment.id:4} {segment.scheduler:10} {list(segment.space)!s:16} {len(segment.ops):4} ops  {what}"
            )
        return "\n".join(lines)

    def _without_kernel(self, segment: SegmentView) -> str:
        return "nothing launched" if segment.scheduler == "alias" else self.graph.op(segment.ops[0]).target

    @property
    def name(self) -> str:
        """The function's name."""
        return self.recording.name

    def stepper(self, **where: object) -> Stepper:
        """The notebook widget: steps, pictures, reasons, sources, run and check. ``where``: ``step``, ``view``,
        ``node``, ``since`` ... to begin with."""
        from fusekit.notebook.widget import Stepper

        return Stepper(self, **where)

    def report(self, path: str | Path, check: bool = True) -> Path:
        """One HTML file with the same stepper, without kernel and network; ``check``: with what a check finds."""
        from fusekit.notebook import actions, report

        return report(self, path, actions.check(self) if check else None)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        """The stepper with a static picture beside it; without ipywidgets the picture, and the text for a terminal."""
        try:
            return self.stepper()._repr_mimebundle_()
        except ImportError:
            pass
        try:
            return {**self.diagram()._repr_mimebundle_(), "text/plain": repr(self)}
        except (BackendUnavailable, UnsupportedError):
            return {"text/plain": repr(self)}


def explore(fn: Callable[..., object], *args: object, options: Options | None = None, **kwargs: object) -> Exploration:
    """Record ``fn`` on these arguments and run every pass. Never touches the caller's tensors.

    Raises what eager raises for these arguments, UnsupportedError (with the user's line) where eager would succeed.
    """
    chosen = options or Options()
    started = time.perf_counter()
    recording = record(fn, args, kwargs)
    traced = time.perf_counter() - started
    steps = run_passes(recording.graph, chosen)
    first = Step(steps[0].name, steps[0].graph, steps[0].explanations, traced)
    return Exploration(fn, args, kwargs, chosen, recording, (first, *steps[1:]))


def _never(*_: object) -> None:
    raise AssertionError("a plan that only counts is not run")


def inputs_of(recording: Recording, leaves: Sequence[object]) -> list[torch.Tensor]:
    """The tensors of ``fk.input``, in order: arguments by leaf number, captures read again, constants."""
    found: list[torch.Tensor] = []
    for source in recording.inputs:
        match source:
            case Argument(leaf):
                found.append(cast(torch.Tensor, leaves[leaf]))
            case Capture(entry):
                found.append(entry.read())
            case Constant(tensor):
                found.append(tensor)
    return found


def restructure(recording: Recording, flat: Sequence[object]) -> Any:
    """Output leaves in the structure that the function returned."""
    return tree_unflatten(list(flat), recording.out_spec)


def diff(first: Exploration, second: Exploration) -> GraphDiff:
    """What differs between the last graphs of two explorations."""
    return graph_diff(first.graph, second.graph)


def overlap(a: torch.Tensor, b: torch.Tensor) -> Overlap:
    """How two tensors share memory, byte for byte: ``fk.overlap(x, x[0]) is Overlap.CONTAINS``.

    UNKNOWN where the search ran out of its budget: treat it as overlapping.
    """
    from fusekit.ir import Layout
    from fusekit.memory import overlap as exact
    from fusekit.torch_types import FROM_TORCH

    if a.device != b.device:
        return Overlap.DISJOINT
    low = min(a.data_ptr(), b.data_ptr())
    layouts = [
        Layout.of(t.data_ptr() - low, t.shape, [s * t.element_size() for s in t.stride()], FROM_TORCH[t.dtype])
        for t in (a, b)
    ]
    return exact(*layouts)
