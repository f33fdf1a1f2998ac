"""Allocations are chains of their own: whatever the loops are, an access lands where the allocation says."""

from itertools import product

import pytest

from fusekit.domains import (
    Allocation,
    Axes,
    LoopDomain,
    MergeAxes,
    Parallelize,
    ReorderAxes,
    SplitBy,
    TransformBy,
    read_allocation,
    write_allocation,
)
from fusekit.dtypes import F32
from fusekit.errors import IllegalTransform
from fusekit.index import loop_vars, print_form
from fusekit.ir import (
    SCHEDULED,
    Block,
    Layout,
    Op,
    Parallel,
    Segment,
    Tensor,
    core,
    empty_graph,
    parse,
    print_graph,
)

LOOPS: tuple[tuple[TransformBy, ...], ...] = ((), (SplitBy(0, 4),), (SplitBy(0, 2),), (SplitBy(0, 3, inner=False),))
ALLOCATIONS = (
    (Allocation.of((6,), [SplitBy(0, 2)]), lambda i: i),
    (Allocation.of((6,), [SplitBy(0, 2, inner=False)]), lambda i: i),
    (Allocation.of((6,), [SplitBy(0, 2)], strides=(5, 2)), lambda i: i // 2 * 5 + i % 2 * 2),
    (Allocation.of((6,), [SplitBy(0, 2), ReorderAxes((1, 0))]), lambda i: i % 2 * 3 + i // 2),
    (Allocation.of((6,), [SplitBy(0, 4)]), lambda i: i),
)


@pytest.mark.parametrize("loops", LOOPS, ids=str)
@pytest.mark.parametrize(("allocation", "wanted"), ALLOCATIONS)
def test_an_access_goes_through_the_logical_index(allocation, wanted, loops) -> None:
    """Six elements as [3, 2], [2, 3], with strides or permuted, with the loop whole or split by something else."""
    loop = LoopDomain.of((6,)).apply(loops)
    address, derived = allocation.address(loop.index()), loop.derive()
    (logical,) = loop.index()
    seen = {}
    for at in product(*map(range, loop.extents)):
        values = {form.terms[0][0].name: k for form, k in zip(loop.variables().values(), at, strict=True) if form.terms}
        if all(0 <= guard.form.evaluate(values) < guard.extent for guard in derived.bounds):
            seen[logical.evaluate(values)] = address.evaluate(values)
    assert seen == {i: wanted(i) for i in range(6)}
    assert max(seen.values()) < allocation.size


def test_a_split_allocation_is_the_same_bytes() -> None:
    for transforms in ([SplitBy(0, 2)], [SplitBy(0, 2, inner=False)]):
        bound = Allocation.of((6,), transforms).bind((1,))
        assert print_form(bound.address(loop_vars((6,)))) == "i0"


def test_seven_by_two_is_refused_when_it_binds() -> None:
    own = Allocation.of((7,), [SplitBy(0, 2)])
    assert own.size == 8  # a buffer of its own has padding
    with pytest.raises(IllegalTransform, match="cannot cut 7"):
        own.bind((1,))


def test_a_reordered_split_breaks_the_promise_of_contiguity() -> None:
    chain = [SplitBy(0, 2), ReorderAxes((1, 0))]
    with pytest.raises(IllegalTransform, match="does not fit its contiguity"):
        Allocation.of((6,), chain).bind((1,))
    free = Allocation.of((6,), chain, contiguity=(False, False)).bind((1,))
    assert free.strides == (1, 2) and print_form(free.address(loop_vars((6,)))) == "i0"


def test_a_merge_of_what_lies_apart_is_refused() -> None:
    merged = Allocation.of((3, 4), [MergeAxes(0)])
    assert merged.bind((4, 1)).strides == (1,)
    with pytest.raises(IllegalTransform, match="discontiguous"):
        merged.bind((5, 1))
    swapped = Allocation.of((6,), [SplitBy(0, 2), ReorderAxes((1, 0)), MergeAxes(0)])
    with pytest.raises(IllegalTransform, match="discontiguous"):
        swapped.bind((1,))


def test_a_stride_of_one_element_is_as_good_as_any() -> None:
    assert Allocation.of((3, 1, 4)).bind((4, 77, 1)).strides == (4, 77, 1)


def test_strides_and_flags_must_be_one_an_axis() -> None:
    with pytest.raises(IllegalTransform, match="strides for"):
        Allocation.of((6,), [SplitBy(0, 2)], strides=(1,))


@pytest.mark.parametrize("inner", [False, True])
def test_an_axis_on_devices_takes_no_room_in_a_shard(inner: bool) -> None:
    """Logical [M, N], allocated as [DIDx, M/D, N], or with every D-th row on one device."""
    types = [Parallel.SERIAL] * 3
    types[1 if inner else 0] = Parallel.DIDx
    chain = [SplitBy(0, 2, inner=inner), Parallelize(tuple(types))]
    allocation = Allocation.of((6, 5), chain)
    assert allocation.size == 15
    assert allocation.bind((5, 1)).strides == allocation.strides
    address, device = allocation.address(loop_vars((6, 5))), allocation.device(loop_vars((6, 5)))
    for row, column in product(range(6), range(5)):
        values = {"i0": row, "i1": column}
        at = (row % 2, row // 2) if inner else (row // 3, row % 3)
        assert (device.evaluate(values), address.evaluate(values)) == (at[0], at[1] * 5 + column)


def test_a_graph_holds_an_allocation_and_its_text_reads_back() -> None:
    draft = empty_graph("f").draft("test")
    block = draft.add_block(Block(24, "cpu", "argument"))
    layout = Layout.contiguous((6,), F32)
    a = draft.add_tensor(Tensor(F32, (6,)), id="%a", block=block, layout=layout, role="input")
    v = draft.add_tensor(Tensor(F32, (6,)), id="%v")
    draft.add_op(Op(core.Input()), (), (a,), id="^in")
    load = draft.add_op(Op(core.Load()), (a,), (v,))
    segment = draft.add_segment(Segment("pointwise", (6,)), [load])
    allocation = Allocation.over(Axes.of((6,), prefix="0.a.").apply([SplitBy(0, 2)]), strides=(3, 1))
    write_allocation(draft, a, segment, allocation)
    graph = draft.finish(SCHEDULED).graph
    assert "domain %a in $0 allocation [#0.a.i0o:3, #0.a.i0i:1] contiguous [f, t]" in print_graph(graph)
    assert graph.domain(a, segment).contiguity == (False, True)
    again = parse(print_graph(graph))
    assert again == graph and read_allocation(again, a, segment) == allocation
