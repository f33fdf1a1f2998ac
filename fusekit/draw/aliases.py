"""The view "aliases": which tensors share memory and how, and the order that this forces."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from fusekit.draw.flow import Flow
from fusekit.draw.notes import Notes, tensor_facts
from fusekit.draw.orders import hazards
from fusekit.draw.parts import Card, Edge, Frame, Picture, Pill, Tab
from fusekit.draw.words import bytes_text, letter_of, plural, region_text
from fusekit.ids import NodeId
from fusekit.ir import Graph, Layout
from fusekit.ir.text import print_layout
from fusekit.memory.overlap import Overlap, overlap

PILLS = 6  # layouts of one group that are drawn
GROUPS = 24
WORDS = {
    Overlap.SAME: "has the same bytes as", Overlap.WITHIN: "lies within", Overlap.CONTAINS: "contains",
    Overlap.PARTIAL: "overlaps a part of", Overlap.DISJOINT: "shares no byte with", Overlap.UNKNOWN: "may overlap",
}  # fmt: skip


def aliases_picture(graph: Graph, notes: Notes, title: str, note: str) -> Picture:
    """A capsule round the layouts of each block with several; the ops between which memory forces an order."""
    flow = Flow(graph, notes).walk()
    cards = {op: part for op in graph.ops() if isinstance(part := flow.parts.get(op), Card)}
    orders = [o for o in graph.orderings() if o[0] in cards and o[1] in cards]
    ends = sorted({op for order in orders for op in order[:2]}, key=graph.position)
    found = [g for block in graph.blocks() if (g := Group.of(graph, block)) is not None]
    groups = _most_telling(graph, found, ends)
    nodes, order_edges = hazards(graph, flow, notes, orders)
    arrows = [Edge(g.key_of(t), op) for op in ends for g, t in _touches(graph, groups, op)]
    spines = [spine for group in groups for spine in group.spines()]
    frames = [group.frame(graph, notes) for group in groups]
    said = note or notes.summary(graph) or aliases_note(graph, len(found), len(found) - len(groups))
    desc = f"{title}. {said}. " + " ".join(g.sentence(graph) for g in groups)
    edges = dict.fromkeys((*spines, *_in_a_column(groups, {e.tail for e in arrows}), *arrows, *order_edges))
    return Picture(title, said, (*frames, *(cards[op] for op in ends), *nodes), tuple(edges), desc)


def _most_telling(graph: Graph, groups: list[Group], ends: list[NodeId]) -> list[Group]:
    """Of many groups those that an order is about, then those with most layouts; in the order of blocks."""
    busy = {graph.block_of(t) for op in ends for t in graph.operands(op)}
    ranked = sorted(groups, key=lambda g: (g.block not in busy, -len(g.by_layout)))[:GROUPS]
    return [g for g in groups if g in ranked]


def _in_a_column(groups: list[Group], busy: set[str]) -> list[Edge]:
    """Capsules without arrows would all stand in one line: hidden arrows break it."""
    idle = [next(iter(g.first)) for g in groups if busy.isdisjoint(g.first)]
    return [Edge(a, b, "hidden") for a, b in itertools.pairwise(idle)]


def aliases_note(graph: Graph, groups: int, hidden: int) -> str:
    single = len(graph.blocks()) - groups
    words = [f"{plural(groups, 'alias group')}, {plural(single, 'block')} with one layout"]
    words += [f"{plural(hidden, 'group')} not drawn"] if hidden else []
    return ", ".join([*words, plural(len(graph.orderings()), "ordering")])


class Group:
    """The tensors of one block, by layout: tensors of one layout are one pill."""

    def __init__(self, graph: Graph, block: NodeId, layouts: dict[Layout, list[NodeId]]):
        self.block, self.letter = block, letter_of(graph, block)
        self.by_layout = layouts
        self.first = {tensors[0]: tensors for tensors in list(layouts.values())[:PILLS]}
        self.members = {t: lead for lead, tensors in self.first.items() for t in tensors}
        self.rows, self.may = _relations(graph, list(layouts), list(self.first))

    @staticmethod
    def of(graph: Graph, block: NodeId, among: Iterable[NodeId] | None = None) -> Group | None:
        """None for a block that all its tensors (``among`` these, if given) see in one way."""
        layouts: dict[Layout, list[NodeId]] = {}
        for tensor in (*graph.inputs(), *graph.tensors()) if among is None else among:
            if graph.block_of(tensor) == block and tensor not in layouts.setdefault(graph.layout(tensor), []):
                layouts[graph.layout(tensor)].append(tensor)
        return Group(graph, block, layouts) if len(layouts) > 1 else None

    def key_of(self, tensor: NodeId) -> str:
        return str(self.members[tensor])

    def frame(self, graph: Graph, notes: Notes) -> Frame:
        pills = tuple(self._pill(graph, notes, lead, tensors) for lead, tensors in self.first.items())
        left = len(self.by_layout) - len(pills)
        block = graph.block(self.block)
        head = f"one block, {bytes_text(block.nbytes)}" + (f", {plural(left, 'layout')} not drawn" if left else "")
        rows = self.rows
        if len(rows) == 1:
            head, rows = f"{head}: {rows[0]}", []
        tab = Tab(head, "may alias ?" if self.may else "must alias", "", "\n".join(rows))
        tip = notes.tip(f"{self.block}, {block.nbytes:,} bytes on {block.device}", about=(self.block,))
        return Frame(self.block, self.block, "maybe" if self.may else "capsule", tab, pills, badge=self.letter, tip=tip)

    def spines(self) -> list[Edge]:
        leads = list(self.first)
        return [Edge(a, b, "maybe" if self.may else "spine") for a, b in itertools.pairwise(leads)]

    def _pill(self, graph: Graph, notes: Notes, lead: NodeId, tensors: list[NodeId]) -> Pill:
        names = list(dict.fromkeys(t[1:] for t in tensors))
        name = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        layout = graph.layout(lead)
        view = lead != next(iter(self.first))
        facts = [fact for t in tensors[:6] for fact in tensor_facts(graph, t)]
        strides = print_layout(layout).partition(":")[2]
        type_ = f"{layout.dtype}[{','.join(map(str, layout.shape))}] {strides}"
        crosses = any(t in graph.inputs() or t in graph.outputs() for t in tensors)
        mark = notes.mark(lead)
        return Pill(
            lead,
            lead,
            name,
            type_,
            self.letter,
            view,
            crosses,
            mark=mark if mark == "added" else "",
            tip=notes.tip(*facts, about=tensors),
        )

    def sentence(self, graph: Graph) -> str:
        names = ", ".join(t[1:] for t in self.first)
        return f"Block {self.letter}: {names}" + (f"; {'; '.join(self.rows)}." if self.rows else ".")


def _relations(graph: Graph, layouts: list[Layout], leads: list[NodeId]) -> tuple[list[str], bool]:
    """Each later layout against the first that it meets, in words; is one of them not known?"""
    rows, may = [], False
    for k in range(1, len(leads)):
        found = [(j, overlap(layouts[k], layouts[j])) for j in range(k)]
        j, how = next((pair for pair in found if pair[1] is not Overlap.DISJOINT), found[0])
        may |= any(h is Overlap.UNKNOWN for _, h in found)
        first, second = (leads[n][1:] for n in (k, j))
        where = region_text(layouts[k], layouts[j]) if how is Overlap.WITHIN else ""
        tail = f", as {second}{where}" if where else ""
        rows.append(f"{first} {WORDS[how]} {second}{tail}")
    return rows[:6] + ([f"and {plural(len(rows) - 6, 'relation')} more"] if len(rows) > 6 else []), may


def _touches(graph: Graph, groups: list[Group], op: NodeId) -> list[tuple[Group, NodeId]]:
    return [(g, t) for t in dict.fromkeys(graph.operands(op)) for g in groups if t in g.members]
