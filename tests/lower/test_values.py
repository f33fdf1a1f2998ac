"""Values of every kind, dtype and shape against the interpreter."""

import pytest

from fusekit.dtypes import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, DType
from fusekit.index import Form, number_var
from fusekit.ir import Number
from fusekit.lower import CannotLower, can_lower, lower_segment
from fusekit.torch_types import TO_TORCH
from tests.lower.sketch import Sketch, at, check, stores

DTYPES = (F32, F64, F16, BF16, I8, U8, I16, I32, I64, BOOL)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 5, 67])
def test_copy_of_each_dtype(dtype: DType, n: int) -> None:
    s = Sketch()
    source, out = s.fresh((n,), dtype, "x"), s.fresh((n,), dtype)
    s.store(s.load(source), out)
    check(s.finish(), dtype=TO_TORCH[dtype])


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not BOOL])
def test_arithmetic_in_each_dtype(dtype: DType) -> None:
    s = Sketch()
    x, y, out = s.fresh((3, 11), dtype, "x"), s.fresh((11,), dtype, "y"), s.fresh((3, 11), dtype)
    product = s.apply("aten.mul.Tensor", s.load(x), s.load(y))
    s.store(s.apply("aten.add.Tensor", product, s.load(x), alpha=3), out)
    check(s.finish(), dtype=TO_TORCH[dtype])


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", [F32, BF16, I32, BOOL])
def test_casts(source: DType, target: DType) -> None:
    s = Sketch()
    x, out = s.fresh((13,), source, "x"), s.fresh((13,), target)
    s.store(s.cast(s.load(x), target), out)
    check(s.finish(), how=("compiled",), dtype=TO_TORCH[source])


@pytest.mark.parametrize(("source", "target"), [(F32, I32), (I32, F32), (F16, I16), (BF16, I16), (F64, I64), (U8, I8)])
def test_bits(source: DType, target: DType) -> None:
    s = Sketch()
    x, out = s.fresh((13,), source, "x"), s.fresh((13,), target)
    s.store(s.op("fk.bits", [s.load(x)], (13,), target), out)
    check(s.finish(), dtype=TO_TORCH[source])


def test_transcendentals() -> None:
    s = Sketch()
    x, out = s.fresh((7, 31), name="x"), s.fresh((7, 31))
    value = s.load(x)
    for word in ("tanh", "sin", "exp", "sigmoid"):
        value = s.apply(f"aten.{word}.default", value)
    s.store(value, out)
    check(s.finish(), exact=False)


def test_no_dimension_is_no_loop() -> None:
    s = Sketch()
    x, out = s.fresh((), name="x"), s.fresh(())
    s.store(s.add(s.load(x), 1), out)
    assert "for " not in check(s.finish()).source


def test_no_element_is_no_statement() -> None:
    s = Sketch()
    x, out = s.fresh((0, 4), name="x"), s.fresh((0, 4))
    s.store(s.load(x), out)
    assert check(s.finish()).params == ()


def test_broadcast_and_numbers() -> None:
    s = Sketch()
    row, column, out = s.fresh((9,), name="row"), s.fresh((4, 1), name="column"), s.fresh((4, 9))
    total = s.apply("aten.add.Tensor", s.load(column), s.load(row), alpha=Number(0, 2))
    s.store(s.apply("aten.mul.Scalar", total, Number(1, 0.5)), out)
    kernel = check(s.finish(), numbers=(3, 0.25))
    assert [p.name for p in kernel.params] == ["m0", "m1", "m2", "n0", "n1"]
    assert [p.kind for p in kernel.params] == ["address"] * 3 + ["int", "float"]


def test_fill_and_arange() -> None:
    s = Sketch()
    out, other = s.fresh((11,), I64), s.fresh((11,), name="f")
    s.store(s.op("fk.iota", [], (11,), I64, start=-3, step=2), out)
    s.store(s.add(s.op("fk.iota", [], (11,), F32, start=0.5, step=0.25), s.fill(float("inf"), (11,))), other)
    check(s.finish())


def test_arange_from_a_number_of_the_caller() -> None:
    s = Sketch()
    out = s.fresh((11,), I64)
    s.store(s.op("fk.iota", [], (11,), I64, start=Number(0, 5), step=Number(1, 2)), out)
    check(s.finish(), numbers=(7, -3))


@pytest.mark.parametrize("strides", [(1, 6), (16, 2), (12, 1)])
def test_stores_with_strides(strides: tuple[int, int]) -> None:
    s = Sketch()
    x = s.fresh((6, 8), name="x")
    out = s.place(s.block(4 * 200), (6, 8), strides, 3)
    s.store(s.add(s.load(x), 1), out)
    check(s.finish())


def test_descending_layout() -> None:
    s = Sketch()
    x = s.place(s.block(40), (10,), (-1,), 9, name="x")
    out = s.fresh((10,))
    s.store(s.load(x), out)
    graph = s.finish()  # torch has no negative strides: only the form is looked at
    assert "load_f32(m0, -i0 + 9)" in lower_segment(graph, stores(graph)).source


# ---- windows and overlays


def test_slice_is_written_over() -> None:
    s = Sketch()
    base, part = s.fresh((20,), name="base"), s.fresh((5,), name="part")
    i = at(20)[0]
    s.store(s.overlay(s.load(base), s.load(part), [i - 4], [(i - 4, 5)]), base)
    kernel = check(s.finish())
    assert "min(" not in kernel.source  # the guard proves the address


def test_strided_slice_is_written_over() -> None:
    s = Sketch()
    base, part = s.fresh((20,), name="base"), s.fresh((5,), name="part")
    i = at(20)[0]
    s.store(s.overlay(s.load(base), s.load(part), [(i - 3) // 3], [((i - 3) // 3, 5), ((i - 3) % 3, 1)]), base)
    check(s.finish())


def test_concatenation() -> None:
    s = Sketch()
    a, b, out = s.fresh((3, 4), name="a"), s.fresh((2, 4), name="b"), s.fresh((5, 4))
    i, j = at(5, 4)
    first = s.overlay(s.fill(0, (5, 4)), s.load(a), [i, j], [(i, 3)])
    s.store(s.overlay(first, s.load(b), [i - 3, j], [(i - 3, 2)]), out)
    assert check(s.finish()).copies == 0


def test_pad_reads_nothing_outside() -> None:
    s = Sketch()
    x, out = s.fresh((4, 5), name="x"), s.fresh((6, 9))
    i, j = at(6, 9)
    s.store(s.overlay(s.fill(7, (6, 9)), s.load(x), [i - 1, j - 2], [(i - 1, 4), (j - 2, 5)]), out)
    assert "min(" not in check(s.finish()).source


def test_chain_of_overlays_stays_small() -> None:
    """x[1:] += x[:-1] as values, again and again: selects in scopes would double each time."""
    s = Sketch()
    x = s.fresh((30,), name="x")
    value, (i,) = s.load(x), at(30)
    (k,) = at(29)
    for _ in range(6):
        moved = s.add(s.window(value, (29,), k), s.window(value, (29,), k + 1))
        value = s.overlay(value, moved, [i - 1], [(i - 1, 29)])
    s.store(value, x)
    kernel = check(s.finish())
    assert len(kernel.source.splitlines()) < 200


def test_reshape_of_a_transpose() -> None:
    s = Sketch()
    x, out = s.fresh((4, 6), name="x"), s.fresh((24,))
    (k,) = at(24)
    i, j = at(6, 4)
    turned = s.window(s.load(x), (6, 4), j, i)
    s.store(s.window(turned, (24,), k // 4, k % 4), out)
    check(s.finish())


def test_window_of_a_number_of_the_caller() -> None:
    for n in (0, 5):
        s = Sketch()
        x, out = s.fresh((6, 4), name="x"), s.fresh((4,))
        s.store(s.window(s.load(x), (4,), Form.of(number_var(0, 6)), at(4)[0]), out)
        check(s.finish(), numbers=(n,))


# ---- loops


def test_dense_dimensions_are_one_loop() -> None:
    s = Sketch()
    x, out = s.fresh((3, 4, 5), name="x"), s.fresh((3, 4, 5))
    s.store(s.add(s.load(x), 1), out)
    kernel = check(s.finish())
    assert "for i0 in range(60):" in kernel.source
    assert kernel.space == (3, 4, 5)


def test_broadcast_row_keeps_two_loops_of_four() -> None:
    s = Sketch()
    x, row, out = s.fresh((2, 3, 4, 5), name="x"), s.fresh((4, 5), name="row"), s.fresh((2, 3, 4, 5))
    s.store(s.add(s.load(x), s.load(row)), out)
    source = check(s.finish()).source
    assert "for i0 in range(6):" in source
    assert "for i1 in range(20):" in source


def test_inner_loop_walks_along_memory() -> None:
    s = Sketch()
    x, out = s.place(s.block(4 * 24), (4, 6), (1, 4), name="x"), s.place(s.block(4 * 24), (4, 6), (1, 4), name="o")
    s.store(s.add(s.load(x), 1), out)
    assert "for i0 in range(24):" in check(s.finish()).source


def test_row_values_are_computed_once_a_row() -> None:
    s = Sketch()
    x, column, out = s.fresh((4, 6), name="x"), s.fresh((4, 1), name="column"), s.fresh((4, 6))
    s.store(s.add(s.load(x), s.apply("aten.exp.default", s.load(column))), out)
    lines = check(s.finish(), exact=False).source.splitlines()
    assert next(line for line in lines if "exp(" in line).startswith("        exp")


def test_smaller_stores_share_the_loop() -> None:
    s = Sketch()
    block = s.block(4 * 48)
    x, part = s.place(block, (6, 8), name="x"), s.place(block, (3, 4), (8, 1), 9, name="part")
    out, other, flat = s.fresh((6, 8)), s.fresh((6,), name="rows"), s.fresh((7,), name="flat")
    s.store(s.add(s.load(x), 1), out)
    s.store(s.add(s.load(part), 2), part)
    s.store(s.fill(3, (6,)), other)
    s.store(s.add(s.op("fk.iota", [], (7,), F32, start=0, step=1), 1), flat)
    kernel = check(s.finish())
    assert kernel.order == "any"


# ---- refusals


def test_refusals_name_the_op() -> None:
    s = Sketch()
    x, out = s.fresh((4, 4), name="x"), s.fresh((4, 4))
    value = s.op("aten.cumsum.default", [s.load(x)], (4, 4), F32, 0)
    s.store(value, out)
    graph = s.finish()
    with pytest.raises(CannotLower, match="cumsum"):
        lower_segment(graph, stores(graph))
    assert "cumsum" in (can_lower(graph, graph.producer(value)) or "")
    assert can_lower(graph, stores(graph)[0]) is None


def test_budget_of_values() -> None:
    s = Sketch()
    x = s.fresh((4,), name="x")
    value = s.load(x)
    for _ in range(50):
        value = s.add(value, 1)
    s.store(value, x)
    graph = s.finish()
    with pytest.raises(CannotLower, match="more than 40 values"):
        lower_segment(graph, stores(graph), most_values=40)


def test_deep_chains_need_no_recursion() -> None:
    s = Sketch()
    x = s.fresh((4,), name="x")
    value = s.load(x)
    for _ in range(1000):
        value = s.add(value, 1)
    s.store(value, x)
    graph = s.finish()
    assert lower_segment(graph, stores(graph), most_values=2000).source.count("\n") > 1000


def test_lines_name_their_ops() -> None:
    s = Sketch()
    x, out = s.fresh((4,), name="x"), s.fresh((4,))
    s.store(s.add(s.load(x), 1), out)
    graph = s.finish()
    kernel = lower_segment(graph, stores(graph))
    text = kernel.source.splitlines()
    named = {graph.op(op).target: text[line - 1].strip() for line, ops in kernel.lines for op in ops}
    assert named["fk.load"] == "x = load_f32(m0, i0)"
    assert named["fk.store"] == "store_f32(m1, i0, add)"
    assert named["aten.add.Tensor"].startswith("add = ")
    assert kernel.source == lower_segment(graph, stores(graph)).source


def test_names_do_not_hide_helpers() -> None:
    s = Sketch()
    x, out = s.fresh((4,), name="exp"), s.fresh((4,), name="range")
    value = s.apply("aten.sigmoid.default", s.apply("aten.sigmoid.default", s.load(x)))
    s.store(value, out)
    assert "sigmoid_sigmoid = sigmoid(sigmoid_" in check(s.finish(), exact=False).source
