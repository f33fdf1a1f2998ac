"""Iteration domains in a graph: text, questions, and one graph that breaks each invariant."""

from collections.abc import Callable

import pytest

from fusekit.errors import InvalidGraph, TextSyntaxError
from fusekit.ir import (
    SCHEDULED,
    Draft,
    Graph,
    IterDomain,
    Kind,
    Merge,
    Parallel,
    Split,
    diff,
    parse,
    print_graph,
)

TEXT = """graph f {
  segment $0 pointwise [4,3] {  } by pointwise: split(0, 2).reorder(0, 2, 1)
  #i0 : 4 iteration serial
  #i1 : 3 reduction TIDx
  #i0o : 2 iteration BIDx
  #i0i : 2 iteration serial
  #one : 1 broadcast unroll
  #m : 2 iteration vectorize
  #r : 8 iteration serial
  #ro : 3 iteration serial
  #ri : 4 iteration serial
  !0 #i0o, #i0i = split(#i0) factor=2 inner
  !1 #m = merge(#i0i, #one)
  !2 #ro, #ri = aligned(#r, #i0) factor=4 pitch=7
  domain $0 logical [#i0, #i1]
  domain $0 loop [#i0o, #i1, #m]
}
"""


def test_domains_print_and_read_back() -> None:
    graph = parse(TEXT)
    assert print_graph(graph) == TEXT and parse(print_graph(graph)) == graph
    assert graph.segment("$0").by == "pointwise" and graph.segment("$0").schedule == "split(0, 2).reorder(0, 2, 1)"


def test_questions_about_domains() -> None:
    graph = parse(TEXT)
    domain = graph.domain("$0")
    assert domain.logical == ("#i0", "#i1") and domain.loop == ("#i0o", "#i1", "#m") and domain.allocation == ()
    assert graph.domain("$7") == ((),) * 6
    assert graph.operands("!0") == ("#i0",) and graph.results("!0") == ("#i0o", "#i0i")
    assert graph.producer("#m") == "!1" and not graph.has_producer("#i0")
    assert graph.iter_domain("#i1") == IterDomain(3, Kind.REDUCTION, Parallel.TIDx)
    assert graph.transform("!0") == Split(2) and graph.domain_owners() == (("$0", "$0"),)


def test_a_domain_that_changes_is_a_difference() -> None:
    before = parse(TEXT)
    after = parse(TEXT.replace("#i1 : 3 reduction TIDx", "#i1 : 3 reduction TIDy"))
    assert diff(before, after).changed == ("#i1",)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("#i0 : 4 iteration", "no line of a domain"),
        ("#i0 : 4 sideways serial", "sideways"),
        ("#i0 : 4 iteration WARP", "WARP"),
        ("!0 #a, #b = split(#c) factor=2 inner", "#a|#c"),
        ("domain $3 loop []", r"\$3 is not there"),
        ("!0 #a = twist(#b)", "no line of a domain"),
    ],
)
def test_mistakes_name_their_line(line: str, says: str) -> None:
    with pytest.raises(TextSyntaxError, match=says) as caught:
        parse(f"graph f {{\n  {line}\n}}\n")
    assert "line 2" in str(caught.value)


def start() -> Draft:
    """Four by three, with the first axis split by two; the loop domain is split, reordered and right."""
    text = TEXT.replace("pointwise: split(0, 2).reorder(0, 2, 1)", "x: keep()")
    return parse(text).draft("breaker")


def edit(draft: Draft, old: str, new: str) -> Draft:
    text = print_graph(draft.finish().graph)
    assert old in text
    return parse(text.replace(old, new)).draft("breaker")


BROKEN: tuple[tuple[str, Callable[[Draft], Draft]], ...] = (
    ("transforms-take-and-make", lambda d: edit(d, "merge(#i0i, #one)", "merge(#i0i)")),
    ("extents-multiply", lambda d: edit(d, "#i0o : 2", "#i0o : 3")),
    ("extents-multiply", lambda d: edit(d, "#m : 2", "#m : 4")),
    ("extents-multiply", lambda d: edit(d, "#ro : 3", "#ro : 2")),
    ("reductions-stay-apart", lambda d: edit(d, "#one : 1 broadcast", "#one : 1 reduction")),
    ("reductions-stay-apart", lambda d: edit(d, "#i0i : 2 iteration", "#i0i : 2 reduction")),
    ("transforms-are-a-dag", lambda d: twice(d)),
    ("transforms-are-a-dag", lambda d: cycle(d)),
    ("domains-cover-logical", lambda d: edit(d, "loop [#i0o, #i1, #m]", "loop [#i0o, #i1]")),
    ("domains-cover-logical", lambda d: edit(d, "loop [#i0o, #i1, #m]", "loop [#i0o, #m]")),
    ("domains-cover-logical", lambda d: edit(d, "loop [#i0o, #i1, #m]", "loop [#i0, #i1, #i0o, #m]")),
    ("domains-cover-logical", lambda d: edit(d, "loop [#i0o, #i1, #m]", "loop [#i0o, #i1, #m, #ri]")),
    ("domains-cover-logical", lambda d: edit(d, "loop [#i0o, #i1, #m]", "loop [#i0o, #i1, #m, #r]")),
    ("domains-cover-logical", lambda d: edit(d, "#i1 : 3 reduction TIDx", "#i1 : 3 reduction BIDx")),
)


def twice(d: Draft) -> Draft:
    d.add_transform(Merge(), ("#i0i", "#one"), ("#m",))  # type: ignore[arg-type]
    return d


def cycle(d: Draft) -> Draft:
    other = d.add_iter_domain(IterDomain(1, Kind.BROADCAST), id="#other")
    a = d.add_iter_domain(IterDomain(1), id="#x")
    b = d.add_iter_domain(IterDomain(1), id="#y")
    d.add_transform(Merge(), (a, other), (b,))
    d.add_transform(Merge(), (b, other), (a,))
    return d


@pytest.mark.parametrize(("name", "break_it"), BROKEN)
def test_each_invariant_is_checked_by_name(name: str, break_it: Callable[[Draft], Draft]) -> None:
    rules = [rule for rule in SCHEDULED if rule.name == name]
    start().finish(rules)
    with pytest.raises(InvalidGraph, match=name):
        break_it(start()).finish(rules)


def test_the_graph_to_break_is_whole() -> None:
    graph: Graph = start().finish(SCHEDULED).graph
    assert repr(graph).endswith("9 iteration domains>")
