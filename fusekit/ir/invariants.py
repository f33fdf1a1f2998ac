"""What is legal at each stage: small named checks, run whenever a draft finishes.

A check yields (node, problem) pairs; none means that the invariant holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import prod

from fusekit.ids import NodeId
from fusekit.ir import core, domain_rules, lookup_rules, value_rules
from fusekit.ir.arguments import Operand, is_tuple
from fusekit.ir.graph import Graph

Problems = Iterator[tuple[NodeId, str]]


@dataclass(frozen=True)
class Invariant:
    """``name`` is what an InvalidGraph error quotes."""

    name: str
    check: Callable[[Graph], Problems]


def broken(graph: Graph, invariants: Iterable[Invariant]) -> tuple[str, NodeId, str] | None:
    """(invariant, node, problem) of the first one that does not hold."""
    for invariant in invariants:
        for node, problem in invariant.check(graph):
            return invariant.name, node, problem
    return None


def _defined_before_use(graph: Graph) -> Problems:
    """Every operand is made by an earlier op; a place may also just name memory."""
    later = {tensor for op in graph.ops() for tensor in graph.results(op)}
    for op in graph.ops():
        for tensor in graph.operands(op):
            if tensor in later:
                yield op, f"takes {tensor} before it is made"
            elif graph.is_value(tensor) and not graph.has_producer(tensor):
                yield op, f"takes the value {tensor}, which nothing makes"
        later.difference_update(graph.results(op))


def _operands_numbered(graph: Graph) -> Problems:
    """The numbers that args and kwargs mention are exactly those of the Use edges."""
    for op in graph.ops():
        payload, count = graph.op(op), len(graph.operands(op))
        mentioned = set(_operand_numbers((payload.args, payload.kwargs)))
        if mentioned != set(range(count)):
            yield op, f"mentions the operands {sorted(mentioned)} and has {count}"
        if any(not 0 <= w < count for w in payload.writes):
            yield op, f"writes an operand that it has not: {payload.writes}"
        made = len(graph.results(op))
        if any(not (0 <= r < made and 0 <= o < count) for r, o in payload.same):
            yield op, f"has {made} results and {count} operands, and says of others that they are the same"


def _operand_numbers(value: object) -> Iterator[int]:
    if isinstance(value, Operand):
        yield value.position
    elif is_tuple(value):
        for item in value:
            yield from _operand_numbers(item)


def _one_producer(graph: Graph) -> Problems:
    seen: dict[NodeId, NodeId] = {}
    for op in graph.ops():
        for tensor in graph.results(op):
            if tensor in seen:
                yield tensor, f"is made by {seen[tensor]} and by {op}"
            seen[tensor] = op


LARGEST = 1 << 62  # kernels compute positions in 64 bits, and add some


def _sizes_fit(graph: Graph) -> Problems:
    """No size is negative, and every position fits into the integers that kernels compute in."""
    for block in graph.blocks():
        if not 0 <= graph.block(block).nbytes < LARGEST:
            yield block, f"has {graph.block(block).nbytes} bytes"
    for tensor in graph.tensors():
        payload, lives = graph.tensor(tensor), graph.lives(tensor)
        sizes = prod(max(n, 1) for n in payload.shape) * payload.dtype.width
        if sizes >= LARGEST or any(n < 0 for n in payload.shape):
            yield tensor, f"has the shape {list(payload.shape)}"
        if lives is None:
            continue
        layout = lives.layout
        if len(layout.strides) != len(layout.shape):
            yield tensor, f"has {len(layout.shape)} dimensions and {len(layout.strides)} strides"
        steps = sum(abs(s) * max(n, 1) for n, s in zip(layout.shape, layout.strides, strict=False))
        if steps + max(map(abs, layout.offset.bounds)) >= LARGEST:
            yield tensor, "has strides or an offset past any memory"


def _layouts_fit(graph: Graph) -> Problems:
    """A place has the shape and dtype of its layout and lies inside its block."""
    for tensor in graph.tensors():
        block = graph.block_of(tensor)
        if block is None:
            continue
        payload, layout = graph.tensor(tensor), graph.layout(tensor)
        if (payload.shape, payload.dtype) != (layout.shape, layout.dtype):
            yield tensor, f"is {payload.dtype}{list(payload.shape)}, its layout {layout.dtype}{list(layout.shape)}"
        low, high = layout.extent
        if layout.numel and (low < 0 or high > graph.block(block).nbytes):
            yield tensor, f"reaches bytes {low} to {high} of {block}, which has {graph.block(block).nbytes}"


def _only_places(graph: Graph) -> Problems:
    for tensor in graph.tensors():
        if graph.is_value(tensor):
            yield tensor, "has no memory, which the program layer does not know"


def _values_are_pure(graph: Graph) -> Problems:
    """Only loads turn places into values, only stores values into places; whatever else takes values makes values."""
    for op in graph.ops():
        ins = [graph.is_value(t) for t in graph.operands(op)]
        outs = [graph.is_value(t) for t in graph.results(op)]
        match graph.what(op):
            case core.Load():
                if ins != [False] or outs != [True]:
                    yield op, "a load takes one place and makes one value"
            case core.Store():
                if ins != [True, False] or outs:
                    yield op, "a store takes a value and a place and makes nothing"
            case what:
                if len({*ins, *outs}) > 1:
                    yield op, "mixes values and places"
                elif any(ins) and what.writes:
                    yield op, "writes a value"


def _shapes_agree(graph: Graph) -> Problems:
    """Loads and stores keep shape and dtype; windows and overlays have one form a source dimension."""
    for op in graph.ops():
        tensors = [graph.tensor(t) for t in (*graph.operands(op), *graph.results(op))]
        match graph.what(op):
            case core.Load() | core.Store():
                if tensors[0] != tensors[1]:
                    yield op, f"{tensors[0]} is not {tensors[1]}"
            case core.Window(index) | core.Overlay(index):
                if len(index) != len(tensors[len(graph.operands(op)) - 1].shape):
                    yield op, f"has no form for each dimension of {graph.operands(op)[-1]}"
            case _:
                pass


def _reductions_fit(graph: Graph) -> Problems:
    """A reduction leaves out its dimensions; a look-up has the shape that its source, index and dimension give."""
    for op in graph.ops():
        ins = [graph.tensor(t).shape for t in graph.operands(op)]
        outs = [graph.tensor(t).shape for t in graph.results(op)]
        match graph.what(op):
            case core.Reduce(_, dims):
                if outs != [tuple(n for k, n in enumerate(ins[0]) if k not in dims)]:
                    yield op, f"reduces {list(ins[0])} over {dims} to {outs}"
            case core.Take(dim):
                if outs != [(*ins[0][:dim], *ins[1], *ins[0][dim + 1 :])]:
                    yield op, f"looks up {list(ins[1])} in {list(ins[0])} along {dim} and gives {outs}"
            case core.Gather(dim):
                if outs != [ins[1]]:
                    yield op, f"looks up {list(ins[1])} in {list(ins[0])} along {dim} and gives {outs}"
            case _:
                pass


def _memory_is_ordered(graph: Graph) -> Problems:
    """Ordering edges follow program order."""
    for first, then, _ in graph.orderings():
        if graph.position(first) >= graph.position(then):
            yield then, f"must follow {first}, which comes later in the program"


def _every_op_has_a_segment(graph: Graph) -> Problems:
    for op in graph.ops():
        if not isinstance(graph.what(op), core.Input | core.Return) and not graph.segments_of(op):
            yield op, "is in no segment"


def _one_home(graph: Graph) -> Problems:
    """Only what may be computed again is in several segments: a store, or a library call, would happen twice."""
    for op in graph.ops():
        if len(graph.segments_of(op)) > 1 and not (graph.results(op) and graph.is_value(graph.results(op)[0])):
            yield op, f"runs in {' and in '.join(graph.segments_of(op))}"


def _no_segment_yet(graph: Graph) -> Problems:
    for segment in graph.segments():
        yield segment, "is a segment already"


def _segments_are_ordered(graph: Graph) -> Problems:
    """What crosses, and what must follow, goes from an earlier segment to a later one: no cycle is possible."""
    place = {s: k for k, s in enumerate(graph.segments())}
    for first, then, tensor, _ in graph.boundaries():
        if place[first] >= place[then]:
            yield then, f"takes {tensor} from {first}, which runs later"
    for first, then, _ in graph.orderings():
        for a in graph.segments_of(first):
            for b in graph.segments_of(then):
                if place[a] > place[b]:
                    yield b, f"holds {then}, which must follow {first} of the later {a}"


COMMON = (
    Invariant("defined-before-use", _defined_before_use),
    Invariant("operands-numbered", _operands_numbered),
    Invariant("one-producer", _one_producer),
    Invariant("sizes-fit", _sizes_fit),
    Invariant("layouts-fit", _layouts_fit),
    Invariant("memory-is-ordered", _memory_is_ordered),
)
PROGRAM = (*COMMON, Invariant("only-places", _only_places))
FUNCTIONAL = (
    *COMMON,
    Invariant("values-are-pure", _values_are_pure),
    Invariant("shapes-agree", _shapes_agree),
    Invariant("reductions-fit", _reductions_fit),
)
UNSEGMENTED = (*FUNCTIONAL, Invariant("no-segment-yet", _no_segment_yet))  # what a segmenter takes
SEGMENTED = (
    *FUNCTIONAL,
    Invariant("every-op-has-a-segment", _every_op_has_a_segment),
    Invariant("segments-are-ordered", _segments_are_ordered),
)
DOMAINS = (
    Invariant("transforms-take-and-make", domain_rules.arity_fits),
    Invariant("extents-multiply", domain_rules.extents_multiply),
    Invariant("reductions-stay-apart", domain_rules.reductions_stay_apart),
    Invariant("transforms-are-a-dag", domain_rules.transforms_are_a_dag),
    Invariant("domains-cover-logical", domain_rules.domains_cover_logical),
)
SCHEDULED = (*SEGMENTED, *DOMAINS)
PARSED = (*COMMON, Invariant("one-home", _one_home), *DOMAINS)  # of any stage: a text does not say of which
RANGES = (  # decided by ranges, which may be wider than the values are
    Invariant("forms-stay-inside", value_rules.forms_stay_inside),
    Invariant("lookups-are-checked", lookup_rules.lookups_are_checked),
)
VALUES = (
    Invariant("ops-are-known", value_rules.ops_are_known),
    Invariant("elements-agree", value_rules.elements_agree),
    *RANGES,
)  # what our passes keep by construction, and a graph of a user's is held against; the first comes before all others
RUNNABLE = (VALUES[0], *SEGMENTED, Invariant("one-home", _one_home), *DOMAINS, *VALUES[1:])
