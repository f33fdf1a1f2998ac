"""What is said about nodes besides the graph: reasons from explanations, and marks from a difference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath

from fusekit.draw.words import argument_text, op_detail, plural, type_text
from fusekit.ids import BLOCK, OP, SEGMENT, TENSOR, NodeId, kind_of
from fusekit.ir import Graph, Op, Origin, Tensor, diff
from fusekit.ir.text import print_call, print_layout
from fusekit.why import Explanation

REASONS = 12  # of one node in a tooltip


@dataclass(frozen=True)
class Notes:
    """Reasons by node. ``marks``: added or changed (a node of this graph), removed (of the one before)."""

    explanations: tuple[Explanation, ...] = ()
    marks: dict[NodeId, str] = field(default_factory=dict)
    before: Graph | None = None

    @staticmethod
    def of(graph: Graph, explanations: Iterable[Explanation], since: Graph | None) -> Notes:
        """``since``: the graph that the marks compare with."""
        if since is None:
            return Notes(tuple(explanations))
        found = diff(since, graph)
        marks = (
            dict.fromkeys(found.added, "added")
            | dict.fromkeys(found.removed, "removed")
            | dict.fromkeys(found.changed, "changed")
        )
        return Notes(tuple(explanations), marks, since)

    def mark(self, node: NodeId) -> str:
        return self.marks.get(node, "")

    def was(self, graph: Graph, op: NodeId) -> str:
        """What the card of a changed op said before, where that is another text."""
        if self.before is None or self.marks.get(op) != "changed":
            return ""
        old = op_detail(self.before, op)
        return old if old != op_detail(graph, op) else ""

    def call_before(self, op: NodeId) -> str:
        """The call of a changed op as it was, operands and all."""
        if self.before is None or self.marks.get(op) != "changed":
            return ""
        return f"was {print_call(self.before, op)}"

    def reasons(self, *nodes: NodeId) -> tuple[str, ...]:
        """Sentences about a node, or about several together, in the order in which they were said."""
        wanted = set(nodes)
        about_first = self._by_node.get(nodes[0], ())
        return tuple(dict.fromkeys(_sentence(e) for e in about_first if wanted <= set(e.subject)))

    @cached_property
    def _by_node(self) -> dict[NodeId, list[Explanation]]:
        found: dict[NodeId, list[Explanation]] = {}
        for e in self.explanations:
            for node in dict.fromkeys(e.subject):
                found.setdefault(node, []).append(e)
        return found

    def tip(self, *facts: str, about: Iterable[NodeId] = ()) -> str:
        """A tooltip: facts, then the reasons for the nodes, a line each."""
        said = [s for node in dict.fromkeys(about) for s in self.reasons(node)]
        more = [f"and {len(said) - REASONS} reasons more"] if len(said) > REASONS else []
        return "\n".join([fact for fact in facts if fact] + said[:REASONS] + more)

    def summary(self, graph: Graph) -> str:
        """``1 segment and 3 ops added, 1 op removed, 2 ops changed, 4 ops unchanged``."""
        if self.before is None:
            return ""
        parts = []
        for mark in ("added", "removed", "changed"):
            nodes = [node for node, its in self.marks.items() if its == mark]
            counts = [(sum(kind_of(n) == k for n in nodes), word) for k, word in _WORDS]
            words = [plural(n, word) for n, word in counts if n]
            if words:
                parts.append(f"{_and(words)} {mark}")
        same = sum(op in self.before and not self.mark(op) for op in graph.ops())
        return ", ".join([*parts, f"{plural(same, 'op')} unchanged"]) if parts else "no difference"


_WORDS = ((SEGMENT, "segment"), (OP, "op"), (TENSOR, "tensor"), (BLOCK, "block"))


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _sentence(e: Explanation) -> str:
    mark = "" if e.verdict == "did" else "not done: "
    return f"{e.by}: {mark}{e.reason}" if e.by else f"{mark}{e.reason}"


def op_facts(graph: Graph, node: NodeId) -> tuple[str, ...]:
    """How a tooltip of an op begins: id and overload, results, constant arguments, the user's line and modules."""
    op: Op = graph.op(node)
    results = ", ".join(f"{t} {type_text(graph.tensor(t))}" for t in graph.results(node))
    constants = [argument_text(a) for a in op.args if argument_text(a).strip("[]· ,")]
    constants += [f"{k}={argument_text(v)}" for k, v in op.kwargs]
    where = f"{place_of(op.origin)}{f' in {op.origin.modules}' if op.origin.modules else ''}" if op.origin else ""
    return f"{node} {op.target}", results, ", ".join(constants), where


def place_of(origin: Origin) -> str:
    """File and line; of the path only the end, so that a picture is the same on every machine."""
    return f"{'/'.join(PurePath(origin.file).parts[-2:])}:{origin.line}"


def tensor_facts(graph: Graph, node: NodeId) -> tuple[str, ...]:
    """Id and type, and for a place its block and layout in bytes."""
    tensor: Tensor = graph.tensor(node)
    first = f"{node} {type_text(tensor)}"
    lives = graph.lives(node)
    if lives is None:
        return (first,)
    layout = lives.layout
    return first, f"in {graph.block_of(node)}, {print_layout(layout)}, {layout.nbytes:,} bytes, {lives.role}"
