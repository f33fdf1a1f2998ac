"""The first front door: ``explore`` a function, step through every decision, run it, check it against eager."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten

from fusekit.errors import BackendUnavailable, FusekitError, UnsupportedError
from fusekit.escape import line
from fusekit.ids import NodeId
from fusekit.ir import Graph, GraphDiff, print_graph
from fusekit.ir import diff as graph_diff
from fusekit.kinds import FLAG, NODE, PATH, SIZE, a, expect, expect_function, maybe
from fusekit.lower import Kernel
from fusekit.lower.record import race_record
from fusekit.passes.segments.record import why_apart
from fusekit.pipeline import OPTIONS, Compiled, Options, Step, lower_graph, plan_of, run_passes
from fusekit.progress import progress
from fusekit.run.allocated import on_bytes
from fusekit.run.bytes import Traffic, traffic
from fusekit.run.clones import clones
from fusekit.run.closeness import Tolerance
from fusekit.run.compare import CheckReport, compare
from fusekit.run.decode import symbols
from fusekit.run.interpret import interpret
from fusekit.run.memory import too_small
from fusekit.run.observe import observe
from fusekit.run.plan import LastRun, Plan, execute
from fusekit.run.repro import repro
from fusekit.run.sharing import overlap
from fusekit.run.summary import SegmentView, Summary, segment_view
from fusekit.trace import Argument, Capture, Recording, record, same_pattern
from fusekit.trace.cut import cut
from fusekit.trace.guards import is_as_recorded, token
from fusekit.trace.reach import MISSING, SIMPLE
from fusekit.trace.recording import source_name
from fusekit.trace.shadow import parameters_of
from fusekit.what_if import Allocated, Asked
from fusekit.why import Explanation, Merges

if TYPE_CHECKING:
    from fusekit.draw import Diagram
    from fusekit.notebook.widget import Stepper
    from fusekit.run.profile import Profile

Call = tuple[Sequence[object], Mapping[str, object]]  # the args and kwargs of one

__all__ = ["CheckReport", "Exploration", "Options", "SegmentView", "Summary", "cut", "diff", "explore", "overlap"]


@dataclass(frozen=True, eq=False, repr=False)
class Exploration:
    """Everything that fusekit decided about one function for one set of arguments.

    The caller's tensors are read only by ``run`` and ``check``, and then through clones; ``run(*args)`` on given
    arguments mutates these as eager would. ``made``: kernels and plan, where ``fk.jit`` has made them already.
    ``decisions``: what ``what_if`` forced, in words.
    """

    fn: Callable[..., object]
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    options: Options
    recording: Recording
    steps: tuple[Step, ...]
    made: tuple[Compiled, Plan] | None = None
    decisions: tuple[str, ...] = ()

    # ---- what was decided

    @property
    def graph(self) -> Graph:
        """The graph after the last pass."""
        return self.steps[-1].graph

    def __getitem__(self, step: str | int) -> Step:
        """The step of that name or number."""
        if isinstance(step, int) and not isinstance(step, bool) and -len(self.steps) <= step < len(self.steps):
            return self.steps[step]
        found = next((s for s in self.steps if s.name == step), None)
        if found is None:
            names = ", ".join(f"{k} {s.name}" for k, s in enumerate(self.steps))
            raise FusekitError(f"no step is {step!r}", None, f"the steps are {names}")
        return found

    @cached_property
    def _compiled(self) -> Compiled:
        return self.made[0] if self.made else lower_graph(self.graph, self.options.backend, self.options.precision)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Generated kernels in launch order; reading their source needs no compiler and no device."""
        return tuple(self._compiled.kernels.values())

    @property
    def segments(self) -> tuple[SegmentView, ...]:
        """The segments in launch order, each with its kernel or why it has none."""
        graph, made = self.graph, self._compiled
        return tuple(segment_view(graph, s, made.kernels.get(s), made.refused.get(s, "")) for s in graph.segments())

    def summary(self) -> Summary:
        """Counts of one call, and bytes: moved, the least possible, and the peak of new memory."""
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
        if self.made or "_plan" in self.__dict__:
            return self._plan.counts
        return plan_of(self.graph, self._compiled, self.recording.graph, compile=lambda _: _never).counts

    def why(self, first: str, second: str | None = None) -> tuple[Explanation, ...]:
        """Explanations of a node, or of a pair (two segments, two ops); an empty tuple where nothing was said.

        Of any two segments, or ops of two, it says why they are not one, on which numbers, and what would join them.
        """
        expect("x.why", first=(first, NODE), second=(second, maybe(NODE)))
        wanted = {first} if second is None else {first, second}
        known = any(n in step.graph for step in self.steps for n in wanted)
        if not known:
            nodes = ", ".join(self.graph.segments())
            raise FusekitError(
                f"no step has a node {' or '.join(wanted)}", None, f"nodes look like %a, ^1; segments: {nodes}"
            )
        said = (e for step in self.steps for e in step.explanations)
        found = tuple(e for e in said if wanted <= set(e.subject) or (second is None and first in e.evidence))
        if second is None and (kernel := self._compiled.kernels.get(NodeId(first))) is not None:
            found += race_record(self.graph, NodeId(first), kernel.races)
        is_told = any(e.reason.name != "computed-again" for e in found)
        return found if is_told else (*self._why_apart(first, second), *found)

    def _why_apart(self, first: str, second: str | None) -> tuple[Explanation, ...]:
        """Why the segments of two nodes are not one; nothing for nodes of one segment."""
        if second is None:
            return ()
        homes = [self._home(NodeId(node)) for node in (first, second)]
        if None in homes or homes[0] == homes[1]:
            return ()
        return why_apart(self.graph, self.merges(), *(home for home in homes if home is not None))

    def _home(self, node: NodeId) -> NodeId | None:
        """The segment, or the first one that an op or what makes a tensor runs in."""
        graph = self.graph
        if node in graph.segments() or node not in graph:
            return node if node in graph else None
        op = graph.producer(node) if node.startswith("%") and graph.has_producer(node) else node
        return next(iter(graph.segments_of(op)), None)

    def merges(self) -> Merges:
        """The merge log: every pair that was tried, the bytes it would save, who was asked, the verdict and why."""
        return Merges([row for step in self.steps for row in step.merges])

    def text(self, step: str | int | None = None) -> str:
        """The textual IR of a step (default: the last) with its reasons, and those of every boundary that it has;
        ``fusekit.parse`` reads it back."""
        chosen = self.steps[-1] if step is None else self[step]
        pairs = {(a, b) for a, b, _, _ in chosen.graph.boundaries()}
        before = (e for s in self.steps[: self.steps.index(chosen)] for e in s.explanations if e.subject in pairs)
        return print_graph(chosen.graph, (*before, *chosen.explanations))

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

        expect("x.diagram", segment=(segment, maybe(NODE)))
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

    def what_if(self, **decisions: object) -> Exploration:
        """A new exploration of the same recording with decisions forced, on top of those of this one.

        ``merge=("$0", "$1")``, ``split="$0"`` or ``split="%t"`` (a boundary after it), ``order=("$1", "$0")``,
        ``schedule={"$0": chain}``, ``without="schedule"`` (a pass left out), ``allocation={"%a": chain}``,
        ``alias="conservative"``, ``precision="fast"``. Ids are those of this exploration. Raises FusekitError that
        says which order or invariant a decision breaks, and how to mend it.
        """
        options, words = Asked(self.options, self.graph).decide(decisions)
        try:
            steps = run_passes(self.steps[0].graph, options)
        except FusekitError as error:
            what = f"what_if({', '.join(words)}) is not legal: {error.what}"
            raise type(error)(what, error.where, error.fix) from error
        decided = (*self.decisions, *words)
        return replace(self, options=options, steps=(self.steps[0], *steps[1:]), made=None, decisions=decided)

    # ---- running it

    @cached_property
    def _plan(self) -> Plan:
        return self.made[1] if self.made else plan_of(self.graph, self._compiled, self.recording.graph)

    def run(self, *args: object, **kwargs: object) -> object:
        """Run the kernels. Without arguments on clones of the explored ones, which keep their aliasing; with arguments
        on these, mutated as eager would. Raises FusekitError where they have other layouts or aliasing, or numbers
        that make it another program."""
        if args or kwargs:
            return self._call(args, kwargs)
        leaves, spec = self._explored()
        inputs = self._like_explored(leaves)
        copies = clones(inputs)
        now = {id(t): copy for t, copy in zip(inputs, copies, strict=True)}
        return self._execute(leaves, copies, tree_unflatten([now.get(id(x), x) for x in leaves], spec))

    def _explored(self) -> tuple[list[Any], TreeSpec]:
        """The explored arguments as (leaves, structure)."""
        if not (self.args or self.kwargs) and any(isinstance(s, Argument) for s in self.recording.inputs):
            what = f"an exploration of {self.name} without arguments (fk.jit keeps none of a call's)"
            raise FusekitError(what, None, "give run some, x.run(*args), or use fk.explore(fn, *args)")
        return tree_flatten((self.args, dict(self.kwargs)))

    def _like_explored(self, leaves: Sequence[object]) -> list[torch.Tensor]:
        """The tensors of ``fk.input``. Raises FusekitError where they, or values that steered the recording, are not
        like the explored ones: a plan would read and write past them."""
        problem = next((f"{e.path} has another value" for e in self.recording.guards if not is_as_recorded(e)), None)
        tensors = self.recording.tensors(leaves) if problem is None else []
        for source, t in zip(self.recording.inputs, tensors, strict=False):
            if not isinstance(t, torch.Tensor):
                what = "missing" if t is MISSING else f"{t!r:.40}, explored was a tensor"
                problem = problem or f"{source_name(source)} is {what}"
        problem = problem or same_pattern(self.recording, tensors)
        if problem:
            what = f"this call is not like the explored one: {problem}"
            raise FusekitError(what, None, "explore it anew, or use fk.jit")
        return tensors

    def _call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        if kwargs.keys() == self.kwargs.keys():
            kwargs = {name: kwargs[name] for name in self.kwargs}  # leaves are numbered in this order
        leaves, spec = tree_flatten((tuple(args), dict(kwargs)))
        if (self.args or self.kwargs) and spec != tree_structure((self.args, dict(self.kwargs))):
            what = f"these arguments of {self.name} are arranged in another way than the explored ones"
            raise FusekitError(f"{what}: {_outline(args, kwargs)}, not {_outline(self.args, self.kwargs)}")
        inputs = self._like_explored(leaves)
        return self._execute(leaves, inputs, (args, kwargs), self._numbers(args, kwargs, leaves))

    def _numbers(
        self, args: Sequence[object], kwargs: Mapping[str, object], leaves: Sequence[object]
    ) -> tuple[int | float, ...]:
        """The graph's parameters for these arguments."""
        explored = tree_leaves((self.args, dict(self.kwargs)))
        some = SIMPLE if explored else (int, float)  # fk.jit keeps no arguments to compare with
        was, now = ([token(x) for x in flat if type(x) in some] for flat in (explored, leaves))
        found = self.recording.examples if was == now else parameters_of(self.recording, self.fn, args, kwargs)
        if found is None:
            what = "these numbers, or other plain arguments, make another program"
            raise FusekitError(what, None, "explore them anew, or use fk.jit")
        return found

    def _execute(
        self,
        leaves: Sequence[object],
        inputs: Sequence[torch.Tensor],
        call: Call,
        numbers: Sequence[int | float] | None = None,
    ) -> object:
        numbers = self.recording.examples if numbers is None else numbers
        if problem := too_small(self.recording.graph, inputs, numbers):
            what = f"this call is not like the explored one: {problem}"
            raise FusekitError(what, None, "give tensors in storages as large as the explored ones, or explore it anew")
        flat = execute(self._plan, inputs, numbers, symbols(self.recording.objects, leaves))
        return self.recording.result(flat, call)

    def check(self, rtol: float | None = None, atol: float | None = None) -> CheckReport:
        """Outputs, mutated inputs, aliasing, dtypes, strides and exceptions against eager, on clones.

        Raises FusekitError where captures or explored arguments have other layouts by now, or the passes made no
        segments to run. Without ``rtol`` and ``atol`` floats may differ by what the dtype's roundings in another order
        come to; with ``precision="fast"`` also by the roundings that eager alone makes.
        """
        _ = self._plan  # its own errors are no facts about the function
        tolerance = Tolerance(rtol, atol, fast=self.options.precision == "fast")
        return self._check(self._execute, tolerance)

    def check_steps(self) -> dict[str, CheckReport]:
        """The same for the interpreter run on the graph after every pass: which pass broke it?"""
        reports: dict[str, CheckReport] = {}
        for step in self.steps:

            def ours(
                leaves: Sequence[object], inputs: Sequence[torch.Tensor], call: Call, graph: Graph = step.graph
            ) -> object:
                flat = interpret(graph, inputs, (), symbols(self.recording.objects, leaves), self.recording.graph)
                return self.recording.result(flat, call)

            reports[step.name] = self._check(ours, fn=self.fn if step is self.steps[0] else self._eager())
        return reports

    def profile(self, seconds: float = 1.0) -> Profile:
        """Time, bytes and GB/s of every segment, the share of the device's measured copy bandwidth, and eager beside.

        Runs on clones for about ``seconds`` a segmented call, a whole call and eager. Raises BackendUnavailable where
        the device is missing.
        """
        from fusekit.run.profile import profile

        expect("x.profile", seconds=(seconds, SIZE))
        leaves, _ = self._explored()
        inputs = self._like_explored(leaves)
        args, kwargs = self._cloned()
        theirs = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        captures = [s.entry.read() for s in self.recording.inputs if isinstance(s, Capture)]
        eager = (lambda: self.fn(*args, **kwargs)), theirs, captures
        given = self.recording.examples, symbols(self.recording.objects, leaves)
        kernels = self._compiled.kernels
        return profile(self.name, self.graph, self._plan, kernels, inputs, *given, eager, seconds)

    def _eager(self) -> Callable[..., object]:
        """The function; where inputs were given another allocation, on tensors rearranged as their bytes then lie."""
        chains = {
            name: chain for one in self.options.passes if isinstance(one, Allocated) for name, chain in one.chains
        }
        places = zip(self.steps[0].graph.inputs(), self.recording.inputs, strict=True)
        return on_bytes(self.fn, {s.leaf: chains[t] for t, s in places if t in chains and isinstance(s, Argument)})

    def _check(
        self,
        ours: Callable[[Sequence[object], Sequence[torch.Tensor], Call], object],
        tolerance: Tolerance | None = None,
        fn: Callable[..., object] | None = None,
    ) -> CheckReport:
        explored, _ = self._explored()
        self._like_explored(explored)
        captures = [(s.entry.path, s.entry.read()) for s in self.recording.inputs if isinstance(s, Capture)]
        kept = [(f"argument {k}", t) for k, t in enumerate(explored) if _meets(t, [c for _, c in captures])]
        captures += kept  # a clone of these would no longer share with the capture; they get their bytes back as well

        def call(*args: object, **kwargs: object) -> object:
            leaves, _ = tree_flatten((args, kwargs))
            return ours(leaves, self.recording.tensors(leaves), (args, kwargs))

        keep = {id(t) for _, t in kept}
        first, second = self._cloned(keep), self._cloned(keep)
        state = torch.get_rng_state()
        eager = observe(fn or self._eager(), *first, captures)
        torch.set_rng_state(state)
        mine = observe(call, *second, captures)
        script = functools.partial(repro, self.fn, self.args, self.kwargs)
        return compare(eager, mine, tolerance=tolerance, title=self.recording.name, script=script)

    def _cloned(self, keep: Set[int] = frozenset()) -> tuple[tuple[object, ...], dict[str, object]]:
        """The explored arguments on bytes of their own, but for tensors with these ids."""
        leaves, spec = self._explored()
        tensors = [x for x in leaves if isinstance(x, torch.Tensor) and id(x) not in keep]
        copies = {id(t): copy for t, copy in zip(tensors, clones(tensors), strict=True)}
        made = [copies.get(id(x), x) for x in leaves]
        args, kwargs = tree_unflatten(made, spec)
        return args, kwargs

    # ---- how it looks

    def __repr__(self) -> str:
        rows = [f"exploration of {self.name}", *(f"  what if {one}" for one in self.decisions)]
        for step in self.steps:
            said = f"{len(step.explanations)} explanations" if step.explanations else ""
            rows.append(
                f"  {step.name:14} {len(step.graph.ops()):4} ops  {step.seconds * 1000:7.1f} ms  {said}".rstrip()
            )
        for segment in self.segments:
            what = segment.kernel.name if segment.kernel else segment.refused or self._without_kernel(segment)
            rows.append(
                f"  {segment.id:4} {segment.scheduler:12} {list(segment.space)!s:16} {len(segment.ops):4} ops  {what}"
            )
        return "\n".join(map(line, rows))

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

        expect("x.report", path=(path, PATH), check=(check, FLAG))
        return report(self, path, actions.check(self) if check else None)

    def _ipython_display_(self) -> None:
        """In a notebook: the stepper, with the picture that stays when it is gone."""
        try:
            made = self.stepper()
        except ImportError as missing:  # no ipywidgets: IPython then asks for the bundle
            raise NotImplementedError from missing
        made._ipython_display_()

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
    expect_function("fk.explore", fn)
    expect("fk.explore", options=(options, OPTIONS))
    chosen = options or Options()
    started = time.perf_counter()
    with progress(None, "exploring", "pass", total=1 + len(chosen.passes)) as bar:
        recording = record(fn, args, kwargs)
        traced = time.perf_counter() - started
        bar.set_description(f"exploring {recording.name}", refresh=False)
        bar.update()
        steps = run_passes(recording.graph, chosen, lambda _: bar.update())
    first = Step(steps[0].name, steps[0].graph, steps[0].explanations, traced)
    return Exploration(fn, args, kwargs, chosen, recording, (first, *steps[1:]))


def _outline(args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    """How a call looks: ``(tensor, 3, {'a': tensor}, scale=2.0)``."""
    args, kwargs = tree_map(lambda leaf: _Tensor() if isinstance(leaf, torch.Tensor) else leaf, (tuple(args), kwargs))
    return f"({', '.join([*map(repr, args), *(f'{name}={value!r}' for name, value in kwargs.items())])})"[:120]


class _Tensor:
    def __repr__(self) -> str:
        return "tensor"


def _meets(t: object, others: Sequence[torch.Tensor]) -> bool:
    """Does this leaf have bytes in the storage of one of the tensors?"""
    if not isinstance(t, torch.Tensor):
        return False
    storages = [(s.data_ptr(), s.data_ptr() + s.nbytes()) for s in (x.untyped_storage() for x in (t, *others))]
    (low, high), *rest = storages
    return any(start < high and low < end for start, end in rest)


def _never(*_: object) -> None:
    raise AssertionError("a plan that only counts is not run")


def diff(first: Exploration, second: Exploration) -> GraphDiff:
    """What differs between the last graphs of two explorations."""
    kind = a(Exploration, "an exploration, as fk.explore makes it")
    expect("fk.diff", first=(first, kind), second=(second, kind))
    return graph_diff(first.graph, second.graph)
