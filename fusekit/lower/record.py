"""The race record of a kernel in words: which load meets which store, what protects it, what else was looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from fusekit.ids import NodeId
from fusekit.index import Div, Form, Mod, print_form
from fusekit.ir import Graph
from fusekit.memory import Access, Kind, Race, Verdict, locate
from fusekit.memory.access import BEFORE_INNER, BEFORE_LOOP, NONE_NEEDED, PAIRING
from fusekit.why import Explanation, Reason

BY = "lower"


def race_record(graph: Graph, segment: NodeId, races: Iterable[Race]) -> tuple[Explanation, ...]:
    """Explanations of a segment: one a load and a store that meet, and one a remedy that was not taken."""
    said: dict[tuple[Literal["did", "declined"], Reason], None] = {}
    races = tuple(races)
    for race in races:
        load, store = access_text(graph, race.load), access_text(graph, race.store)
        if race.verdict is Verdict.NEVER:
            said["did", Reason.of("never-meet", load=load, store=store)] = None
            continue
        name = {NONE_NEEDED: "meet-in-one", PAIRING: "meet-paired"}.get(race.remedy, "meet-across")
        facts = {"load": load, "store": store} | ({"remedy": race.remedy} if name == "meet-across" else {})
        said["did", Reason.of(name, **facts)] = None
        for other in race.considered if race.remedy not in (BEFORE_LOOP, BEFORE_INNER) else ():
            reason = Reason.of("remedy-left", load=load, remedy=other.remedy, why=other.why)
            said["declined", reason] = None
    blocks = tuple(dict.fromkeys(NodeId(str(race.load.block)) for race in races))
    return tuple(Explanation((segment,), verdict, reason, blocks, BY) for verdict, reason in said)


def access_text(graph: Graph, access: Access) -> str:
    """``a[i0, i1]``: the block's first tensor gives the name and the dimensions."""
    block = NodeId(str(access.block))
    base = next((t for t in (*graph.inputs(), *graph.tensors()) if graph.block_of(t) == block), None)
    name = block if base is None else graph.tensor(base).name or base[1:]
    if access.address is None:
        return f"{name}[by data]"
    form: Form = access.address
    if base is not None and graph.layout(base).dtype.width == access.width:
        found = locate(form, graph.layout(base))
        split = any(isinstance(atom, Div | Mod) for digit in found.index for atom, _ in digit.terms)
        if found.kind is Kind.INSIDE and not split:  # a flattened loop reads better flat
            return f"{name}[{', '.join(map(print_form, found.index))}]"
    if form.is_divisible(access.width):
        return f"{name}[{print_form(form.exact_quotient(access.width))}]"
    return f"{name}[{print_form(form)} B]"
