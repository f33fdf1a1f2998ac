"""Index forms, guards and types as a person would write them."""

from __future__ import annotations

import pytest

from fusekit.draw.words import (
    bytes_text,
    guard_text,
    guards_text,
    index_text,
    letter_of,
    plural,
    region_text,
    type_text,
)
from fusekit.dtypes import F32
from fusekit.index import Form, Var, loop_vars, number_var
from fusekit.ir import Block, Guard, Layout, Tensor, empty_graph

I0, I1 = (Form.of(Var(f"i{k}", n)) for k, n in enumerate((4, 6)))
N0 = Form.of(number_var(0, 3))


@pytest.mark.parametrize(
    ("index", "shape", "text"),
    [
        ((), (), "[]"),
        ((Form(), Form()), (4, 6), "[0,0]"),
        ((I0, I1), (4, 6), "[:]"),
        ((I0 + 1, I1), (5, 6), "[1:]"),
        ((I0, I1 + 2), (4, 9), "[:,2:8]"),
        ((I0 * 2, I1), (8, 6), "[::2]"),
        ((I0 * -1 + 3, I1), (4, 6), "[::-1]"),
        ((I0 * -1 + 4, I1), (6, 6), "[4:0:-1]"),
        ((N0, I0), (3, 4), "[n0]"),
        ((I0 + N0, I1), (7, 6), "[n0:n0 + 4]"),
        ((I1, I0), (6, 4), None),
        ((I0 + I1,), (9,), None),
        ((I0 // 2,), (2,), None),
    ],
)
def test_indexes_read_like_python(index: tuple[Form, ...], shape: tuple[int, ...], text: str | None) -> None:
    assert index_text(index, shape) == text


@pytest.mark.parametrize(
    ("guards", "text"),
    [
        ((Guard(I0, 1), Guard(I1, 1)), "at [0,0]"),
        ((Guard(I0 - 1, 3),), "at [1:]"),
        ((Guard(I1 - 2, 2),), "at [:,2:4]"),
        ((Guard(I0 + I1, 5),), "where i0 + i1 < 5"),
        ((Guard(I0 - N0, 1),), "where i0 - n0 == 0"),
    ],
)
def test_guards_read_like_a_region_or_a_condition(guards: tuple[Guard, ...], text: str) -> None:
    assert guards_text(guards, (4, 6)) == text


def test_guard_says_only_what_is_not_known() -> None:
    assert guard_text(Guard(I0 - 2, 9)) == "i0 >= 2"
    assert guard_text(Guard(I1 - 2, 2)) == "2 <= i1 < 4"
    assert guard_text(Guard(I0 - 2, 1)) == "i0 == 2"


def test_region_of_a_layout() -> None:
    whole = Layout.contiguous((4, 6), F32)
    assert region_text(Layout.of(4 * 6, (3, 6), (24, 4), F32), whole) == "[1:]"
    assert region_text(Layout.of(4, (4,), (24,), F32), whole) == "[:,1]"
    assert region_text(Layout.of(0, (2, 2), (4, 4), F32), whole) == ""


def test_sizes_and_counts() -> None:
    assert [bytes_text(n) for n in (0, 12, 1024, 262_656, 4 << 20, 385 << 20)] == [
        "0 B",
        "12 B",
        "1.0 KiB",
        "256.5 KiB",
        "4.0 MiB",
        "385 MiB",
    ]
    assert [plural(1, "op"), plural(2, "library call"), plural(1234, "copy")] == [
        "1 op",
        "2 library calls",
        "1,234 copies",
    ]
    assert type_text(Tensor(F32, (8, 128))) == "f32[8,128]" and type_text(Tensor(F32, ())) == "f32[]"


def test_a_block_keeps_its_letter() -> None:
    draft = empty_graph("g").draft("x")
    ids = [draft.add_block(Block(4, "cpu", "fresh")) for _ in range(30)]
    graph = draft.finish().graph
    assert [letter_of(graph, ids[k]) for k in (0, 25, 26, 29)] == ["A", "Z", "AA", "AD"] and letter_of(
        graph, None
    ) == ""


def test_loop_variable_of_one_element_is_a_whole_dimension() -> None:
    assert index_text(loop_vars((1, 6)), (1, 6)) == "[:]"
