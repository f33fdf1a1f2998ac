"""docs/table.md is current, and every row keeps its bounds: kernels, copies, library calls, bytes over the least."""

import importlib.util
import sys
from itertools import combinations
from pathlib import Path
from types import ModuleType

import pytest
import torch

import fusekit as fk
from fusekit.programs import PROGRAMS, PROGRAMS_REAL

SCRIPT = Path(__file__).parent.parent / "docs" / "make_table.py"
ISSUE = {
    "one kernel": (
        "softmax", "layer_norm", "rms_norm", "residual_layer_norm", "group_norm_silu", "rope", "adamw", "siblings",
        "cross_entropy", "batch_norm", "group_norm_views_affine", "group_norm_views_silu", "linear_bias_gelu",
        "attention",
    ),
    "two kernels": ("rope_grouped", "unrelated", "layer_norm_backward", "native_layer_norm_backward"),
    "no kernel": ("qkv_views",),
}  # fmt: skip


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_table", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_table"] = module
    spec.loader.exec_module(module)
    return module


TABLE = load()


@pytest.fixture(scope="module")
def rows():
    return TABLE.rows()


def test_every_row_keeps_its_bounds(rows) -> None:
    assert not [row.problem for pair in rows for row in pair if row.problem]


def test_the_page_is_current(rows) -> None:
    assert TABLE.page(rows) == TABLE.PAGE.read_text(encoding="utf-8"), "python docs/make_table.py makes it anew"


def test_what_the_programs_are_asked_for() -> None:
    """The goals of the script, said once more: nobody loosens one without this test."""
    most = {p.name: TABLE.goal_of(p) for p in (*PROGRAMS, *PROGRAMS_REAL)}
    assert len(most) >= 40
    for kernels, names in enumerate((ISSUE["no kernel"], ISSUE["one kernel"], ISSUE["two kernels"])):
        assert all(most[name].cpu[0] <= kernels for name in names)
    assert {name for name, goal in most.items() if goal.may_call} == {
        "linear_bias_gelu", "attention", "qkv_views", "gpt2_block",
    }  # fmt: skip
    assert all(goal.most(backend)[1] == 0 for goal in most.values() for backend in TABLE.BACKENDS)
    free = [name for name, goal in most.items() if not goal.because and not goal.bounds]
    assert all(most[name].bound <= 1.05 for name in free)


def test_a_row_that_misses_its_bounds_says_so() -> None:
    softmax = next(p for p in PROGRAMS if p.name == "softmax")
    good = TABLE.Row(softmax, TABLE.USUAL, "cpu", (1, 0, 0, 0), 100, 100)
    assert good.problem is None
    assert "2 / 0 / 0 / 0" in TABLE.Row(softmax, TABLE.USUAL, "cpu", (2, 0, 0, 0), 100, 100).problem
    assert "1.500" in TABLE.Row(softmax, TABLE.USUAL, "cpu", (1, 0, 0, 0), 150, 100).problem


@pytest.mark.parametrize("backend", TABLE.BACKENDS)
def test_no_two_kernels_of_a_gpt2_block_could_be_one(backend: str) -> None:
    """Each pair is refused when it is asked for, and the record says why."""
    program = next(p for p in PROGRAMS_REAL if p.name == "gpt2_block")
    with torch.no_grad():
        x = fk.explore(program.fn, *program.make((32, 128), torch.float32), options=fk.Options(backend=backend))
    kernels = [s.id for s in x.segments if s.kernel is not None]
    assert len(kernels) > 1
    for first, then in combinations(kernels, 2):
        assert x.why(first, then)
        with pytest.raises(fk.FusekitError, match="cannot be one kernel"):
            x.what_if(merge=(first, then))
