"""The one holder of a program: a frozen multigraph of tensors, ops, blocks and segments, and typed questions to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import networkx as nx

from fusekit.escape import line
from fusekit.ids import BLOCK, ITERDOMAIN, OP, SEGMENT, TENSOR, TRANSFORM, NodeId, kind_of
from fusekit.index import Form
from fusekit.ir import core
from fusekit.ir.arguments import Number, exact
from fusekit.ir.domains import Axis, DomainKind, IterDomain, TensorDomain, Transform
from fusekit.ir.layout import Layout
from fusekit.ir.payloads import Block, Boundary, Def, Edge, Lives, Member, Node, Op, Ordering, Segment, Tensor, Use

if TYPE_CHECKING:
    from fusekit.ir.draft import Draft

INPUT, RETURN = core.Input.target, core.Return.target
T = TypeVar("T")
Holder: TypeAlias = "nx.MultiDiGraph[NodeId]"


def edges_of(holder: Holder) -> Iterator[tuple[NodeId, NodeId, Any, Edge]]:
    """(from, to, key, payload); a key is what tells the edges between two nodes apart."""
    return iter(cast("Iterable[tuple[NodeId, NodeId, Any, Edge]]", holder.edges(keys=True, data="data")))


class Graph:
    """A program at one stage. A value: nothing changes it; a Draft makes the next one.

    Ops keep the program's order, which is also the order of execution. Everything that can be computed (users,
    producers, members) is computed from the edges, once, when the graph is made.
    """

    def __init__(self, name: str, holder: Holder):
        """``holder`` is taken over; its nodes stand in program order. Passes use ``Draft.finish``."""
        self.name = name
        self._nx: Holder = holder
        nx.freeze(holder)  # pyright: ignore[reportUnknownMemberType]  (its stub gives no result type)
        self._data: dict[NodeId, Node] = {node: attributes["data"] for node, attributes in holder.nodes(data=True)}
        self._by_kind: dict[str, tuple[NodeId, ...]] = {}
        for sigil in (TENSOR, OP, BLOCK, SEGMENT, ITERDOMAIN, TRANSFORM):
            self._by_kind[sigil] = tuple(node for node in self._data if kind_of(node) == sigil)
        self._answers: dict[Hashable, object] = {}
        self._rank = {node: k for k, node in enumerate(self._data)}
        self._index()

    def _index(self) -> None:
        operands: dict[NodeId, list[tuple[int, NodeId]]] = {}
        results: dict[NodeId, list[tuple[int, NodeId]]] = {}
        members: dict[NodeId, list[tuple[int, NodeId]]] = {}
        axes: dict[tuple[NodeId, NodeId], list[tuple[Axis, NodeId]]] = {}
        self._producer: dict[NodeId, NodeId] = {}
        self._lives: dict[NodeId, tuple[NodeId, Lives]] = {}
        self._orderings: list[tuple[NodeId, NodeId, Ordering]] = []
        self._boundaries: list[tuple[NodeId, NodeId, NodeId, Boundary]] = []
        for a, b, key, data in edges_of(self._nx):
            match data:
                case Use(operand):
                    operands.setdefault(b, []).append((operand, a))
                case Def(result):
                    results.setdefault(a, []).append((result, b))
                    self._producer[b] = a
                case Lives():
                    self._lives[a] = (b, data)
                case Ordering():
                    self._orderings.append((a, b, data))
                case Member(order):
                    members.setdefault(a, []).append((order, b))
                case Boundary():
                    self._boundaries.append((a, b, key, data))
                case Axis():
                    axes.setdefault((a, key[0]), []).append((data, b))
        self._operands = {op: tuple(t for _, t in sorted(pairs)) for op, pairs in operands.items()}
        self._results = {op: tuple(t for _, t in sorted(pairs)) for op, pairs in results.items()}
        self._members = {s: tuple(op for _, op in sorted(pairs)) for s, pairs in members.items()}
        self._domains = {owner: _tensor_domain(found) for owner, found in axes.items()}
        self._place = {op: k for k, op in enumerate(self._by_kind[OP])}
        self._orderings.sort(key=lambda e: (self._place[e[0]], self._place[e[1]]))
        self._boundaries.sort(key=lambda e: e[:3])
        users: dict[NodeId, list[NodeId]] = {}
        for op in self._by_kind[OP]:
            for tensor in dict.fromkeys(self._operands.get(op, ())):
                users.setdefault(tensor, []).append(op)
        homes: dict[NodeId, list[NodeId]] = {}
        for segment in self._by_kind[SEGMENT]:
            for op in self._members.get(segment, ()):
                homes.setdefault(op, []).append(segment)
        self._users = {tensor: tuple(ops) for tensor, ops in users.items()}
        self._segments_of = {op: tuple(segments) for op, segments in homes.items()}

    # ---- nodes

    def __getitem__(self, node: NodeId | str) -> Node:
        return self._data[cast(NodeId, node)]

    def __contains__(self, node: object) -> bool:
        return node in self._data

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def op(self, node: NodeId) -> Op:
        """The payload of an op."""
        return cast(Op, self._data[node])

    def what(self, node: NodeId) -> core.What:
        """What an op computes or does."""
        return self.op(node).what

    def tensor(self, node: NodeId) -> Tensor:
        """The payload of a tensor."""
        return cast(Tensor, self._data[node])

    def block(self, node: NodeId) -> Block:
        """The payload of a memory block."""
        return cast(Block, self._data[node])

    def segment(self, node: NodeId) -> Segment:
        """The payload of a segment."""
        return cast(Segment, self._data[node])

    def ops(self) -> tuple[NodeId, ...]:
        """All ops, in program order."""
        return self._by_kind[OP]

    def tensors(self) -> tuple[NodeId, ...]:
        """All tensors, in the order in which they were added."""
        return self._by_kind[TENSOR]

    def blocks(self) -> tuple[NodeId, ...]:
        """All memory blocks."""
        return self._by_kind[BLOCK]

    def segments(self) -> tuple[NodeId, ...]:
        """All segments, in launch order."""
        return self._by_kind[SEGMENT]

    def iter_domain(self, node: NodeId) -> IterDomain:
        """The payload of an iteration domain."""
        return cast(IterDomain, self._data[node])

    def transform(self, node: NodeId) -> Transform:
        """The payload of a transform."""
        return cast(Transform, self._data[node])

    def iter_domains(self) -> tuple[NodeId, ...]:
        """All iteration domains."""
        return self._by_kind[ITERDOMAIN]

    def transforms(self) -> tuple[NodeId, ...]:
        """All transforms of iteration domains."""
        return self._by_kind[TRANSFORM]

    # ---- questions

    def domain(self, owner: NodeId, segment: NodeId | None = None) -> TensorDomain:
        """The domains of a segment, or of a tensor in a segment; all are empty where nothing was said."""
        return self._domains.get((owner, owner if segment is None else segment), TensorDomain())

    def domain_owners(self) -> tuple[tuple[NodeId, NodeId], ...]:
        """(tensor or segment, segment) of all domains that the graph holds, segments first."""
        return tuple(sorted(self._domains, key=lambda o: (self._rank[o[1]], o[0] != o[1], self._rank[o[0]])))

    def operands(self, op: NodeId) -> tuple[NodeId, ...]:
        """What an op or a transform takes, by operand number; a tensor that is taken twice is there twice."""
        return self._operands.get(op, ())

    def results(self, op: NodeId) -> tuple[NodeId, ...]:
        """What an op or a transform makes, by result number."""
        return self._results.get(op, ())

    def producer(self, tensor: NodeId) -> NodeId:
        """What makes the tensor or iteration domain; KeyError for a place that only names memory."""
        return self._producer[tensor]

    def has_producer(self, tensor: NodeId) -> bool:
        """Does something make the tensor or iteration domain?"""
        return tensor in self._producer

    def users(self, tensor: NodeId) -> tuple[NodeId, ...]:
        """Ops that take the tensor, in program order, each once."""
        return self._users.get(tensor, ())

    def position(self, op: NodeId) -> int:
        """The op's number in program order."""
        return self._place[op]

    def lives(self, tensor: NodeId) -> Lives | None:
        """Where a place is in memory; None for a value."""
        found = self._lives.get(tensor)
        return found[1] if found else None

    def is_value(self, tensor: NodeId) -> bool:
        """Is it a pure value (True), or a place in memory?"""
        return tensor not in self._lives

    def block_of(self, tensor: NodeId) -> NodeId | None:
        """The block that a place lies in; None for a value."""
        found = self._lives.get(tensor)
        return found[0] if found else None

    def layout(self, tensor: NodeId) -> Layout:
        """Where the tensor's elements are in its block; KeyError for a value."""
        return self._lives[tensor][1].layout

    def orderings(self) -> tuple[tuple[NodeId, NodeId, Ordering], ...]:
        """(before, after, why) of every ordering edge between ops."""
        return tuple(self._orderings)

    def members(self, segment: NodeId) -> tuple[NodeId, ...]:
        """The ops of a segment, in order."""
        return self._members.get(segment, ())

    def segments_of(self, op: NodeId) -> tuple[NodeId, ...]:
        """The segments an op runs in: none before the segment pass, several where it is recomputed."""
        return self._segments_of.get(op, ())

    def boundaries(self) -> tuple[tuple[NodeId, NodeId, NodeId, Boundary], ...]:
        """(from, to, tensor that crosses, payload)."""
        return tuple(self._boundaries)

    def reads(self, value: NodeId, index: core.Index, free: Callable[[int], Form]) -> tuple[core.Read, ...]:
        """What makes a value reads of its operands for the element at ``index``: the rule is ``core.reads``."""
        op = self.producer(value)
        shapes = [self.tensor(t).shape for t in self.operands(op)]
        return core.reads(self.what(op), index, self.tensor(value).shape, shapes, free)

    def inputs(self) -> tuple[NodeId, ...]:
        """Results of ``fk.input``."""
        return next((self.results(op) for op in self.ops() if isinstance(self.op(op).what, core.Input)), ())

    def outputs(self) -> tuple[NodeId, ...]:
        """Operands of ``fk.return``, in operand order."""
        return next((self.operands(op) for op in reversed(self.ops()) if isinstance(self.op(op).what, core.Return)), ())

    def numbers(self) -> tuple[Number, ...]:
        """The graph's parameters, by index."""
        return self._numbers

    @cached_property
    def _numbers(self) -> tuple[Number, ...]:
        found: dict[int, Number] = {}
        for op in self.ops():
            for value in self.op(op).leaves():
                if isinstance(value, Number):
                    found.setdefault(value.index, value)
        return tuple(found[k] for k in sorted(found))

    def once(self, key: Hashable, answer: Callable[[], T]) -> T:
        """What ``answer`` found out about this graph, asked at the first call: it is kept as long as the graph is."""
        if key not in self._answers:
            self._answers[key] = answer()
        return cast(T, self._answers[key])

    # ---- the graph as a whole

    @property
    def nx(self) -> Holder:
        """A read-only networkx view; the attribute ``data`` of a node or an edge is its payload."""
        return self._nx.copy(as_view=True)

    def edges(self) -> dict[tuple[NodeId, NodeId, object], Edge]:
        """Every edge with its payload."""
        return {(a, b, key): data for a, b, key, data in edges_of(self._nx)}

    def draft(self, by: str) -> Draft:
        """An editable copy; ``by`` is the name of the pass."""
        from fusekit.ir.draft import Draft

        return Draft(self, by)

    def __eq__(self, other: object) -> bool:
        """The same nodes in the same order with the same payloads and edges; users' lines and names do not count."""
        if not isinstance(other, Graph):
            return NotImplemented
        if self is other:
            return True
        if self.name != other.name or self._by_kind != other._by_kind or self._wiring() != other._wiring():
            return False
        ops = set(self._by_kind[OP])
        return all(self._call(n) == other._call(n) if n in ops else self._data[n] == other._data[n] for n in self)

    def _call(self, op: NodeId) -> object:
        """What an op says, with its tensors for their numbers; NaN equals itself, and 1 is neither True nor 1.0."""
        payload = self.op(op)
        arguments = exact((payload.args, payload.kwargs), self.operands(op))
        return payload.target, arguments, payload.writes, payload.same, payload.forward

    def _wiring(self) -> dict[tuple[NodeId, NodeId, object], Edge]:
        """The edges, but for those to operands of ops: the arguments name them."""
        return {
            edge: data for edge, data in self.edges().items() if not isinstance(data, Use) or kind_of(edge[1]) != OP
        }

    def __hash__(self) -> int:
        return hash((self.name, self.ops()))

    def __repr__(self) -> str:
        words = ((OP, "ops"), (TENSOR, "tensors"), (BLOCK, "blocks"), (SEGMENT, "segments"))
        counts = [f"{len(self._by_kind[k])} {word}" for k, word in words]
        if self.iter_domains():
            counts.append(f"{len(self.iter_domains())} iteration domains")
        return f"<graph {line(self.name)}: {', '.join(counts)}>"


def _tensor_domain(found: list[tuple[Axis, NodeId]]) -> TensorDomain:
    axes = sorted(found, key=lambda pair: pair[0].position)
    ids = {kind: tuple(i for axis, i in axes if axis.domain is kind) for kind in DomainKind}
    own = [axis for axis, _ in axes if axis.domain is DomainKind.ALLOCATION]
    return TensorDomain(
        ids[DomainKind.ROOT], ids[DomainKind.LOGICAL], ids[DomainKind.LOOP], ids[DomainKind.ALLOCATION],
        tuple(axis.contiguous for axis in own), tuple(axis.stride for axis in own),
    )  # fmt: skip


def empty_graph(name: str) -> Graph:
    """A graph with no node, to start a draft from."""
    return Graph(name, nx.MultiDiGraph())
