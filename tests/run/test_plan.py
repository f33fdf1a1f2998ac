"""Plans: launches, library calls, counts, versions and outputs, with kernels that are plain functions."""

import ctypes
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from fusekit.ids import NodeId
from fusekit.ir import Number, parse
from fusekit.run.memory import LayoutMismatch
from fusekit.run.plan import LastRun, execute, make_plan


@dataclass(frozen=True)
class Param:
    node: NodeId | None = None
    number: Number | None = None
    name: str = ""


@dataclass(frozen=True)
class Kernel:
    params: tuple[Param, ...]
    copies: int = 1
    checks: tuple[NodeId, ...] = ()
    room: int = 0


TEXT = """graph f {
  @a : 16 bytes cpu argument
  @t : 16 bytes cpu fresh
  @s : 16 bytes cpu fresh
  @e : 0 bytes cpu fresh
  %x : f32 (4):(1)+0 in @a input
  %t : f32 (4):(1)+0 in @t new
  %s : f32 (4):(1)+0 in @s new
  %head : f32 (2):(1)+1 in @s alias
  %e : f32 (0):(1)+0 in @e new
  %x.in : f32 [4]
  %v : f32 [4]
  %none : f32 [0]
  ^in %x = fk.input()
  ^load %x.in = fk.load(%x)
  ^v %v = aten.mul.Tensor(%x.in, <n0 2.0>)
  ^store = fk.store(%v, %t) writes 1
  ^store.x = fk.store(%v, %x) writes 1
  ^sum %s = aten.cumsum.default(%t, 0)
  ^none %none = fk.fill(value=0.0)
  ^store.e = fk.store(%none, %e) writes 1
  ^out = fk.return(%s, %head, %x, 3, %e)
  segment $0 pointwise [4] { ^load ^v ^store ^store.x }
  segment $1 extern [] { ^sum }
  segment $2 pointwise [0] { ^none ^store.e }
}
"""
KERNEL = Kernel((Param(NodeId("@a")), Param(NodeId("@t")), Param(None, Number(0, 2.0))))


def multiply(a: int, t: int, factor: float) -> None:
    values = [np.ctypeslib.as_array((ctypes.c_float * 4).from_address(p)) for p in (a, t)]
    values[0] *= np.float32(factor)
    values[1][:] = values[0]


def test_a_plan_runs_again_and_again() -> None:
    plan = make_plan(parse(TEXT), {NodeId("$0"): KERNEL}, lambda kernel: multiply)
    assert plan.counts == LastRun(kernels=1, extern_calls=1, copies=1)
    for factor in (2.0, 3.0):
        x = torch.arange(4.0)
        total, head, same, number, empty = execute(plan, [x], (factor,))
        assert torch.equal(x, torch.arange(4.0) * factor) and x._version == 1
        assert torch.equal(total, x.cumsum(0)) and same is x and number == 3 and empty.shape == (0,)
        assert head.data_ptr() == total[1:].data_ptr() and head._base is total


def test_a_segment_without_a_kernel_runs_op_by_op() -> None:
    plan = make_plan(parse(TEXT), {}, lambda kernel: multiply)
    x = torch.arange(4.0)
    total, *_ = execute(plan, [x], (2.0,))
    assert torch.equal(total, (torch.arange(4.0) * 2).cumsum(0)) and plan.counts == LastRun(0, 2, 3)


def test_a_failing_call_still_bumps_what_was_written() -> None:
    text = TEXT.replace("aten.cumsum.default(%t, 0)", "aten.cumsum.default(%t, 7)")
    plan = make_plan(parse(text), {NodeId("$0"): KERNEL}, lambda kernel: multiply)
    x = torch.ones(4)
    with pytest.raises(IndexError):
        execute(plan, [x], (2.0,))
    assert x.tolist() == [2, 2, 2, 2] and x._version == 1


def test_results_of_library_calls_are_checked() -> None:
    other = "%s : f32 (3):(1)+0"
    text = TEXT.replace("%s : f32 (4):(1)+0", other)
    plan = make_plan(parse(text), {NodeId("$0"): KERNEL}, lambda kernel: multiply)
    with pytest.raises(
        LayoutMismatch, match=r"\^sum aten.cumsum.default gave torch.float32 \[4\] .*recorded was .*\[3\]"
    ):
        execute(plan, [torch.ones(4)], (2.0,))


def test_other_strides_are_copied_into_the_recorded_ones() -> None:
    text = """graph f {
  @a : 24 bytes cpu argument
  @s : 24 bytes cpu fresh
  %x : f32 (2,3):(1,2)+0 in @a input
  %s : f32 (2,3):(3,1)+0 in @s new
  ^in %x = fk.input()
  ^0 %s = aten.cumsum.default(%x, 0)
  ^out = fk.return(%s)
  segment $0 extern [] { ^0 }
}
"""
    x = torch.arange(6.0).reshape(3, 2).t()
    (out,) = execute(make_plan(parse(text), {}, lambda kernel: multiply), [x])
    assert out.stride() == (3, 1) and torch.equal(out, x.cumsum(0))
