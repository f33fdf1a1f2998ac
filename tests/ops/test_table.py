"""The table against torch's schemas, and what ``plan`` accepts and refuses."""

import math

import pytest
import torch

from fusekit.dtypes import BF16, BOOL, C64, F16, F32, F64, I8, I32, I64, U8
from fusekit.ir import Number, Operand, Symbol
from fusekit.ops import Kind, Refusal, compiled, functional, is_pointwise, plan
from fusekit.ops.table import ENTRIES, _parameters

A, B = Operand(0), Operand(1)


def overload(target: str):
    _, name, which = target.split(".")
    return getattr(getattr(torch.ops.aten, name), which)


@pytest.mark.parametrize("target", ENTRIES)
def test_schema(target):
    """Names, order and the split into positional and keyword arguments are the schema's; so are which have defaults."""
    arguments = overload(target)._schema.arguments
    names, positional, defaults = _parameters(ENTRIES[target].signature)
    assert names == tuple(argument.name for argument in arguments)
    assert positional == sum(not argument.kwarg_only for argument in arguments)
    assert set(defaults) == {argument.name for argument in arguments if argument.has_default_value()}
    for argument in arguments:
        if argument.has_default_value():
            assert argument.default_value == defaults[argument.name], argument.name


def writers():
    """Every in-place and out= overload of the packets of the table."""
    for name in sorted({target.split(".")[1] for target in ENTRIES}):
        for packet in {name, f"{name}_", f"__i{name[2:]}" if name.startswith("__") else name}:
            if hasattr(torch.ops.aten, packet):
                for which in getattr(torch.ops.aten, packet).overloads():
                    yield f"aten.{packet}.{which}"


NOT_FUSED = {"aten.round.decimals_out", "aten.round_.decimals", "aten.true_divide_.Scalar", "aten.copy_.Tensor"}
NOT_FUSED |= {f"aten.{packet}_.t" for packet in ("add", "mul")} | {"aten.copy_.int", "aten.copy_.float"}
NOT_FUSED |= {f"aten.{m}.{which}" for m in ("max", "min") for which in (f"dim_{m}", "unary_out")}


def test_functional():
    """In-place and out= overloads map to the functional one of the same arguments."""
    for target in writers():
        schema = overload(target)._schema
        written = [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write]
        found = functional(target)
        if not written or target in NOT_FUSED:
            assert found in (target, None)
            continue
        assert found is not None, target
        if target != "aten._to_copy.out":
            given = [a.name for a in schema.arguments if not (a.kwarg_only and a.name in written)]
            assert [a.name for a in overload(found)._schema.arguments] == given, target


def test_names():
    assert functional("aten.add_.Tensor") == functional("aten.add.out") == "aten.add.Tensor"
    assert functional("aten.copy_.default") == "aten.copy.default"
    assert functional("aten.mm.default") is functional("fk.window") is functional("aten.fill_.Scalar") is None
    assert is_pointwise("aten.pow_.Scalar") and not is_pointwise("prims.add.default")


def test_bodies_read_well():
    both = (Kind(BF16), Kind(BF16))
    assert plan("aten.add.Tensor", (A, B), (), both).body == "to_bf16({0} + {1})"
    assert plan("aten.mul.Tensor", (A, 2), (), (Kind(U8),)).body == "np.uint8({0} * np.uint8(2))"
    assert plan("aten.ge.Scalar", (A, math.inf), (), (Kind(F32),)).body == "{0} >= np.float32(np.inf)"


def test_operands_convert_first():
    found = plan("aten.add.Tensor", (A, B), (), (Kind(I8), Kind(F16)))
    assert (found.result, found.operands) == (F16, (F16, F16))
    found = plan("aten.where.self", (A, B, 0.5), (), (Kind(BOOL), Kind(I64)))
    assert (found.result, found.operands) == (F32, (BOOL, F32))


def test_an_operand_wanted_in_two_dtypes_converts_inside():
    found = plan("aten.where.self", (A, A, B), (), (Kind(BOOL), Kind(F64)))
    assert found.operands == (BOOL, F64)
    assert found.body == "np.float64({0}) if {0} else {1}"


def test_parameters_are_named():
    found = plan("aten.mul.Tensor", (A, Number(3, 2.5)), (), (Kind(BF16),))
    assert found.numbers == (Number(3, 2.5),) and "{n3}" in found.body
    import numpy as np

    assert compiled(found)(np.float32(2), 0.25) == np.float32(0.5)
    added = plan("aten.add.Tensor", (A, Number(0, 7)), {"alpha": Number(1, 2)}, (Kind(U8),))
    with np.errstate(over="ignore"):
        assert compiled(added)(np.uint8(250), 300, 2) == np.uint8((250 + 600) % 256)


@pytest.mark.parametrize(
    ("target", "args", "kwargs", "kinds", "reason"),
    [
        ("aten.mm.default", (A, B), {}, (Kind(F32), Kind(F32)), "not in the table"),
        ("aten.add.Tensor", (A, B), {"beta": 1}, (Kind(F32), Kind(F32)), "beta is not understood"),
        ("aten.add.Tensor", (A, B), {}, (Kind(C64), Kind(F32)), "no kernel computes in c64"),
        ("aten.div.Tensor_mode", (A, B), {"rounding_mode": "trunc"}, (Kind(I32), Kind(I32)), "raises on data"),
        ("aten.remainder.Scalar", (A, 0), {}, (Kind(I32),), "raises on data"),
        ("aten.remainder.Scalar", (A, 256), {}, (Kind(U8),), "raises on data"),
        ("aten.floor_divide.Scalar", (A, Number(0, 3)), {}, (Kind(I32),), "raises on data"),
        ("aten._to_copy.default", (A,), {"dtype": C64}, (Kind(F32),), "no kernel stores c64"),
        ("aten.gelu.default", (A,), {"approximate": Symbol("x")}, (Kind(F32),), "gelu approximated"),
        ("aten.add.Tensor", (A,), {}, (Kind(F32),), "other is missing"),
        ("aten.relu.default", (A,), {}, (Kind(BOOL),), "no kernel of this op computes in bool"),
    ],
)
def test_refusals(target, args, kwargs, kinds, reason):
    found = plan(target, args, kwargs, kinds)
    assert isinstance(found, Refusal) and reason in found.reason
