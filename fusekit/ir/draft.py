"""The only writer of graphs: a pass edits a draft with a reason for each edit, and finishes into a frozen graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import networkx as nx

from fusekit.errors import InvalidGraph
from fusekit.escape import node_name
from fusekit.ids import BLOCK, ITERDOMAIN, OP, SEGMENT, TENSOR, TRANSFORM, NodeId, kind_of
from fusekit.ir.domains import Axis, DomainKind, IterDomain, Transform
from fusekit.ir.graph import Graph, Holder, edges_of
from fusekit.ir.invariants import Invariant, broken
from fusekit.ir.layout import Layout
from fusekit.ir.payloads import Block, Boundary, Def, Lives, Member, Node, Op, Ordering, Segment, Tensor, Use
from fusekit.why import Explanation, Reason, Trial


@dataclass(frozen=True)
class PassResult:
    """What a pass gives: the next graph, and the explanations of what it did and declined, in order; ``merges``: the
    pairs of groups that a segmenter tried."""

    graph: Graph
    explanations: tuple[Explanation, ...]
    merges: tuple[Trial, ...] = ()


class Draft:
    """An editable copy of a graph. Ids are given out once and never reused within a draft."""

    def __init__(self, graph: Graph, by: str):
        self.by = by
        self._graph = graph
        self._name = graph.name
        self._ops: list[NodeId] = list(graph.ops())
        self._said: list[Explanation] = []
        self._used: set[str] = set(graph)
        self._reserved: frozenset[str] = frozenset()
        self._next: dict[str, int] = {}

    @staticmethod
    def rewrite(graph: Graph, by: str) -> Draft:
        """An empty draft for a pass that writes a program anew; only who asks for an id of ``graph`` gets it."""
        draft = Draft(Graph(graph.name, nx.MultiDiGraph()), by)
        draft._reserved = frozenset(graph)
        return draft

    @cached_property
    def _nx(self) -> Holder:
        """The copy that is edited, made at the first edit."""
        holder: Holder = nx.MultiDiGraph()
        holder.add_nodes_from((n, {"data": self._graph[n]}) for n in self._graph)
        for (a, b, key), payload in self._graph.edges().items():
            holder.add_edge(a, b, key, data=payload)
        return holder

    def __contains__(self, node: object) -> bool:
        return node in (self._nx if self._is_edited else self._graph)

    @property
    def _is_edited(self) -> bool:
        return "_nx" in self.__dict__

    # ---- nodes

    def fresh(self, wanted: str) -> NodeId:
        """``wanted`` where it is free, else ``wanted.1``, ``wanted.2``, ...; a bare sigil gets the next number."""
        wanted = wanted[0] + node_name(wanted[1:])
        bare, name = len(wanted) == 1, wanted
        while bare or name in self._used:
            number = self._next.get(wanted, 0 if len(wanted) == 1 else 1)
            self._next[wanted] = number + 1
            name = f"{wanted}{number}" if len(wanted) == 1 else f"{wanted}.{number}"
            bare = name in self._reserved
        self._used.add(name)
        return NodeId(name)

    def _add(self, node: NodeId, payload: Node, because: Reason | None) -> NodeId:
        self._nx.add_node(node, data=payload)
        self._explain((node,), because)
        return node

    def add_block(self, payload: Block, *, id: str | None = None, because: Reason | None = None) -> NodeId:
        """A memory block; its id is given back."""
        return self._add(self.fresh(id or BLOCK), payload, because)

    def add_tensor(
        self,
        payload: Tensor,
        *,
        id: str | None = None,
        block: NodeId | None = None,
        layout: Layout | None = None,
        role: str = "alias",
        because: Reason | None = None,
    ) -> NodeId:
        """A value, or with ``block`` and ``layout`` a place in memory."""
        node = self._add(self.fresh(id or TENSOR + (payload.name or "t")), payload, because)
        if block is not None:
            if layout is None:
                raise ValueError(f"{node} lives in {block} without a layout")
            self._nx.add_edge(node, block, "lives", data=Lives(layout, role))
        return node

    def add_op(
        self,
        payload: Op,
        operands: Sequence[NodeId] = (),
        results: Sequence[NodeId] = (),
        *,
        id: str | None = None,
        before: NodeId | None = None,
        because: Reason | None = None,
    ) -> NodeId:
        """An op at the end of the program, or just before another."""
        node = self._add(self.fresh(id or OP), payload, because)
        self._ops.insert(self._ops.index(before) if before is not None else len(self._ops), node)
        for k, tensor in enumerate(operands):
            self._nx.add_edge(tensor, node, ("use", k), data=Use(k))
        for k, tensor in enumerate(results):
            self._nx.add_edge(node, tensor, "def", data=Def(k))
        return node

    def add_segment(
        self, payload: Segment, members: Iterable[NodeId], *, id: str | None = None, because: Reason | None = None
    ) -> NodeId:
        """A segment of these ops, in their order."""
        node = self._add(self.fresh(id or SEGMENT), payload, because)
        for k, op in enumerate(members):
            self._nx.add_edge(node, op, "member", data=Member(k))
        return node

    def add_iter_domain(self, payload: IterDomain, *, id: str | None = None, because: Reason | None = None) -> NodeId:
        """An iteration domain."""
        return self._add(self.fresh(id or ITERDOMAIN), payload, because)

    def add_transform(
        self,
        payload: Transform,
        takes: Sequence[NodeId],
        makes: Sequence[NodeId],
        *,
        id: str | None = None,
        because: Reason | None = None,
    ) -> NodeId:
        """A split or a merge between iteration domains that are there."""
        node = self._add(self.fresh(id or TRANSFORM), payload, because)
        for k, i in enumerate(takes):
            self._nx.add_edge(i, node, ("use", k), data=Use(k))
        for k, i in enumerate(makes):
            self._nx.add_edge(node, i, "def", data=Def(k))
        return node

    # ---- edges and edits

    def set_domain(
        self,
        owner: NodeId,
        segment: NodeId,
        domain: DomainKind,
        axes: Sequence[NodeId],
        *,
        contiguity: Sequence[bool] | None = None,
        strides: Sequence[int | None] | None = None,
        because: Reason | None = None,
    ) -> None:
        """The axes, in order, of a domain of a tensor, or of the segment itself, in the segment; old ones go.

        ``contiguity`` and ``strides`` (elements): of an allocation, one an axis.
        """
        old = [(a, b, k) for a, b, k in self._nx.out_edges(owner, keys=True) if k == (segment, domain)]
        self._nx.remove_edges_from(old)
        contiguity = contiguity or (True,) * len(axes)
        strides = strides or (None,) * len(axes)
        for position, (i, dense, stride) in enumerate(zip(axes, contiguity, strides, strict=True)):
            self._nx.add_edge(owner, i, (segment, domain), data=Axis(domain, position, dense, stride))
        self._explain((owner,), because, axes)

    def add_boundary(
        self, first: NodeId, second: NodeId, tensor: NodeId, payload: Boundary, *, because: Reason | None = None
    ) -> None:
        """What crosses from one segment to another."""
        self._nx.add_edge(first, second, tensor, data=payload)
        self._explain((first, second), because, (tensor,))

    def order(self, first: NodeId, then: NodeId, payload: Ordering, *, because: Reason | None = None) -> None:
        """``then`` must come after ``first``; a second edge between the two joins the first."""
        if self._nx.has_edge(first, then, "order"):
            old = self._nx.edges[first, then, "order"]["data"]
            kinds = tuple(k for k in ("RAW", "WAR", "WAW") if k in old.kinds + payload.kinds)
            payload = Ordering(kinds, old.where or payload.where)
        self._nx.add_edge(first, then, "order", data=payload)
        self._explain((first, then), because)

    def replace(self, node: NodeId, payload: Node, *, because: Reason | None = None) -> None:
        """Another payload for a node; its id and edges stay."""
        if node not in self._nx:
            raise KeyError(node)
        self._nx.nodes[node]["data"] = payload
        self._explain((node,), because)

    def rewire(self, op: NodeId, operand: int, tensor: NodeId, *, because: Reason | None = None) -> None:
        """Another tensor as operand number ``operand`` of an op."""
        old = [(a, b, k) for a, b, k in self._nx.in_edges(op, keys=True) if k == ("use", operand)]
        self._nx.remove_edges_from(old)
        self._nx.add_edge(tensor, op, ("use", operand), data=Use(operand))
        self._explain((op,), because, (tensor,))

    def set_operands(self, op: NodeId, operands: Sequence[NodeId]) -> None:
        """All operands of an op anew."""
        for a, _, key in list(self._nx.in_edges(op, keys=True)):
            if isinstance(self._nx.edges[a, op, key]["data"], Use):
                self._nx.remove_edge(a, op, key)
        for k, tensor in enumerate(operands):
            self._nx.add_edge(tensor, op, ("use", k), data=Use(k))

    def redefine(self, op: NodeId, result: int, tensor: NodeId) -> None:
        """Another tensor as result number ``result`` of an op; the old one is left without a maker."""
        made = [t for _, t, key in self._nx.out_edges(op, keys=True) if key == "def"]
        for t in made:
            if self._nx.edges[op, t, "def"]["data"] == Def(result):
                self._nx.remove_edge(op, t, "def")
        self._nx.add_edge(op, tensor, "def", data=Def(result))

    def payload(self, node: NodeId) -> Node:
        """What a node carries now."""
        return self._nx.nodes[node]["data"]

    def sweep(self) -> None:
        """Without ops whose results are values that nothing takes, last ones first, and without places nobody names."""
        if not self._is_edited and not self._has_waste():
            return
        for op in reversed(self._ops):
            results = [t for _, t, key in self._nx.out_edges(op, keys=True) if key == "def"]
            if results and not any(self._nx.out_degree(t) for t in results):
                self._nx.remove_nodes_from([op, *results])
        self._ops = [op for op in self._ops if op in self._nx]
        unnamed = [n for n in self._nx if kind_of(n) == TENSOR and not self._nx.in_degree(n)]
        lonely = [n for n in unnamed if all(key == "lives" for _, _, key in self._nx.out_edges(n, keys=True))]
        self._nx.remove_nodes_from(lonely)

    def _has_waste(self) -> bool:
        """Is there anything to sweep in the graph as it came?"""
        graph = self._graph
        wasted = any(
            graph.results(op) and not any(graph.users(t) or graph.block_of(t) for t in graph.results(op))
            for op in self._ops
        )
        return wasted or any(not graph.has_producer(t) and not graph.users(t) for t in graph.tensors())

    def remove(self, node: NodeId, *, because: Reason | None = None) -> None:
        """Takes a node out, with its edges."""
        self._nx.remove_node(node)
        if kind_of(node) == OP:
            self._ops.remove(node)
        self._explain((node,), because)

    # ---- words

    def _explain(
        self,
        subject: tuple[NodeId, ...],
        reason: Reason | None,
        evidence: Iterable[NodeId] = (),
        verdict: Literal["did", "declined"] = "did",
    ) -> None:
        if reason is not None:
            self._said.append(Explanation(subject, verdict, reason, tuple(evidence), self.by))

    def note(self, subject: tuple[NodeId, ...], reason: Reason, evidence: Iterable[NodeId] = ()) -> None:
        """A fact found, with no edit."""
        self._explain(subject, reason, evidence)

    def decline(self, subject: tuple[NodeId, ...], reason: Reason, evidence: Iterable[NodeId] = ()) -> None:
        """What the pass did not do, and why."""
        self._explain(subject, reason, evidence, "declined")

    def finish(self, invariants: Sequence[Invariant] = ()) -> PassResult:
        """The new graph, checked (the one that came where nothing was edited); InvalidGraph names the invariant, the
        node and the pass."""
        graph = Graph(self._name, self._ordered()) if self._is_edited else self._graph
        if problem := broken(graph, invariants):
            name, node, what = problem
            raise InvalidGraph(f"{self.by} broke {name}: {what}", node, "this is a bug of the pass")
        return PassResult(graph, tuple(self._said))

    def _ordered(self) -> Holder:
        """The holder in one fixed order: blocks, tensors by first mention, ops in program order, segments, domains."""
        holder: Holder = nx.MultiDiGraph()
        uses: dict[NodeId, list[tuple[int, NodeId]]] = {}
        defs: dict[NodeId, list[tuple[int, NodeId]]] = {}
        for a, b, _, payload in edges_of(self._nx):
            if isinstance(payload, Use):
                uses.setdefault(b, []).append((payload.operand, a))
            elif isinstance(payload, Def):
                defs.setdefault(a, []).append((payload.result, b))
        tensors: dict[NodeId, None] = {}
        for op in self._ops:
            for mentioned in (uses, defs):
                tensors.update((t, None) for _, t in sorted(mentioned.get(op, ())))
        rest = [n for n in self._nx if kind_of(n) == TENSOR and n not in tensors]
        blocks = [n for n in self._nx if kind_of(n) == BLOCK]
        segments = [n for n in self._nx if kind_of(n) == SEGMENT]
        domains = [n for sigil in (ITERDOMAIN, TRANSFORM) for n in self._nx if kind_of(n) == sigil]
        for node in (*blocks, *tensors, *rest, *self._ops, *segments, *domains):
            holder.add_node(node, **self._nx.nodes[node])
        for a, b, key, payload in edges_of(self._nx):
            holder.add_edge(a, b, key, data=payload)
        return holder
