"""Pairs: the merge log as rows, and of any two segments why they are two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise

from fusekit.draw.words import bytes_text, segment_text
from fusekit.ids import SEGMENT, NodeId, kind_of
from fusekit.ir import Graph, core
from fusekit.notebook.cards import title_of
from fusekit.notebook.explored import Explored
from fusekit.notebook.said import kind_of_reason, sentence_of
from fusekit.why import Reason, Trial

MOST_SEGMENTS = 40  # of more only pairs that touch are told: the page would hold little else
SHOWN = 3  # stores of one side

# Reasons whose sentence ends with what would make one of the two.
END_IN_A_CHANGE = frozenset(
    {"must-follow", "cycle", "no-common-loops", "space-differs", "reductions-differ", "too-large", "not-tried"}
)
OWN_CHANGES = {
    "extern-call": "a kernel in place of that library call would let them be one",
    "kept-apart": "without that decision they could be one",
    "alias-only": "",
}


@dataclass(frozen=True, slots=True)
class Pair:
    """A row of the merge log: both sides in words and in nodes, what one kernel of both would save, who was asked."""

    title: str
    nodes: tuple[NodeId, ...]
    saved: str
    verdict: str
    because: str
    asked: tuple[str, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class Apart:
    """Why two segments are two, and the smallest change that would make one of them ("" where none is known)."""

    first: NodeId
    second: NodeId
    sentence: str
    change: str
    kind: str


def pairs(trials: Iterable[Trial], graph: Graph, names: Mapping[NodeId, str]) -> Iterator[Pair]:
    """The merge log in its order. ``names``: what runs for a segment, such as the name of its kernel."""
    for trial in trials:
        title = " + ".join(_side(side, graph, names) for side in (trial.first, trial.second))
        nodes = tuple(n for n in (*trial.first, *trial.second) if n in graph)
        saved = bytes_text(trial.saved) if trial.saved else "0"
        because = sentence_of(trial.reason, graph)
        yield Pair(title, nodes, saved, trial.verdict, because, trial.asked_lines, kind_of_reason(trial.reason))


def apart(x: Explored, graph: Graph) -> Iterator[Apart]:
    """Every two segments of the last graph; of very many, those that touch or follow one another."""
    segments = graph.segments()
    touching = {(a, b) for a, b, _, _ in graph.boundaries()} | set(pairwise(segments))
    some = combinations(segments, 2) if len(segments) <= MOST_SEGMENTS else sorted(touching)
    for first, second in some:
        said = [e.reason for e in x.why(first, second) if e.reason.name != "computed-again"]
        if said:
            sentence, change = _parts(said[0], graph)
            yield Apart(first, second, sentence, change, kind_of_reason(said[0]))


def _parts(reason: Reason, graph: Graph) -> tuple[str, str]:
    text = sentence_of(reason, graph)
    if reason.name in OWN_CHANGES:
        return text, OWN_CHANGES[reason.name]
    sentence, semicolon, change = text.rpartition("; ")
    return (sentence, change) if semicolon and reason.name in END_IN_A_CHANGE else (text, "")


def _side(nodes: tuple[NodeId, ...], graph: Graph, names: Mapping[NodeId, str]) -> str:
    """``S0 exp_sum`` of a segment; of stores what they store, ``exp, sum``."""
    shown = [_name(node, graph, names) for node in nodes[:SHOWN]]
    return ", ".join(shown) + (f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else "")


def _name(node: NodeId, graph: Graph, names: Mapping[NodeId, str]) -> str:
    if kind_of(node) == SEGMENT:
        return f"{segment_text(node)} {names.get(node, '')}".rstrip()
    if node not in graph:
        return node
    if not isinstance(graph.what(node), core.Store):
        return title_of(graph, node)
    return f"{title_of(graph, graph.producer(graph.operands(node)[0]))} {node}"
