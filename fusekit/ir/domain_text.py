"""Iteration domains, transforms and domains as lines of text, and back.

``#i0 : 4 iteration serial``; ``!0 #i0o, #i0i = split(#i0) factor=2 inner``; ``!1 #i01 = merge(#i0, #i1)``;
``!2 #i1o, #i1i = aligned(#i1, #i0) factor=4 pitch=4095``; ``domain $0 loop [#i0o, #i1, #i0i]``;
``domain %a in $0 allocation [#i0o:2, #i0i:1] contiguous [t, t]``, where ``:2`` is a stride in elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fusekit.errors import TextSyntaxError
from fusekit.ids import NodeId
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

if TYPE_CHECKING:
    from fusekit.ir.draft import Draft
    from fusekit.ir.graph import Graph

_DOMAIN = re.compile(
    r"domain (\S+)(?: in (\S+))? (root|logical|loop|allocation) \[(.*?)\](?: contiguous \[([tf, ]*)\])?"
)
_ID = re.compile(r"(#\S+) : (\d+) (\w+) (\w+)")
_TRANSFORM = re.compile(r"(!\S+) (#\S+(?:, #\S+)?) = (split|merge|aligned)\((.*)\)(.*)")


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
    """Adds what one such line says. Raises TextSyntaxError, KeyError or ValueError."""
    if found := _ID.fullmatch(line):
        payload = IterDomain(int(found[2]), Kind(found[3]), Parallel(found[4]))
        _expect(found[1], draft.add_iter_domain(payload, id=found[1]))
    elif found := _TRANSFORM.fullmatch(line):
        takes, makes = _ids(draft, found[4]), _ids(draft, found[2])
        _expect(found[1], draft.add_transform(_transform(found[3], found[5]), takes, makes, id=found[1]))
    elif found := _DOMAIN.fullmatch(line):
        _read_domain(draft, found)
    else:
        raise TextSyntaxError("no line of a domain", None, "write '#i0 : 4 iteration serial' or 'domain $0 loop [#i0]'")


def _read_domain(draft: Draft, found: re.Match[str]) -> None:
    owner, segment = NodeId(found[1]), NodeId(found[2] or found[1])
    words = [word.strip().partition(":") for word in found[4].split(",") if word.strip()]
    for node in (owner, segment):
        if node not in draft:
            raise TextSyntaxError(f"{node} is not there")
    contiguity = [word.strip() == "t" for word in found[5].split(",")] if found[5] else None
    strides = [int(stride) if stride else None for _, _, stride in words]
    ids = _ids(draft, ",".join(name for name, _, _ in words))
    draft.set_domain(owner, segment, DomainKind(found[3]), ids, contiguity=contiguity, strides=strides)


def _transform(word: str, facts: str) -> Transform:
    known = dict(re.findall(r"(\w+)=(\d+)", facts))
    match word:
        case "merge":
            return Merge()
        case "aligned":
            return AlignedSplit(int(known["factor"]), int(known["pitch"]))
        case _:
            return Split(int(known["factor"]), facts.endswith(" inner"))


def _ids(draft: Draft, text: str) -> Sequence[NodeId]:
    ids = [NodeId(word.strip()) for word in text.split(",") if word.strip()]
    for i in ids:
        if i not in draft:
            raise TextSyntaxError(f"{i} is not there", None, f"define it before: {i} : 4 iteration serial")
    return ids


def _expect(wanted: str, given: NodeId) -> None:
    if wanted != given:
        raise TextSyntaxError(f"{wanted} is defined twice")
