"""The same bodies compiled by Numba: one compiled loop for a group of bodies, one body for each op.

The dtype rotates through the table so that every dtype meets every family; the 8-bit loops are exhaustive.
"""

import itertools
import math
from functools import cache

import numba
import numpy as np
import pytest
import torch
from calls import NUMPY, Case, accidents, cases, distance, registers

from fusekit.dtypes import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8
from fusekit.ir import Operand
from fusekit.ops import Refusal, Scalar, cast, linked
from fusekit.ops.table import ENTRIES
from fusekit.torch_types import FROM_TORCH, TO_TORCH

OPTIONS = {"error_model": "numpy"}


@cache
def helpers():
    return linked(numba.njit(**OPTIONS))


def by_numba(calls: list[tuple[Case, Scalar]]) -> list[np.ndarray]:
    """All bodies in one compiled loop; the calls' tensors must be of one length."""
    names, arrays, lines = [], [], []
    results = [np.empty(len(case.tensors[0]), NUMPY[body.result]) for case, body in calls]
    for j, (case, body) in enumerate(calls):
        mine = [f"a{j}_{k}" for k in range(len(case.tensors))]
        names += [*mine, f"out{j}"]
        arrays += [*map(registers, case.tensors), results[j]]
        texts = zip(mine, case.tensors, body.operands, strict=True)
        casts = [cast(f"{name}[i]", FROM_TORCH[t.dtype], want) for name, t, want in texts]
        lines.append(f"        out{j}[i] = {body.body.format(*casts)}")
    source = "\n".join([f"def loop({', '.join(names)}):", "    for i in range(out0.size):", *lines])
    scope = {**helpers(), "np": np, "math": math}
    exec(source, scope)
    numba.njit(**OPTIONS)(scope["loop"])(*arrays)
    return results


def one_call(target: str, dtypes) -> tuple[Case, Scalar] | None:
    """The first call of an overload that eager and the table accept, by the order of ``dtypes``."""
    for dtype in dtypes:
        for case in cases(target, dtype):
            try:
                case.eager()
            except (RuntimeError, NotImplementedError):
                continue
            body = case.plan()
            if not isinstance(body, Refusal) and all(t.dim() for t in case.tensors):
                return case, body
    return None


def check(calls: list[tuple[Case, Scalar]]) -> None:
    for (case, body), found in zip(calls, by_numba(calls), strict=True):
        expected = case.eager().reshape(-1)
        apart = np.where(accidents(case), 0, distance(found, expected, body))
        k = int(apart.argmax())
        allowed = body.ulps + (body.ulps > 0)
        inputs = [t[k].item() for t in case.tensors]
        assert apart[k] <= allowed, f"{case} at {inputs}: {found[k]} for {expected[k]}: {body.body}"


ROTATION = (F32, I32, BF16, U8, F64, BOOL, I64, F16, I8, I16)


def grouped() -> list[list[tuple[Case, Scalar]]]:
    chosen = []
    for k, target in enumerate(name for name in ENTRIES if not name.split(".")[2].startswith("Scalar")):
        turn = k % len(ROTATION)
        call = one_call(target, ROTATION[turn:] + ROTATION[:turn])
        if call is not None:
            chosen.append(call)
    chosen.sort(key=lambda call: len(call[0].tensors[0]))
    by_length = itertools.groupby(chosen, key=lambda call: len(call[0].tensors[0]))
    return [same[k : k + 12] for same in (list(group) for _, group in by_length) for k in range(0, len(same), 12)]


@pytest.mark.parametrize("calls", grouped(), ids=lambda calls: calls[0][0].target)
def test_a_body_of_each_overload(calls):
    check(calls)


PAIRS = ("add.Tensor", "sub.Tensor", "mul.Tensor", "maximum.default", "minimum.default", "bitwise_left_shift.Tensor")
PAIRS += ("bitwise_right_shift.Tensor", "bitwise_xor.Tensor", "lt.Tensor", "eq.Tensor", "logical_and.default")
PAIRS += ("div.Tensor", "fmax.default", "clamp_min.Tensor")
SINGLES = ("neg.default", "abs.default", "bitwise_not.default", "logical_not.default", "sign.default", "relu.default")
SINGLES += ("sqrt.default", "signbit.default", "clone.default")


@pytest.mark.parametrize("dtype", [U8, I8])
def test_all_pairs_of_bytes(dtype):
    """65,536 pairs: integers, comparisons and shifts are equal, not close."""
    every = torch.arange(256).to(torch.uint8).view(torch.uint8 if dtype is U8 else torch.int8)
    first, second = every.repeat(256), every.repeat_interleave(256)
    calls = [Case(f"aten.{name}", (Operand(0), Operand(1)), {}, (first, second)) for name in PAIRS]
    calls += [Case(f"aten.{name}", (Operand(0),), {}, (first,)) for name in SINGLES]
    for number in (1, 3, 100):
        for name in ("remainder.Scalar", "fmod.Scalar", "floor_divide.Scalar"):
            calls.append(Case(f"aten.{name}", (Operand(0), number), {}, (first,)))
        calls.append(Case("aten.div.Tensor_mode", (Operand(0), number), {"rounding_mode": "trunc"}, (first,)))
    check([(case, case.plan()) for case in calls])


@pytest.mark.parametrize("dtype", ROTATION, ids=str)
def test_conversions(dtype):
    calls = cases("aten._to_copy.default", dtype)
    assert len(calls) == len(ROTATION)
    check([(case, case.plan()) for case in calls])


def test_random_floats():
    """Values without special cases, where a vector loop of eager rounds once or twice."""
    generator = torch.Generator().manual_seed(0)
    names = {"add.Tensor": {"alpha": 0.3}, "addcmul.default": {"value": 0.7}, "addcdiv.default": {"value": 0.7}}
    calls = []
    for dtype in (F32, BF16):
        columns = [torch.randn(4096, generator=generator).to(TO_TORCH[dtype]) for _ in range(3)]
        for name, kwargs in names.items():
            count = 2 if name.startswith("add.") else 3
            calls.append(Case(f"aten.{name}", tuple(map(Operand, range(count))), kwargs, tuple(columns[:count])))
        for weight in (0.3, 0.7):
            calls.append(Case("aten.lerp.Scalar", (Operand(0), Operand(1), weight), {}, tuple(columns[:2])))
        for name in ("tanh_backward.default", "mul.Tensor", "div.Tensor"):
            calls.append(Case(f"aten.{name}", (Operand(0), Operand(1)), {}, tuple(columns[:2])))
    check([(case, case.plan()) for case in calls])
