"""Iteration domains, transforms and domains as lines of text, and back.

``#i0 : 4 iteration serial``; ``!0 #i0o, #i0i = split(#i0) factor=2 inner``; ``!1 #i01 = merge(#i0, #i1)``;
``!2 #i1o, #i1i = aligned(#i1, #i0) factor=4 pitch=4095``; ``domain $0 loop [#i0o, #i1, #i0i]``;
``domain %a in $0 allocation [#i0o:2, #i0i:1] contiguous [t, t]``, where ``:2`` is a stride in elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from fusekit.errors import TextSyntaxError
from fusekit.ids import ITERDOMAIN, NodeId
from fusekit.ir.domains import (
    AlignedSplit,
    DomainKind,
    IterDomain,
    Kind,
    Merge,
    Parallel,
    Split,
    TensorDomain,
    Transform,
)
from fusekit.ir.words import ID, cut, size, sizes

if TYPE_CHECKING:
    from fusekit.ir.draft import Draft
    from fusekit.ir.graph import Graph

_I, _X = ID["#"], ID["!"]
_AXES = r"\[([^\]]*)\]"
_DOMAIN = re.compile(
    rf"domain ([%$][\w.]+)(?: in ({ID['$']}))? (root|logical|loop|allocation) {_AXES}(?: contiguous \[([tf, ]*)\])?",
    re.ASCII,
)
_ID = re.compile(rf"({_I}) : (\d+) (\w+) (\w+)", re.ASCII)
_TRANSFORM = re.compile(rf"({_X}) ({_I}(?:, {_I})*) = (split|merge|aligned)\(([^)]*)\)( [^)]*)?", re.ASCII)
_FACTS = {
    "merge": re.compile(r""),
    "split": re.compile(r" factor=(\d+) (inner|outer)", re.ASCII),
    "aligned": re.compile(r" factor=(\d+) pitch=(\d+)", re.ASCII),
}


def print_domains(graph: Graph) -> Iterator[str]:
    """The lines of all iteration domains, transforms and domains."""
    for node in graph.iter_domains():
        axis = graph.iter_domain(node)
        yield f"{node} : {axis.extent} {axis.kind.value} {axis.parallel.value}"
    for node in graph.transforms():
        word, facts = _words(graph.transform(node))
        yield f"{node} {', '.join(graph.results(node))} = {word}({', '.join(graph.operands(node))}){facts}"
    for owner, segment in graph.domain_owners():
        inside = "" if owner == segment else f" in {segment}"
        domain = graph.domain(owner, segment)
        for kind in DomainKind:
            if axes := _axes(domain, kind):
                yield f"domain {owner}{inside} {kind.value} {axes}"


def _words(transform: Transform) -> tuple[str, str]:
    match transform:
        case Split(factor, inner):
            return "split", f" factor={factor} {'inner' if inner else 'outer'}"
        case AlignedSplit(factor, pitch):
            return "aligned", f" factor={factor} pitch={pitch}"
        case Merge():
            return "merge", ""


def _axes(domain: TensorDomain, kind: DomainKind) -> str:
    ids: tuple[NodeId, ...] = getattr(domain, kind.value)
    if kind is not DomainKind.ALLOCATION or not ids:
        return f"[{', '.join(ids)}]" if ids else ""
    shown = [i if s is None else f"{i}:{s}" for i, s in zip(ids, domain.strides, strict=True)]
    return f"[{', '.join(shown)}] contiguous [{', '.join('ft'[dense] for dense in domain.contiguity)}]"


def read_domain_line(draft: Draft, line: str) -> None:
    """Adds what one such line says. Raises TextSyntaxError."""
    if found := _ID.fullmatch(line):
        payload = IterDomain(size(found[2]), _word(Kind, found[3]), _word(Parallel, found[4]))
        _expect(found[1], draft.add_iter_domain(payload, id=found[1]))
    elif found := _TRANSFORM.fullmatch(line):
        takes, makes = _ids(draft, found[4].split(",")), _ids(draft, found[2].split(","))
        payload = _transform(found[3], found[5] or "")
        if len(set(makes)) < len(makes):
            raise TextSyntaxError("one axis is made twice", None, "name what it makes once")
        _expect(found[1], draft.add_transform(payload, takes, makes, id=found[1]))
    elif found := _DOMAIN.fullmatch(line):
        _read_domain(draft, found)
    else:
        raise TextSyntaxError("no line of a domain", None, "write '#i0 : 4 iteration serial' or 'domain $0 loop [#i0]'")


def _read_domain(draft: Draft, found: re.Match[str]) -> None:
    owner, segment, kind = NodeId(found[1]), NodeId(found[2] or found[1]), DomainKind(found[3])
    words = [word.strip().partition(":") for word in found[4].split(",")] if found[4] else []
    for node in (owner, segment):
        if node not in draft:
            raise TextSyntaxError(f"{cut(node)} is not there", None, "define it before")
    contiguity = [word.strip() == "t" for word in found[5].split(",")] if found[5] else None
    strides = [sizes(stride)[0] if stride else None for _, _, stride in words]
    ids = _ids(draft, [name for name, _, _ in words])
    if len(set(ids)) < len(ids):
        raise TextSyntaxError("a domain names one axis twice", None, "name each axis once")
    if contiguity is not None and len(contiguity) != len(ids):
        what = f"{len(contiguity)} flags for {len(ids)} axes"
        raise TextSyntaxError(what, None, "give t or f for each axis of the allocation")
    draft.set_domain(owner, segment, kind, ids, contiguity=contiguity, strides=strides)


def _transform(word: str, facts: str) -> Transform:
    found = _FACTS[word].fullmatch(facts)
    if found is None or (found.groups() and not size(found[1])):
        fix = "write split(#i0) factor=2 inner, aligned(#i1, #i0) factor=4 pitch=9 or merge(#i0, #i1)"
        raise TextSyntaxError(f"{cut(word + '()' + facts)} is no transform with a factor from 1 on", None, fix)
    match word:
        case "merge":
            return Merge()
        case "aligned":
            return AlignedSplit(size(found[1]), size(found[2]))
        case _:
            return Split(size(found[1]), found[2] == "inner")


E = TypeVar("E", Kind, Parallel)


def _word(words: type[E], word: str) -> E:
    if word not in {one.value for one in words}:
        known = ", ".join(one.value for one in words)
        raise TextSyntaxError(f"an axis is not {cut(word, 24)}", None, f"it is one of {known}")
    return words(word)


def _ids(draft: Draft, words: Iterable[str]) -> Sequence[NodeId]:
    ids = [NodeId(word.strip()) for word in words]
    for i in ids:
        if not i.startswith(ITERDOMAIN) or i not in draft:
            raise TextSyntaxError(f"{cut(i)!r} is no axis", None, "define it before: #i0 : 4 iteration serial")
    return ids


def _expect(wanted: str, given: NodeId) -> None:
    if wanted != given:
        raise TextSyntaxError(f"{wanted} is defined twice", None, "leave one of the lines out")
