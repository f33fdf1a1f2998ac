"""Where roots run in the reference's space, and the domains of tensors that a picture shows."""

from itertools import product
from math import prod

import pytest

from fusekit.domains import LoopDomain, Reference, SplitBy, place, read_loops, reference_of, tensor_domain, write_loops
from fusekit.errors import IllegalTransform
from fusekit.index import loop_vars
from fusekit.ir import SCHEDULED, diff, parse, print_graph
from tests.schedule import samples

PLACES = (
    ((3, 4), (3, 4), ()), ((4,), (3, 4), ()), ((3,), (3, 4), ()), ((1, 4), (3, 4), ()), ((3, 1), (3, 4), ()),
    ((), (3, 4), ()), ((12,), (3, 4), ()), ((2, 6), (3, 4), ()), ((2, 5), (3, 4), ()), ((4, 3), (3, 4), ()),
    ((3,), (3, 4), (1,)), ((3, 1), (3, 4), (1,)), ((4,), (3, 4), (0,)), ((2, 3), (6, 4), (1,)), ((), (3, 4), (0, 1)),
    ((1, 1), (3, 4), (0, 1)), ((3, 4), (3, 4), (1,)), ((12,), (3, 4), (1,)),
)  # fmt: skip


@pytest.mark.parametrize(("shape", "space", "reduced"), PLACES)
def test_a_root_runs_at_each_of_its_elements_once(shape, space, reduced) -> None:
    """Once for each iteration, or where the root is a result of the fold, once for each of the kept dimensions."""
    reference = Reference("^root", space, frozenset(reduced))
    index = loop_vars(space)
    placed = place(shape, reference, index)
    seen = []
    for at in product(*map(range, space)):
        values = {f"i{k}": n for k, n in enumerate(at)}
        if all(0 <= guard.form.evaluate(values) < guard.extent for guard in placed.guards):
            seen.append(tuple(form.evaluate(values) for form in placed.index))
    assert set(seen) == set(product(*map(range, shape)))
    is_result = reduced and prod(shape) < prod(space)
    assert len(seen) == (prod(space) if is_result else prod(shape))


def test_a_root_without_room_is_refused() -> None:
    with pytest.raises(IllegalTransform, match="more elements"):
        place((3, 5), Reference("^root", (3, 4), frozenset()), loop_vars((3, 4)))


def test_replay_gives_a_tensor_the_loops_that_its_index_has() -> None:
    graph = samples.bias_add((6, 8))
    reference = reference_of(graph, "$0")
    assert reference is not None
    loop = reference.loops().apply((SplitBy(1, 4), SplitBy(0, 2)))
    whole, bias = ("%v", "%v.1")
    assert tensor_domain(graph, "$0", whole, reference, loop).loop == loop.axes
    shown = tensor_domain(graph, "$0", bias, reference, loop)
    assert shown.loop == loop.axes[2:] and shown.logical == loop.logical[1:]


def test_a_place_is_allocated_as_its_layout_says() -> None:
    graph = samples.transposed_add(6, 8)
    reference = reference_of(graph, "$0")
    assert reference is not None
    loop = reference.loops()
    shown = tensor_domain(graph, "$0", "%p.1", reference, loop)
    assert shown.allocation == ("#i1", "#i0") and shown.strides == (6, 1) and shown.contiguity == (True, True)


def test_a_graph_holds_the_loops_of_a_segment() -> None:
    graph = samples.softmax((6, 8))
    loop = LoopDomain.of((6, 8), reduced=(1,), prefix="0.").then(SplitBy(1, 3))
    draft = graph.draft("schedule")
    write_loops(draft, "$0", loop)
    after = draft.finish(SCHEDULED[-5:]).graph
    assert read_loops(after, "$0") == loop
    assert parse(print_graph(after)) == after
    changed = diff(graph, after)
    assert set(changed.added) == {"#0.i0", "#0.i1", "#0.i1o", "#0.i1i", "!0.0"} and not changed.removed
    assert "domain $0 loop [#0.i0, #0.i1o, #0.i1i]" in print_graph(after)
    assert "#0.i1o : 3 reduction serial" in print_graph(after)


def test_a_segment_without_loops_has_none() -> None:
    assert read_loops(samples.softmax((6, 8)), "$0") is None
