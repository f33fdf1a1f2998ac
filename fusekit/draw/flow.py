"""The flow of data as parts: ops as cards, tensors as pills where they cross the function or are memory, and arrows.

The same walk serves a program (every tensor a place, every op a card), values, and segments: a load is the pill of its
place, a store the pill of the place that it writes; so a person reads ``a -> exp -> a (written back)``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fusekit.draw.notes import Notes, op_facts, tensor_facts
from fusekit.draw.parts import Card, Edge, Pill
from fusekit.draw.words import letter_of, line_text, op_detail, op_kind, op_title, tensor_text, type_text
from fusekit.ids import NodeId
from fusekit.ir import Graph, core

Home = NodeId | None  # the segment that a part is drawn in
GHOSTS = 24  # removed ops that are drawn


@dataclass
class Flow:
    """Parts and arrows of one picture, in the order of the walk. ``home`` says in which segment a part is."""

    graph: Graph
    notes: Notes
    parts: dict[str, Card | Pill] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    home: dict[str, Home] = field(default_factory=dict)
    drawn: dict[NodeId, list[str]] = field(default_factory=dict)  # parts of a graph node
    _value: dict[tuple[NodeId, Home], str] = field(default_factory=dict)
    _joined: set[tuple[str, str]] = field(default_factory=set)
    _place: dict[NodeId, str] = field(default_factory=dict)  # the part that a place was last made by
    _block: dict[NodeId | None, str] = field(default_factory=dict)  # the part that a block was last written by

    def walk(self) -> Flow:
        """Inputs, then ops in program order (once a segment that they are in), then outputs, then what was removed."""
        graph = self.graph
        for tensor in graph.inputs():
            self._pill(tensor, crosses=True)
        for op in graph.ops():
            for home in graph.segments_of(op) or (None,):
                self._step(op, home)
        for tensor in graph.outputs():
            self._output(tensor)
        self._ghosts()
        return self

    # ---- ops

    def _step(self, op: NodeId, home: Home) -> None:
        match self.graph.what(op):
            case core.Input() | core.Return():
                pass
            case core.Load():
                self._load(op, home)
            case core.Store():
                self._store(op, home)
            case _:
                self._call(op, home)

    def _load(self, op: NodeId, home: Home) -> None:
        place, value = self.graph.operands(op)[0], self.graph.results(op)[0]
        key = self._source_of_place(place)
        self._value[value, home] = key
        self.drawn.setdefault(op, []).append(key)

    def _store(self, op: NodeId, home: Home) -> None:
        graph = self.graph
        value, place = graph.operands(op)
        block = graph.block_of(place)
        fresh = block is not None and graph.block(block).kind == "fresh"
        crosses = not fresh or place in graph.outputs()
        remark = "" if fresh else "written back"
        key = self._pill(place, crosses=crosses, remark=remark, about=op, home=None if crosses else home)
        self._edge(self._source(value, home), key, op)

    def _call(self, op: NodeId, home: Home) -> None:
        graph, payload = self.graph, self.graph.op(op)
        key = self._free(op, home)
        mark = self.notes.mark(op)
        tip = self.notes.tip(*op_facts(graph, op), self.notes.call_before(op), about=(op, *graph.results(op)))
        self._add(Card(
            key, op, op_title(graph, op), op_kind(graph, op), op_detail(graph, op), line_text(payload), mark,
            self.notes.was(graph, op), tip,
        ), home)  # fmt: skip
        for tensor in dict.fromkeys(graph.operands(op)):
            self._edge(self._source(tensor, home), key, op)
        for tensor in graph.results(op):
            self._value[tensor, home] = key
            if not graph.is_value(tensor):
                self._place[tensor] = key
                if graph.block_of(tensor) not in self._block:
                    self._block[graph.block_of(tensor)] = key
        for number in payload.writes:
            written = graph.operands(op)[number]
            self._place[written] = self._block[graph.block_of(written)] = key

    # ---- tensors

    def _output(self, tensor: NodeId) -> None:
        pills = [self.parts[key] for key in self.drawn.get(tensor, ())]
        if pills and isinstance(last := pills[-1], Pill) and tensor not in self.graph.inputs():
            self.parts[last.key] = replace(last, crosses=True, remark=last.remark or self._out_text(tensor))
            self.home[last.key] = None
        elif pills and tensor in self.graph.inputs() and len(pills) > 1:
            self.parts[pills[-1].key] = replace(pills[-1], remark="written back, returned")  # pyright: ignore[reportArgumentType]
        else:
            source = self._source(tensor, None)
            remark = "returned" if tensor in self.graph.inputs() else self._out_text(tensor)
            self._edge(source, self._pill(tensor, crosses=True, remark=remark), tensor)

    def _out_text(self, tensor: NodeId) -> str:
        """``out``, or with its number where there are several."""
        outputs = self.graph.outputs()
        return "out" if len(outputs) == 1 else f"out {outputs.index(tensor)}"

    def _pill(
        self, tensor: NodeId, *, crosses: bool, remark: str = "", about: NodeId | None = None, home: Home = None
    ) -> str:
        graph = self.graph
        block, key = graph.block_of(tensor), self._free(tensor, home)
        letter = letter_of(graph, block)
        owner = self._block.get(block) is None if block is not None else True
        name = graph.tensor(tensor).name or (tensor_text(graph, tensor) if not graph.is_value(tensor) else "out")
        type_ = type_text(graph.tensor(tensor)) if not remark.startswith("written") else ""
        tip = self.notes.tip(*tensor_facts(graph, tensor), about=(tensor, *((about,) if about else ())))
        mark = self.notes.mark(about or tensor)
        self._add(
            Pill(
                key,
                tensor,
                name,
                type_,
                letter,
                is_part(graph, tensor),
                crosses,
                remark,
                mark if mark != "changed" else "",
                tip,
            ),
            home,
        )
        if about:
            self.drawn.setdefault(about, []).append(key)
        self._place[tensor] = key
        if block is not None and (owner or about is not None):
            self._block[block] = key
        return key

    def _source_of_place(self, place: NodeId) -> str:
        """The part that made a place; one that only names memory gets a pill, tied to its block's last writer."""
        if place in self._place:
            return self._place[place]
        writer = self._block.get(self.graph.block_of(place))
        key = self._pill(place, crosses=False)
        if writer is not None:
            self.edges.append(Edge(writer, key, "memory"))
        return key

    def _source(self, tensor: NodeId, home: Home) -> str:
        if not self.graph.is_value(tensor):
            return self._source_of_place(tensor)
        found = self._value.get((tensor, home)) or self._value.get((tensor, None))
        return found or next(key for (t, _), key in self._value.items() if t == tensor)

    # ---- bookkeeping

    def _free(self, node: NodeId, home: Home) -> str:
        key, number = str(node), 1
        while key in self.parts:
            number += 1
            key = f"{node}~{number}"
        return key

    def _add(self, part: Card | Pill, home: Home) -> None:
        self.parts[part.key] = part
        self.home[part.key] = home
        self.drawn.setdefault(NodeId(part.node), []).append(part.key)

    def _edge(self, tail: str, head: str, about: NodeId) -> None:
        if (tail, head) in self._joined:
            return
        self._joined.add((tail, head))
        part = self.parts[head]
        new = self.notes.mark(about) == "added" or part.mark == "added" or self.parts[tail].mark == "added"
        self.edges.append(Edge(tail, head, "new" if new else "data"))

    # ---- what was removed

    def _ghosts(self) -> None:
        """Cards of ops that were there before, with dashed arrows from and to what is left of their neighbours."""
        before = self.notes.before
        if before is None:
            return
        gone = [
            op
            for op in before.ops()
            if op not in self.graph and not isinstance(before.what(op), core.Load | core.Store)
        ]
        for op in gone[:GHOSTS]:
            key = self._free(op, None)
            tip = self.notes.tip("removed", *op_facts(before, op), about=(op,))
            card = Card(
                key,
                op,
                op_title(before, op),
                op_kind(before, op),
                op_detail(before, op),
                line_text(before.op(op)),
                "removed",
                "",
                tip,
            )
            self._add(card, None)
        for op in gone[:GHOSTS]:
            self._ghost_edges(before, op)

    def _ghost_edges(self, before: Graph, op: NodeId) -> None:
        key = self.drawn[op][0]
        makers = [before.producer(t) if before.has_producer(t) else t for t in before.operands(op)]
        tails = [self._left(maker, t) for maker, t in zip(makers, before.operands(op), strict=True)]
        users = [user for t in before.results(op) for user in before.users(t)]
        heads = [self._left(user, user) for user in users if user not in before.ops() or user in self.graph]
        for tail in dict.fromkeys(t for t in tails if t):
            self.edges.append(Edge(tail, key, "ghost"))
        for head in dict.fromkeys(h for h in heads if h):
            self.edges.append(Edge(key, head, "ghost"))
        near = [self.home.get(k) for k in (*heads, *tails) if k and self.home.get(k)]
        self.home[key] = near[0] if near else None

    def _left(self, *nodes: NodeId) -> str | None:
        return next((self.drawn[n][0] for n in nodes if n in self.drawn), None)


def is_part(graph: Graph, tensor: NodeId) -> bool:
    """Is it a view: of a place that the program made, or (an input) of an earlier or larger input of its block?"""
    lives, block = graph.lives(tensor), graph.block_of(tensor)
    if lives is None or lives.role != "input":
        return lives is not None and lives.role == "alias"
    rivals = [t for t in graph.inputs() if graph.block_of(t) == block]
    return rivals[0] != tensor and max(rivals, key=lambda t: graph.layout(t).nbytes) != tensor
