"""What a graph says of the call, held against what was recorded: before a plan is made, nothing is believed.

A recording comes from actual tensors, and a call's key (or an exploration's own look at its arguments) sees to it that
later ones are like them. So a graph that agrees with the recording wherever the two meet (arguments, captures,
constants, numbers, objects, what is written and what comes back) works on real memory of the size that it believes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch._ops import OpOverload

from fusekit.errors import InvalidGraph
from fusekit.ids import NodeId
from fusekit.index import Form, Var
from fusekit.ir import INPUT, RETURN, Graph, Guard, Operand, Symbol, core, is_tuple
from fusekit.ir.invariants import RANGES, RUNNABLE, broken
from fusekit.memory.segment_rules import SEGMENTS
from fusekit.run.decode import overload

Problems = Iterator[tuple[object, str]]
FIX = "a pass may change what is computed, not what the call gives and gets: see docs/passes/README.md"
# ops that give a tensor other memory, or open files: only where the recording has them
MOVES_MEMORY = ("set_", "set_data", "resize_", "resize", "resize_as_", "_resize_output_", "from_file", "_pin_memory")


OURS = tuple(rule for rule in RUNNABLE if rule not in RANGES)


def hold(graph: Graph, program: Graph | None = None, *, is_foreign: bool) -> None:
    """Raises InvalidGraph for a graph with segments that cannot run within real memory; ``program``: as recorded.

    ``is_foreign``: a pass of a user's had it in its hands. Rules that are decided by ranges and by whole layouts hold
    only for these: what a graph may touch is more than what it does, so such a rule refuses some graphs that are right,
    and our own passes keep them by construction.
    """
    if problem := broken(graph, (*RUNNABLE, *SEGMENTS) if is_foreign else OURS):
        name, node, what = problem
        raise InvalidGraph(f"this graph cannot run: {node} {what} (the rule {name})", _origin(graph, node), FIX)
    for rule in (calls_say_what_they_write(graph), *(() if program is None else _against(graph, program))):
        for node, what in rule:
            raise InvalidGraph(f"this graph cannot run: {node} {what}", _origin(graph, node), FIX)


def _origin(graph: Graph, node: object) -> object:
    origin = graph.op(NodeId(str(node))).origin if node in graph.ops() else None
    return origin or node


def _against(graph: Graph, program: Graph) -> tuple[Problems, ...]:
    return (
        inputs_are_recorded(graph, program),
        blocks_are_recorded(graph, program),
        writes_are_recorded(graph, program),
        the_call_is_recorded(graph, program),
        outputs_are_recorded(graph, program),
    )


def _homes(graph: Graph, program: Graph) -> dict[NodeId, NodeId]:
    """Blocks of the inputs, and which recorded block each is."""
    pairs = zip(graph.inputs(), program.inputs(), strict=False)
    blocks = ((graph.block_of(mine), program.block_of(theirs)) for mine, theirs in pairs)
    return {mine: theirs for mine, theirs in blocks if mine is not None and theirs is not None}


def inputs_are_recorded(graph: Graph, program: Graph) -> Problems:
    """Inputs lie where the recorded ones do, and share memory as those do."""
    mine, theirs = graph.inputs(), program.inputs()
    if sum(graph.op(op).target == INPUT for op in graph.ops()) != 1 or len(mine) != len(theirs):
        yield "fk.input", f"gives {len(mine)} inputs, recorded were {len(theirs)}"
    homes, back = _homes(graph, program), dict[NodeId, NodeId]()
    for one, recorded in zip(mine, theirs, strict=False):
        block, home = graph.block_of(one), program.block_of(recorded)
        if block is None or home is None or graph.layout(one) != program.layout(recorded):
            yield one, "has another layout or element type than the input that was recorded"
        elif graph.block(block) != program.block(home):
            yield block, f"is {_said(graph, block)}, recorded was {_said(program, home)}"
        elif homes[block] != home or back.setdefault(home, block) != block:
            yield one, "shares memory with other inputs than were recorded"


def _said(graph: Graph, block: NodeId) -> str:
    payload = graph.block(block)
    return f"{payload.nbytes} bytes {payload.device} {payload.kind}"


def blocks_are_recorded(graph: Graph, program: Graph) -> Problems:
    """Blocks of callers are those of the inputs, all others are fresh, on devices that took part."""
    given = {graph.block_of(t) for t in graph.inputs()}
    devices = {program.block(block).device for block in program.blocks()}
    for block in graph.blocks():
        payload = graph.block(block)
        if (payload.kind == "fresh") == (block in given):
            yield block, f"is {payload.kind}, and {'an input' if block in given else 'no input'} lies in it"
        if payload.device not in devices:
            yield block, f"is on {payload.device}, where nothing of the recording is"
    full = {graph.block_of(t) for t in graph.tensors() if not graph.is_value(t) and graph.layout(t).numel}
    homes = _homes(graph, program)
    theirs = {program.block_of(t) for t in program.tensors() if not program.is_value(t) and program.layout(t).numel}
    for block in given & full:
        if block is not None and homes[block] not in theirs:
            yield block, "has no byte in the recording, and a tensor with elements lies in it"


def writes_are_recorded(graph: Graph, program: Graph) -> Problems:
    """Bytes of callers are written only where the recorded program writes: they may be read-only, and versions of their
    tensors are stepped by what was recorded."""
    homes = _homes(graph, program)
    allowed: dict[NodeId, list[tuple[int, int]]] = {}
    for _, block, span in _writes(program):
        allowed.setdefault(block, []).append(span)
    joined = {block: _joined(spans) for block, spans in allowed.items()}
    for op, block, (low, high) in _writes(graph):
        if block in homes and low < high:
            spans = joined.get(homes[block], ())
            if not any(first <= low and high <= last for first, last in spans):
                yield op, f"writes bytes {low} to {high} of {block}, which the recorded program does not write"
    mine = set(graph.blocks())
    for op, block, _ in _writes(program):
        if program.block(block).kind != "fresh" and block not in mine:
            yield block, f"is gone, and {op} of the recorded program writes it"


def _writes(graph: Graph) -> Iterator[tuple[NodeId, NodeId, tuple[int, int]]]:
    for op in graph.ops():
        payload, operands = graph.op(op), graph.operands(op)
        for tensor in (operands[w] for w in payload.writes):
            if (block := graph.block_of(tensor)) is not None:
                yield op, block, graph.layout(tensor).extent


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if out and low <= out[-1][1]:
            out[-1] = out[-1][0], max(high, out[-1][1])
        else:
            out.append((low, high))
    return out


def the_call_is_recorded(graph: Graph, program: Graph) -> Problems:
    """Numbers are the recorded ones, with their ranges, and so are objects of the call, and ops that move memory."""
    numbers = {number.index: number for number in program.numbers()}
    ranges = {var.name: var.extent for _, var in _variables(program)}
    symbols = {s.name for _, s in _symbols(program)}
    for number in graph.numbers():
        known = numbers.get(number.index)
        if known is None and f"n{number.index}" not in ranges:
            yield f"n{number.index}", "is a number that the call does not have"
        elif known is not None and type(known.example) is not type(number.example):
            yield f"n{number.index}", f"was recorded as {known.example!r:.40}, and is {number.example!r:.40} here"
    recorded = {program.op(op).target for op in program.ops()}
    for op in graph.ops():
        target = graph.op(op).target
        if target not in recorded and target.split(".")[1:2] and target.split(".")[1] in MOVES_MEMORY:
            yield op, f"calls {target}, which moves memory and was not recorded"
    for op, var in _variables(graph):
        if ranges.get(var.name) != var.extent:
            yield op, f"has {var.name} below {var.extent}, recorded was {ranges.get(var.name, 'no such number')}"
    for op, symbol in _symbols(graph):
        if symbol.name.startswith(("leaf:", "object:", "output:")) and symbol.name not in symbols:
            yield op, f"takes {symbol.name!r:.40}, which the call does not have"


def _arguments(value: object) -> Iterator[object]:
    if is_tuple(value):
        for item in value:
            yield from _arguments(item)
    else:
        yield value


def _symbols(graph: Graph) -> Iterator[tuple[NodeId, Symbol]]:
    for op in graph.ops():
        payload = graph.op(op)
        for value in _arguments((payload.args, *((v,) for _, v in payload.kwargs))):
            if isinstance(value, Symbol):
                yield op, value


def _variables(graph: Graph) -> Iterator[tuple[NodeId, Var]]:
    """The numbers of the call in layouts and index forms."""
    for tensor in graph.tensors():
        if (lives := graph.lives(tensor)) is not None and lives.layout.offset.terms:
            yield from ((tensor, var) for var in lives.layout.offset.free)
    for op in graph.ops():
        payload = graph.op(op)
        for value in _arguments((payload.args, *((v,) for _, v in payload.kwargs))):
            form = value.form if isinstance(value, Guard) else value
            if isinstance(form, Form) and form.terms:
                yield from ((op, var) for var in form.free if var.name.startswith("n"))


def outputs_are_recorded(graph: Graph, program: Graph) -> Problems:
    """As many results come back as were recorded, from memory, and the same arguments get new metadata."""
    ends, recorded = _ends(graph), _ends(program)
    if len(ends) != 1 or len(recorded) != 1:
        yield "fk.return", f"is there {len(ends)} times"
        return
    (mine, theirs) = graph.op(ends[0]), program.op(recorded[0])
    if [isinstance(a, Operand) for a in mine.args] != [isinstance(a, Operand) for a in theirs.args]:
        yield (
            ends[0],
            f"gives {len(mine.args)} results, recorded were {len(theirs.args)}, or others of them are tensors",
        )
    if any(graph.is_value(t) for t in graph.operands(ends[0])):
        yield ends[0], "gives a value, which is nowhere in memory"
        return
    places = [
        [_relaid(g, end, pair) for pair in _pairs(g, end)] for g, end in ((graph, ends[0]), (program, recorded[0]))
    ]
    if places[0] != places[1]:
        yield ends[0], "gives an argument other metadata than was recorded"


def _ends(graph: Graph) -> list[NodeId]:
    return [op for op in graph.ops() if graph.op(op).target == RETURN]


def _pairs(graph: Graph, end: NodeId) -> tuple[object, ...]:
    found = graph.op(end).kwarg("relayout", ())
    return found if is_tuple(found) else (found,)


def _relaid(graph: Graph, end: NodeId, pair: object) -> object:
    """(input, layout that it gets)."""
    if not is_tuple(pair) or len(pair) != 2 or not isinstance(pair[1], Operand):
        return pair
    return pair[0], graph.layout(graph.operands(end)[pair[1].position])


def calls_say_what_they_write(graph: Graph) -> Problems:
    """Library calls are ops of torch, and write no operand of which the graph does not say so."""
    for op in graph.ops():
        payload = graph.what(op)
        if not isinstance(payload, core.Call):
            continue
        if payload.target.count(".") != 2:
            yield op, f"calls {payload.target:.40}, which is no op: write namespace.name.overload"
            continue
        found = overload(payload.target)
        if not isinstance(found, OpOverload):
            yield op, f"calls {payload.target:.40}, which is no op of torch"
            continue
        named = dict(payload.kwargs)
        for k, argument in enumerate(found._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            value = payload.args[k] if k < len(payload.args) else named.get(argument.name)
            missing = {v.position for v in _arguments(value) if isinstance(v, Operand)} - set(payload.writes)
            if missing:
                yield op, f"writes its operand {min(missing)}, and the graph does not say so"
