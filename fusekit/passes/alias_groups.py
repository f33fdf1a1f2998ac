"""alias-groups: which tensors share memory, and which order of accesses that forces, on the program as written.

Annotation only: no op changes. Tensors in one block are an alias group; for each pair of accesses of which one writes,
and that share a byte, an ordering edge says what kind of hazard it is (RAW, WAR, WAW) and on which elements. The source
of the rule is eager's own: a read sees all earlier writes to its bytes, through any alias, and no later one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from fusekit.ids import NodeId
from fusekit.ir import PROGRAM, Draft, Graph, Invariant, Layout, Ordering, PassResult, core
from fusekit.memory import Kind, describe, meets, ranges_meet, relate
from fusekit.passes.base import is_metadata, is_view, shared_elements
from fusekit.why import Reason


@dataclass(frozen=True)
class _Access:
    op: NodeId
    tensor: NodeId
    layout: Layout


@dataclass
class _Block:
    """Accesses that a later one may still collide with: what a later write covers whole is dropped."""

    writes: list[_Access] = field(default_factory=lambda: list[_Access]())
    reads: list[_Access] = field(default_factory=lambda: list[_Access]())


@dataclass(frozen=True)
class AliasGroups:
    """The pass; ``pairs`` bounds how many earlier accesses of one block are looked at for one op.

    ``exact``: False takes layouts whose byte ranges cross for overlapping, and none for covered by another.
    """

    name: ClassVar[str] = "alias-groups"
    expects: ClassVar[tuple[Invariant, ...]] = PROGRAM
    ensures: ClassVar[tuple[Invariant, ...]] = PROGRAM
    pairs: int = 256
    exact: bool = True

    def __call__(self, graph: Graph) -> PassResult:
        draft = graph.draft(self.name)
        _note_sharing(graph, draft)
        writers = [op for op in graph.ops() if not is_metadata(graph.op(op))]
        written = {graph.block_of(graph.operands(op)[w]) for op in writers for w in graph.op(op).writes}
        blocks = {block: _Block() for block in written if block is not None}
        for op in graph.ops():
            if not isinstance(graph.what(op), core.Call):
                continue
            if is_view(graph, op) or is_metadata(graph.op(op)):
                draft.note((op,), Reason.of("view-of"), graph.operands(op))
            else:
                self._step(graph, draft, blocks, op)
        return draft.finish(self.ensures)

    def _step(self, graph: Graph, draft: Draft, blocks: dict[NodeId, _Block], op: NodeId) -> None:
        operands, payload = graph.operands(op), graph.op(op)
        for result, operand in payload.same:
            draft.note((graph.results(op)[result],), Reason.of("returns-operand", operand=operand), (op,))
        accesses = [_Access(op, t, graph.layout(t)) for t in operands]
        reads = [a for k, a in enumerate(accesses) if k not in payload.writes or _reads_target(payload.target)]
        writes = [accesses[k] for k in payload.writes]
        for access in reads:
            if state := blocks.get(_home(graph, access)):
                self._edges(graph, draft, state.writes, access, "RAW", "reads-after-write", "writer")
        for access in writes:
            if state := blocks.get(_home(graph, access)):
                self._edges(graph, draft, state.reads, access, "WAR", "writes-after-read", "reader")
                self._edges(graph, draft, state.writes, access, "WAW", "writes-after-write", "writer")
        for access in reads:
            if state := blocks.get(_home(graph, access)):
                state.reads.append(access)
        for access in writes:
            if state := blocks.get(_home(graph, access)):
                state.writes = [w for w in state.writes if not self._covers(access.layout, w.layout)] + [access]
                state.reads = [r for r in state.reads if r.op == op or not self._covers(access.layout, r.layout)]

    def _edges(
        self, graph: Graph, draft: Draft, earlier: list[_Access], later: _Access, kind: str, reason: str, fact: str
    ) -> None:
        """From the latest access back, until a write covers all that ``later`` touches."""
        for access in reversed(earlier[-self.pairs :]):
            shared = self._shared(access.layout, later.layout)
            if access.op == later.op or shared is False:
                continue
            if kind != "RAW" or later.tensor not in graph.results(access.op):  # else the operand itself says it
                where = shared_elements(later.layout, access.layout)
                because = Reason.of(reason, where=where, **{fact: access.op})
                draft.order(access.op, later.op, Ordering((kind,), where), because=because)
                if shared is None:
                    draft.note((access.op, later.op), Reason.of("overlap-unknown"))
            if kind != "WAR" and self._covers(access.layout, later.layout):
                break

    def _shared(self, one: Layout, other: Layout) -> bool | None:
        """Have both a byte in common? None: nobody knows."""
        return meets(one, other) if self.exact else ranges_meet(one, other)

    def _covers(self, region: Layout, layout: Layout) -> bool:
        return region == layout or (self.exact and relate(layout, region).kind is Kind.INSIDE)


def _reads_target(target: str) -> bool:
    """Does an in-place op read what it overwrites?"""
    name = target.split(".")[1]
    return name not in ("copy_", "fill_", "zero_") and not target.endswith(("out", "_out"))


def _home(graph: Graph, access: _Access) -> NodeId:
    home = graph.block_of(access.tensor)
    assert home is not None, access.tensor
    return home


def _note_sharing(graph: Graph, draft: Draft) -> None:
    """How the inputs of each block meet."""
    inputs = graph.inputs()
    for k, second in enumerate(inputs):
        for first in inputs[:k]:
            if graph.block_of(first) != graph.block_of(second):
                continue
            shared = meets(graph.layout(first), graph.layout(second))
            if shared is False:
                draft.note((first, second), Reason.of("disjoint-in-block", first=first, second=second))
            else:
                relation = describe(graph.layout(second), graph.layout(first))
                draft.note((first, second), Reason.of("share-memory", first=first, second=second, relation=relation))
