"""The interpreter: exact overloads on places, pure ops on values, outputs as eager gives them."""

import numpy as np
import pytest
import torch

from fusekit.errors import FusekitError
from fusekit.ir import parse
from fusekit.run.decode import overload
from fusekit.run.interpret import interpret
from fusekit.run.memory import LayoutMismatch

PROGRAM = """graph f {
  @a : 24 bytes cpu argument
  @v : 24 bytes cpu fresh
  %x : f32 (2,3):(3,1)+0 in @a input
  %y : f32 (3):(1)+3 in @a alias
  %y.1 : f32 (3):(1)+3 in @a alias
  %z : f32 (2,3):(3,1)+0 in @v new
  ^in %x = fk.input()
  ^0 %y = aten.select.int(%x, 0, 1)
  ^1 %y.1 = aten.mul_.Tensor(%y, 2.0) writes 0 same 0:0
  ^2 %z = aten.add.Tensor(%x, %y.1)
  ^out = fk.return(%z, %y.1, %x, 3, %z)
}
"""


def test_program_stage_runs_on_the_arguments() -> None:
    base = torch.arange(6.0)
    x = base.view(2, 3)
    z, y, same, number, again = interpret(parse(PROGRAM), [x])
    assert torch.equal(x, torch.tensor([[0.0, 1, 2], [6, 8, 10]]))
    assert torch.equal(z, x + x[1])
    assert y.data_ptr() == x[1].data_ptr() and y._base is base
    assert same is x and number == 3 and again is z
    assert x._version == 1


FUNCTIONAL = """graph f {{
  @a : 32 bytes cpu argument
  @v : {bytes} bytes cpu fresh
  %x : {dtype} (8):(1)+0 in @a input
  %out : {out} in @v new
  %x.in : {dtype} [8]
  {value}
  ^in %x = fk.input()
  ^load %x.in = fk.load(%x)
  {op}
  ^store = fk.store(%v, %out) writes 1
  ^out = fk.return(%out)
}}
"""


@pytest.mark.parametrize(
    ("shape", "op", "want"),
    [
        ((2, 4), "fk.window(%x.in, index=[{4*i0 + i1}])", lambda x: x.view(2, 4)),
        ((3, 8), "fk.window(%x.in, index=[{-i1 + 7}])", lambda x: x.flip(0).expand(3, 8)),
        ((4,), "fk.window(%x.in, index=[{2*i0 + 1}])", lambda x: x[1::2]),
        (
            (8,),
            "fk.overlay(%x.in, %x.in, index=[{i0 - 2}], where=[{0 <= i0 - 2 < 6}])",
            lambda x: torch.cat([x[:2], x[:6]]),
        ),
        ((3,), "fk.fill(value=2.5)", lambda x: torch.full((3,), 2.5)),
        ((4,), "fk.iota(start=3, step=-1)", lambda x: torch.arange(3.0, -1, -1)),
        ((8,), "aten.neg.default(%x.in)", lambda x: -x),
        ((0, 3), "fk.fill(value=1.0)", lambda x: torch.ones(0, 3)),
    ],
)
def test_values(shape: tuple[int, ...], op: str, want) -> None:
    sizes = ",".join(map(str, shape))
    strides = ",".join(str(s) for s in torch.empty(shape).stride())
    graph = parse(
        FUNCTIONAL.format(
            bytes=4 * int(np.prod(shape)), dtype="f32", out=f"f32 ({sizes}):({strides})+0",
            value=f"%v : f32 [{sizes}]", op=f"^v %v = {op}",
        )
    )  # fmt: skip
    x = torch.arange(8.0)
    (out,) = interpret(graph, [x])
    assert torch.equal(out, want(x)) and torch.equal(x, torch.arange(8.0))


@pytest.mark.parametrize(
    ("out", "op", "want"),
    [
        ("i32", "fk.bits(%x.in)", lambda x: x.view(torch.int32)),
        ("i32", "fk.cast(%x.in)", lambda x: x.to(torch.int32)),
        ("f16", "fk.cast(%x.in)", lambda x: x.to(torch.float16)),
    ],
)
def test_conversions(out: str, op: str, want) -> None:
    graph = parse(
        FUNCTIONAL.format(bytes=32, dtype="f32", out=f"{out} (8):(1)+0", value=f"%v : {out} [8]", op=f"^v %v = {op}")
    )
    x = torch.arange(8.0) - 3.5
    assert torch.equal(interpret(graph, [x])[0], want(x))


def test_store_writes_a_repeated_dimension_once() -> None:
    graph = parse("""graph f {
  @a : 12 bytes cpu argument
  %x : f32 (3):(1)+0 in @a input
  %wide : f32 (2,3):(0,1)+0 in @a alias
  %v : f32 [2,3]
  ^in %x = fk.input()
  ^v %v = fk.fill(value=7.0)
  ^store = fk.store(%v, %wide) writes 1
  ^out = fk.return()
}
""")
    x = torch.zeros(3)
    assert interpret(graph, [x]) == [] and x.tolist() == [7, 7, 7]


def test_two_storages_over_one_array() -> None:
    graph = parse("""graph f {
  @a : 40 bytes cpu argument
  %x : f32 (10):(1)+0 in @a input
  %y : f32 (4):(1)+3 in @a input
  %y.1 : f32 (4):(1)+3 in @a alias
  ^in %x, %y = fk.input()
  ^0 %y.1 = aten.fill_.Scalar(%y, 5.0) writes 0 same 0:0
  ^out = fk.return(%y.1)
}
""")
    array = np.zeros(10, dtype=np.float32)
    x, y = torch.from_numpy(array), torch.from_numpy(array[3:7])
    assert interpret(graph, [x, y])[0] is y
    assert x.tolist() == [0, 0, 0, 5, 5, 5, 5, 0, 0, 0]
    assert (x._version, y._version) == (0, 1)


def test_numbers_move_a_view_and_reach_an_op() -> None:
    graph = parse("""graph f {
  number n0 < 6
  @a : 24 bytes cpu argument
  %x : f32 (6):(1)+0 in @a input
  %at : f32 ():()+{n0} in @a alias
  %at.1 : f32 ():()+{n0} in @a alias
  ^in %x = fk.input()
  ^0 %at = aten.select.int(%x, 0, <n0 2>)
  ^1 %at.1 = aten.fill_.Scalar(%at, <n1 1.5>) writes 0 same 0:0
  ^out = fk.return(%at.1)
}
""")
    x = torch.zeros(6)
    interpret(graph, [x])
    interpret(graph, [x], (4, 2.5))
    assert x.tolist() == [0, 0, 1.5, 0, 2.5, 0]


def test_metadata_reaches_the_argument_object() -> None:
    graph = parse("""graph f {
  @a : 24 bytes cpu argument
  %x : f32 (2,3):(3,1)+0 in @a input
  %x.1 : f32 (3,2):(1,3)+0 in @a alias
  ^in %x = fk.input()
  ^0 %x.1 = aten.t_.default(%x) writes 0 same 0:0
  ^out = fk.return(%x.1, relayout=[[0, %x.1]])
}
""")
    x = torch.arange(6.0).reshape(2, 3).clone()
    assert interpret(graph, [x])[0] is x
    assert x.shape == (3, 2) and x.stride() == (1, 3)


def test_another_layout_than_recorded_is_loud() -> None:
    with pytest.raises(LayoutMismatch):
        interpret(parse(PROGRAM.replace("%y : f32 (3):(1)+3", "%y : f32 (3):(1)+2")), [torch.zeros(2, 3)])


def test_unknown_op() -> None:
    with pytest.raises(FusekitError, match="no op"):
        overload("aten.no_such_op.default")
