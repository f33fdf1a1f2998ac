"""The words for the usual relations."""

import pytest

from fusekit import dtypes
from fusekit.index import Form, number_var
from fusekit.ir import Layout
from fusekit.memory import describe

WHOLE = Layout.contiguous((4, 6), dtypes.F32)
LINE = Layout.contiguous((16,), dtypes.F32)


def f32(offset, shape, strides, dtype=dtypes.F32):
    return Layout.of(4 * offset, shape, [4 * s for s in strides], dtype)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (WHOLE, "same elements"),
        (f32(0, (1, 4, 1, 6), (0, 6, 0, 1)), "same elements"),
        (f32(0, (24,), (1,)), "same elements, another shape"),
        (f32(0, (), ()), "element [0,0]"),
        (f32(7, (), ()), "element [1,1]"),
        (f32(18, (6,), (1,)), "row 3"),
        (f32(6, (3, 6), (6, 1)), "rows 1 to 3"),
        (f32(1, (4, 3), (6, 2)), "columns 1::2"),
        (f32(2, (4,), (6,)), "column 2"),
        (f32(0, (2, 6), (12, 1)), "rows ::2"),
        (f32(7, (2, 2), (6, 1)), "[1..2, 1..2]"),
        (f32(0, (6, 4), (1, 6)), "transpose"),
        (f32(0, (4,), (7,)), "diagonal"),
        (f32(5, (4, 6), (6, -1)), "flip"),
        (f32(23, (4, 6), (-6, -1)), "flip"),
        (f32(0, (3, 6), (0, 1)), "row 0, repeated"),
        (f32(4, (4, 6), (6, 1)), "shift by 4 elements (20 of 24 elements)"),
        (f32(12, (4, 6), (6, 1)), "shift by (2, 0) (12 of 24 elements)"),
        (f32(24, (4, 6), (6, 1)), "no common element"),
        (f32(0, (5, 6), (6, 1)), "all, as rows 0 to 3 of it"),
        (f32(0, (4, 6), (6, 1), dtypes.I32), "reinterpreted as i32"),
        (f32(6, (6,), (1,), dtypes.I32), "reinterpreted as i32, row 1"),
        (Layout.contiguous((4, 12), dtypes.I16), "reinterpreted as i16"),
        (Layout.contiguous((4,), dtypes.I16), "reinterpreted as i16, 8 of 96 bytes"),
        (Layout(Form.of(number_var(0, 4)) * 24, (6,), (4,), dtypes.F32), "row n0"),
    ],
)
def test_of_four_rows_and_six_columns(layout, text):
    assert describe(layout, WHOLE) == text


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (f32(4, (16,), (1,)), "shift by 4 (12 of 16 elements)"),
        (f32(2, (7,), (1,)), "elements 2 to 8"),
        (f32(15, (16,), (-1,)), "flip"),
        (f32(3, (), ()), "element [3]"),
    ],
)
def test_of_a_line(layout, text):
    assert describe(layout, LINE) == text
