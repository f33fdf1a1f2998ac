"""``x.what_if(...)``: decisions that a person forces, as options of the passes that would have taken them.

Ids in a decision are those of the exploration that is asked. A decision becomes options (the fields of a pass, or of
``Options``), which a further ``what_if`` starts from: decisions add up, and each is kept in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar, cast

from fusekit.errors import FusekitError
from fusekit.ids import NodeId
from fusekit.ir import PROGRAM, Graph, Invariant, PassResult, core
from fusekit.passes import Pass, SchedulePass, SegmentOps
from fusekit.passes.allocated import with_allocation
from fusekit.pipeline import Options

P = TypeVar("P", SegmentOps, SchedulePass)


@dataclass(frozen=True)
class Allocated:
    """The trace with inputs whose bytes lie as chains say: (input, chain)."""

    name: ClassVar[str] = "allocation"
    expects: ClassVar[tuple[Invariant, ...]] = PROGRAM
    ensures: ClassVar[tuple[Invariant, ...]] = PROGRAM
    chains: tuple[tuple[str, str], ...]

    def __call__(self, graph: Graph) -> PassResult:
        for name, _ in self.chains:
            if name not in graph.inputs():
                inputs = ", ".join(graph.inputs())
                raise FusekitError(f"{name} is no input", "what_if(allocation=...)", f"the inputs are {inputs}")
        made = with_allocation(graph, dict(self.chains))
        return made.draft(self.name).finish(self.ensures)


@dataclass(frozen=True)
class Asked:
    """``options`` and the last ``graph`` (with segments) of the exploration that is asked."""

    options: Options
    graph: Graph

    def decide(self, decisions: Mapping[str, object]) -> tuple[Options, tuple[str, ...]]:
        """Options with the decisions, and a line of words for each. Raises FusekitError for what makes no sense."""
        if not decisions:
            raise FusekitError("what_if() forces nothing", None, f"give it one of {', '.join(DECISIONS)}")
        options, words = self.options, list[str]()
        for name, value in decisions.items():
            if name not in DECISIONS:
                raise FusekitError(f"what_if knows no {name!r}", None, f"it knows {', '.join(DECISIONS)}")
            options = DECISIONS[name](replace(self, options=options), value)
            said = repr(_said(value))
            words.append(f"{name}={said if len(said) <= 400 else said[:400] + ' ...'}")
        return options, tuple(words)

    # ---- which kernels

    def merge(self, value: object) -> Options:
        """Segments, or the segments of ops, become one kernel."""
        names = _names("merge", value, 'two or more ids: merge=("$0", "$1")', 2)
        roots = tuple(dict.fromkeys(op for name in names for op in self._roots(name)))
        if len(homes := dict.fromkeys(s for name in names for s in self._segments(name))) < 2:
            raise FusekitError(f"merge={value!r:.60} names one segment, {next(iter(homes))}", None, "name another one")
        segments = _change(self.options, "segment", SegmentOps)
        apart = tuple(kept for kept in segments.apart if len(set(kept) & set(roots)) < 2)  # the later word counts
        return _put(self.options, replace(segments, together=(*segments.together, roots), apart=apart))

    def split(self, value: object) -> Options:
        """A segment falls apart into its stores; or a boundary comes after an op or a tensor."""
        options = self.options
        for name in _names("split", value, 'an id: split="$0", split="%t"', 1):
            segments = _change(options, "segment", SegmentOps)
            if not name.startswith("$"):
                if (value := self._value(name)) in segments.cuts:
                    raise FusekitError(f"there is a boundary after {value} already", name, "name another value")
                options = _put(options, replace(segments, cuts=(*segments.cuts, value)))
                continue
            roots = self._roots(name)
            if len(roots) < 2:
                fix = "to cut inside of it, name a tensor or an op that it computes: split='%t'"
                raise FusekitError(f"{name} has one store, and falls apart no further", name, fix)
            together = tuple(one for one in segments.together if len(set(one) & set(roots)) < 2)
            options = _put(options, replace(segments, apart=(*segments.apart, roots), together=together))
        return options

    def order(self, value: object) -> Options:
        """Segments are launched in this order."""
        names = _names("order", value, 'ids in the order wanted: order=("$1", "$0")', 2)
        first = tuple(self._root(name) for name in names)
        if len(set(first)) < len(first):
            raise FusekitError(f"order={value!r:.60} names one launch twice", None, "name each segment once")
        segments = _change(self.options, "segment", SegmentOps)
        return _put(self.options, replace(segments, order=(*segments.order, first)))

    # ---- which loops, which passes, which rules

    def schedule(self, value: object) -> Options:
        """Chains by segment, written by hand."""
        if not isinstance(value, Mapping) or not value:
            raise FusekitError(f"schedule={value!r:.60} names no segment", None, 'write schedule={"$0": "split(0, 4)"}')
        given = dict(_change(self.options, "schedule", SchedulePass).given)
        for name, chain in cast("Mapping[str, object]", value).items():
            if self.graph.segment(self._segments(name)[0]).scheduler == "extern":
                raise FusekitError(f"{name} is a library call, and has no loops", name, "name what a kernel runs")
            given[self._root(name)] = str(chain)
        passes = _change(self.options, "schedule", SchedulePass)
        return _put(self.options, replace(passes, given=tuple(given.items())))

    def without(self, value: object) -> Options:
        """A pass, or several, left out."""
        options = self.options
        for name in _names("without", value, 'the name of a pass: without="schedule"', 1):
            known = [one.name for one in options.passes]
            if name not in known:
                raise FusekitError(f"no pass is {name!r}", None, f"the passes are {', '.join(known)}")
            if name == "segment":
                what = "without segment nothing runs: a plan is made of segments"
                fix = 'use split="$0" for smaller ones, or fk.Options(passes=...) to look at the steps before it'
                raise FusekitError(what, "what_if(without=...)", fix)
            left = [one for one in options.passes if one.name != name]
            if name == "forward":  # nothing is marked then: whatever crosses is stored once
                left = [replace(one, again=False) if isinstance(one, SegmentOps) else one for one in left]
            options = replace(options, passes=left)
        return options

    def allocation(self, value: object) -> Options:
        """Where the elements of an input lie in its bytes, each by a chain from the logical dimensions."""
        if not isinstance(value, Mapping) or not value:
            fix = 'write allocation={"%a": "split(0, 4)"}'
            raise FusekitError(f"allocation={value!r:.60} names no input", "what_if", fix)
        chains = tuple((str(name), str(chain)) for name, chain in cast("Mapping[object, object]", value).items())
        return replace(self.options, passes=[Allocated(chains), *self.options.passes])

    def alias(self, value: object) -> Options:
        return replace(self.options, alias=value)

    def precision(self, value: object) -> Options:
        return replace(self.options, precision=value)

    # ---- ids

    def _segments(self, name: str) -> list[NodeId]:
        """The segment, or those of an op or a tensor, of which something is launched."""
        graph = self.graph
        node = self._known(name)
        if name.startswith("%"):
            ops = [graph.producer(node)] if graph.has_producer(node) else list(graph.users(node))
        else:
            ops = [node]
        homes = [node] if name.startswith("$") else dict.fromkeys(s for op in ops for s in graph.segments_of(op))
        found = [s for s in homes if graph.segment(s).scheduler != "alias"]
        if not found:
            raise FusekitError(f"{name} launches nothing", name, f"name one of {', '.join(_launching(graph))}")
        return found

    def _roots(self, name: str) -> tuple[NodeId, ...]:
        """What stands for these segments in options: stores and library calls."""
        members = (op for s in self._segments(name) for op in self.graph.members(s))
        return tuple(dict.fromkeys(op for op in members if not self.graph.results(op) or _is_call(self.graph, op)))

    def _root(self, name: str) -> NodeId:
        """One that stands for them, where it can be of the program: the segmenter may leave out what it added."""
        roots = self._roots(name)
        return next((op for op in roots if self._is_flushed(op) or _is_call(self.graph, op)), roots[0])

    def _is_flushed(self, op: NodeId) -> bool:
        what = self.graph.what(op)
        return isinstance(what, core.Store) and what.flush is not None

    def _value(self, name: str) -> NodeId:
        """The value that a cut comes after."""
        node, graph = self._known(name), self.graph
        tensors = graph.results(node) if name.startswith("^") else (node,)
        is_value = len(tensors) == 1 and graph.is_value(tensors[0]) and graph.users(tensors[0])
        if not is_value or isinstance(graph.what(graph.producer(tensors[0])), core.Load):
            what = f"{name} is no value that a kernel computes: it is in memory already"
            raise FusekitError(what, name, "name a value, such as the operand of a store or of another op in a kernel")
        return tensors[0]

    def _known(self, name: str) -> NodeId:
        if name not in self.graph:
            fix = f"segments are {', '.join(self.graph.segments())}; ops and values stand in x.text()"
            raise FusekitError(f"the exploration has no {name!r}", None, fix)
        return NodeId(name)


DECISIONS: dict[str, Callable[[Asked, object], Options]] = {
    "merge": Asked.merge,
    "split": Asked.split,
    "order": Asked.order,
    "schedule": Asked.schedule,
    "without": Asked.without,
    "allocation": Asked.allocation,
    "alias": Asked.alias,
    "precision": Asked.precision,
}


def _is_call(graph: Graph, op: NodeId) -> bool:
    return any(graph.segment(s).scheduler == "extern" for s in graph.segments_of(op))


def _launching(graph: Graph) -> list[str]:
    return [s for s in graph.segments() if graph.segment(s).scheduler != "alias"]


def _names(what: str, value: object, example: str, least: int) -> list[str]:
    """One id or several; a segment of ``x.segments`` stands for its own."""
    many = cast("Sequence[object]", value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    found = [getattr(one, "id", one) for one in many]
    if len(found) < least or not all(isinstance(one, str) for one in found):
        raise FusekitError(f"{what}={value!r:.60} is not enough", "what_if", f"give {example}")
    return cast("list[str]", found)


def _said(value: object) -> object:
    """Segments by their ids."""
    if isinstance(value, tuple | list):
        return tuple(getattr(one, "id", one) for one in cast("Sequence[object]", value))
    return getattr(value, "id", value)


def _change(options: Options, name: str, kind: type[P]) -> P:
    """The pass of ours that decides this. Raises FusekitError where the pipeline has none."""
    found = next((one for one in options.passes if isinstance(one, kind)), None)
    if found is None:
        raise FusekitError(f"this pipeline has no pass {name} to decide that", "what_if", "explore with fk.PIPELINE")
    return found


def _put(options: Options, changed: Pass) -> Options:
    """The pass in place of the one of its kind."""
    return replace(options, passes=[changed if type(one) is type(changed) else one for one in options.passes])
