"""Explanations as rows: whom one is about, in the names of the pictures, and how it is marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby

from fusekit.ids import SEGMENT, NodeId, kind_of
from fusekit.ir import Graph
from fusekit.notebook.cards import title_of
from fusekit.why import Explanation, Reason

RACES = frozenset({"never-meet", "meet-in-one", "meet-across", "meet-paired", "remedy-left"})
HAZARDS = RACES | {
    "reads-after-write", "writes-after-read", "writes-after-write", "overlap-unknown", "must-follow", "flush-accident",
    "flush-check", "flush-library-call", "flush-conservative", "flush-cut", "taken-along", "written-later", "in-order",
    "cycle", "shares-memory",
}  # fmt: skip
MEMORY = frozenset({
    "share-memory", "returns-operand", "view-of", "disjoint-in-block", "alias-only", "only-views", "allocated",
    "view-of-argument", "stored-in-base", "needed-through-view", "base-is-no-simpler", "reshape-sunk", "is-stored",
    "needed-in-its-shape", "sink-divides", "stored-once", "taken-from-memory", "merge-gap", "merge-expanded",
    "split-expanded", "split-remainder", "order-differs", "not-expandable",
})  # fmt: skip
REFUSED = "refused-by"
MOST_NAMES = 6
MOST_ALIKE = 2  # pairs of a load and a store that one remedy protects
_ID = re.compile(r"[\^@]\w[\w.]*\w|[\^@]\w|\$\d+")


@dataclass(frozen=True, slots=True)
class Said:
    """An explanation, or several of one sentence. ``kind``: hazard, memory or "" (how it is marked)."""

    subject: tuple[NodeId, ...]
    title: str
    verdict: str
    sentence: str
    by: str
    evidence: tuple[NodeId, ...]
    kind: str


def rows(explanations: Iterable[Explanation], graph: Graph, before: Graph | None = None) -> Iterator[Said]:
    """In the order in which it was said, but of each subject first what was done, then what was declined; one sentence
    about several single nodes is told once, and so are all schedulers that refuse one segment."""
    grouped: dict[tuple[object, ...], list[Explanation]] = {}
    by_subject = (sorted(said, key=_is_declined) for _, said in groupby(explanations, lambda e: e.subject))
    for place, e in enumerate(chain.from_iterable(by_subject)):
        lone, refused = len(e.subject) == 1, e.reason.name == REFUSED
        key = (e.verdict, str(e.reason), e.by, e.evidence) if lone else (place,)
        key = (REFUSED, e.subject, e.by) if refused else key
        grouped.setdefault(key, []).append(e)
    for group in grouped.values():
        first = group[0]
        subject = tuple(dict.fromkeys(n for e in group for n in e.subject))
        title = titles(subject, graph, before)
        sentence = "\n".join(dict.fromkeys(sentence_of(e.reason, graph, before) for e in group))
        yield Said(subject, title, first.verdict, sentence, first.by, first.evidence, kind_of_reason(first.reason))


def race_rows(record: Iterable[Explanation], graph: Graph) -> Iterator[Said]:
    """The race record of a kernel; of many pairs with one remedy the first few, and how many more there are."""
    alike: dict[tuple[object, ...], list[Explanation]] = {}
    for e in record:
        remedy = dict(e.reason.facts).get("remedy", "")
        alike.setdefault((e.verdict, e.reason.name, remedy), []).append(e)
    for group in alike.values():
        yield from rows(group[:MOST_ALIKE], graph)
        if len(group) > MOST_ALIKE:
            e, words = group[0], f"and {len(group) - MOST_ALIKE} more alike"
            yield Said(e.subject, titles(e.subject, graph), e.verdict, words, e.by, (), "hazard")


def kind_of_reason(reason: Reason) -> str:
    """``hazard``: an order that must hold; ``memory``: which bytes; else nothing."""
    return "hazard" if reason.name in HAZARDS else "memory" if reason.name in MEMORY else ""


def sentence_of(reason: Reason, graph: Graph, before: Graph | None = None) -> str:
    """The sentence, each ``^1`` with its name before it, ``@2`` and ``$3`` as the pictures have them."""
    return re.sub(
        r"[\^@]\w[\w.]*\w|[\^@]\w|\$\d+", lambda found: titles((NodeId(found[0]),), graph, before), str(reason)
    )


def titles(nodes: tuple[NodeId, ...], graph: Graph, before: Graph | None = None) -> str:
    """``exp_ ^1, S0``: names as the pictures have them, with the ids of what is no segment."""
    names: list[str] = []
    for node in nodes[:MOST_NAMES]:
        home = graph if node in graph else before
        name = title_of(home, node) if home is not None and node in home else node
        names.append(name if name == node or kind_of(node) == SEGMENT else f"{name} {node}")
    more = f" and {len(nodes) - MOST_NAMES} more" if len(nodes) > MOST_NAMES else ""
    return ", ".join(names) + more


def _is_declined(explanation: Explanation) -> bool:
    return explanation.verdict == "declined"
