"""Contracting what no other path joins never makes a cycle, on random DAGs with ordering edges of both kinds."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusekit.passes.segments.reach import Groups

Links = list[tuple[int, int, str | None]]


@st.composite
def programs(draw: st.DrawFn) -> tuple[int, Links, list[tuple[int, ...]]]:
    """(units, links from earlier to later ones, sets of units to try)"""
    count = draw(st.integers(2, 14))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda p: p[0] < p[1])
    links = draw(st.lists(st.tuples(pairs, st.sampled_from([None, None, "RAW"])), max_size=30))
    tries = draw(st.lists(st.lists(st.integers(0, count - 1), min_size=2, max_size=4), max_size=20))
    return count, [(a, b, why) for (a, b), why in links], [tuple(one) for one in tries]


def contracted(groups: Groups[str], links: Links) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(groups.all())
    graph.add_edges_from((groups.home[a], groups.home[b]) for a, b, _ in links if groups.home[a] != groups.home[b])
    return graph


@given(programs())
def test_contraction_never_makes_a_cycle(program: tuple[int, Links, list[tuple[int, ...]]]) -> None:
    count, links, tries = program
    groups = Groups[str](count, links)
    for wanted in tries:
        chosen = sorted({groups.home[unit] for unit in wanted})
        before = contracted(groups, links)
        paths = [w for w in before if w not in chosen and _between(before, chosen, w)]
        assert (groups.between(chosen) is not None) == bool(paths), "safe iff no other path leads through outside"
        barred = any(why and groups.home[a] in chosen and groups.home[b] in chosen and groups.home[a] != groups.home[b]
                     for a, b, why in links)  # fmt: skip
        assert (groups.barred(chosen) is not None) == barred
        if len(chosen) > 1 and not paths:
            groups.join(chosen)
        graph = contracted(groups, links)
        assert nx.is_directed_acyclic_graph(graph)
        place = {group: k for k, group in enumerate(groups.ordered())}
        assert len(place) == len(graph) and all(place[a] < place[b] for a, b in graph.edges)
        for a in graph:
            assert {b for b in graph if groups.reaches(a, b)} == nx.descendants(graph, a)


def _between(graph: nx.DiGraph, chosen: list[int], w: int) -> bool:
    below = nx.descendants(graph, w)
    above = nx.ancestors(graph, w)
    return any(c in above for c in chosen) and any(c in below for c in chosen)


@given(programs())
def test_an_order_asked_for_is_kept_or_refused(program: tuple[int, Links, list[tuple[int, ...]]]) -> None:
    count, links, tries = program
    groups = Groups[str](count, links)
    for first, then, *_ in tries:
        if first == then:
            continue
        legal = not groups.reaches(then, first)
        assert (groups.order(first, then, "asked") is None) == legal
        if legal:
            links = [*links, (first, then, "asked")]
        assert nx.is_directed_acyclic_graph(contracted(groups, links))
        place = {group: k for k, group in enumerate(groups.ordered())}
        assert all(place[groups.home[a]] <= place[groups.home[b]] for a, b, _ in links)


def test_what_waits_for_one_another_is_one() -> None:
    groups = Groups[str](4, [(0, 1, None), (1, 0, None), (1, 2, None), (2, 3, "RAW")])
    assert groups.circles == ((0, 1),) and groups.home == [0, 0, 2, 3]
    assert groups.ordered() == [0, 2, 3]


@pytest.mark.parametrize("size", [1, 200])
def test_a_long_chain_reaches_its_end(size: int) -> None:
    groups = Groups[str](size, [(k, k + 1, None) for k in range(size - 1)])
    assert groups.reaches(0, size - 1) == (size > 1)
    while len(groups.all()) > 1:
        first, second, *_ = groups.ordered()
        assert groups.between((first, second)) is None
        groups.join((first, second))
