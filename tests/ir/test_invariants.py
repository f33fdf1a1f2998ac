"""Each invariant has a graph that breaks it, and says so by its name."""

from collections.abc import Callable

import pytest

from fusekit.dtypes import F32, F64
from fusekit.errors import InvalidGraph
from fusekit.ir import (
    FUNCTIONAL,
    PROGRAM,
    SEGMENTED,
    Block,
    Draft,
    Invariant,
    Layout,
    Op,
    Operand,
    Ordering,
    Segment,
    Tensor,
    core,
    empty_graph,
)

LAYOUT = Layout.contiguous((4,), F32)
EXP = Op(core.Call("aten.exp.default", (Operand(0),)))


def start() -> Draft:
    draft = empty_graph("f").draft("breaker")
    draft.add_block(Block(16, "cpu", "argument"), id="@0")
    for name in ("%a", "%b"):
        draft.add_tensor(Tensor(F32, (4,)), id=name, block="@0", layout=LAYOUT)
    for name in ("%v", "%w"):
        draft.add_tensor(Tensor(F32, (4,)), id=name)
    return draft


def used_before_made(d: Draft) -> None:
    d.add_op(EXP, ("%a",), ("%b",))
    d.add_op(EXP, ("%b",), ("%a",))
    d.add_op(EXP, ("%v",), ("%w",))


def operand_not_mentioned(d: Draft) -> None:
    d.add_op(EXP, ("%a", "%b"), ("%v",))


def two_producers(d: Draft) -> None:
    d.add_op(EXP, ("%a",), ("%b",))
    d.add_op(EXP, ("%a",), ("%b",))


def layout_outside_block(d: Draft) -> None:
    d.add_tensor(Tensor(F32, (5,)), id="%c", block="@0", layout=Layout.contiguous((5,), F32))


def place_past_all_memory(d: Draft) -> None:
    d.add_tensor(Tensor(F32, (5,)), id="%c", block="@0", layout=Layout.of(1 << 63, (5,), (4,), F32))


def layout_of_another_dtype(d: Draft) -> None:
    d.add_tensor(Tensor(F64, (2,)), id="%c", block="@0", layout=Layout.contiguous((2,), F32))


def order_backwards(d: Draft) -> None:
    d.add_op(EXP, ("%a",), ("%b",), id="^0")
    d.add_op(Op(core.Call("aten.exp_.default", (Operand(0),), writes=(0,))), ("%a",), id="^1")
    d.order("^1", "^0", Ordering(("RAW",)))


def value_in_the_program(d: Draft) -> None:
    pass


def op_mixes_values_and_places(d: Draft) -> None:
    d.add_op(Op(core.Load()), ("%a",), ("%v",))
    d.add_op(Op(core.Call("aten.add.Tensor", (Operand(0), Operand(1)))), ("%v", "%a"), ("%w",))


def load_of_a_value(d: Draft) -> None:
    d.add_op(Op(core.Load()), ("%a",), ("%v",))
    d.add_op(Op(core.Load()), ("%v",), ("%w",))


def load_changes_the_shape(d: Draft) -> None:
    d.add_tensor(Tensor(F32, (2,)), id="%small")
    d.add_op(Op(core.Load()), ("%a",), ("%small",))


def window_without_forms(d: Draft) -> None:
    d.add_op(Op(core.Load()), ("%a",), ("%v",))
    d.add_op(Op(core.Window(())), ("%v",), ("%w",))


def op_without_segment(d: Draft) -> None:
    d.add_op(Op(core.Load()), ("%a",), ("%v",))


def segments_out_of_order(d: Draft) -> None:
    d.add_op(Op(core.Load()), ("%a",), ("%v",), id="^load")
    d.add_op(Op(core.Store()), ("%v", "%b"), id="^store")
    d.order("^load", "^store", Ordering(("WAR",)))
    d.add_segment(Segment("pointwise"), ["^store"])
    d.add_segment(Segment("pointwise"), ["^load"])


def reduction_keeps_its_dimension(d: Draft) -> None:
    d.add_op(Op(core.Load()), ("%a",), ("%v",), id="^load")
    d.add_op(Op(core.Reduce("sum", (0,))), ("%v",), ("%w",), id="^reduce")


BROKEN = [
    ("defined-before-use", used_before_made, FUNCTIONAL),
    ("operands-numbered", operand_not_mentioned, FUNCTIONAL),
    ("one-producer", two_producers, FUNCTIONAL),
    ("sizes-fit", place_past_all_memory, PROGRAM),
    ("layouts-fit", layout_outside_block, PROGRAM),
    ("layouts-fit", layout_of_another_dtype, PROGRAM),
    ("memory-is-ordered", order_backwards, FUNCTIONAL),
    ("only-places", value_in_the_program, PROGRAM),
    ("values-are-pure", op_mixes_values_and_places, FUNCTIONAL),
    ("values-are-pure", load_of_a_value, FUNCTIONAL),
    ("shapes-agree", load_changes_the_shape, FUNCTIONAL),
    ("shapes-agree", window_without_forms, FUNCTIONAL),
    ("reductions-fit", reduction_keeps_its_dimension, FUNCTIONAL),
    ("every-op-has-a-segment", op_without_segment, SEGMENTED),
    ("segments-are-ordered", segments_out_of_order, SEGMENTED),
]


@pytest.mark.parametrize(("name", "break_it", "stage"), BROKEN, ids=[b.__name__ for _, b, _ in BROKEN])
def test_broken(name: str, break_it: Callable[[Draft], None], stage: tuple[Invariant, ...]) -> None:
    draft = start()
    break_it(draft)
    with pytest.raises(InvalidGraph, match=f"breaker broke {name}"):
        draft.finish(stage)


def test_every_invariant_is_broken_here() -> None:
    assert {i.name for i in (*PROGRAM, *FUNCTIONAL, *SEGMENTED)} == {name for name, _, _ in BROKEN}
