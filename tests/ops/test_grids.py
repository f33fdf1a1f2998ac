"""Every overload, every dtype, every special value: the bodies in plain Python against eager."""

import numpy as np
import pytest
import torch
from calls import accidents, cases, distance, in_python

from fusekit.ops import SUPPORTED, Refusal
from fusekit.ops.table import ENTRIES
from fusekit.torch_types import FROM_TORCH

REFUSED = {"no subtraction of bools", "no kernel of this op computes in bool"}
REFUSED |= {
    f"eager rounds each step of {what}" for what in ("a floor division of halves", "sigmoid_backward of float16")
}


@pytest.mark.parametrize("target", ENTRIES)
def test_as_eager(target):
    compared = 0
    for dtype in SUPPORTED:
        for case in cases(target, dtype):
            try:
                expected = case.eager()
            except (RuntimeError, NotImplementedError):
                continue
            body = case.plan()
            if isinstance(body, Refusal):
                assert body.reason in REFUSED, case
                continue
            compared += 1
            assert FROM_TORCH[expected.dtype] == body.result, case
            apart = np.where(accidents(case), 0, distance(in_python(case, body), expected.reshape(-1), body))
            k = int(apart.argmax())
            inputs = [t[k].item() for t in torch.broadcast_tensors(*case.tensors)]
            assert apart[k] <= body.ulps, (
                f"{case} at {inputs}: {apart[k]} ulps from {expected.reshape(-1)[k]}: {body.body}"
            )
    assert compared or "raises on data" in target, target


@pytest.mark.parametrize("target", ["aten.add.Tensor", "aten.mul.Tensor", "aten.div.Tensor", "aten.lt.Tensor"])
@pytest.mark.parametrize("rank_zero", [torch.tensor(0.3), torch.tensor(257), torch.tensor(2.0, dtype=torch.float64)])
def test_rank_zero_operands(target, rank_zero):
    """A rank-zero operand does not widen the result; mul and div of halves read it unrounded, the others round it."""
    from calls import Case, grid

    from fusekit.ir import Operand

    for dtype in SUPPORTED:
        case = Case(target, (Operand(0), Operand(1)), {}, (grid(dtype).repeat(64), rank_zero))
        body, expected = case.plan(), case.eager()
        assert FROM_TORCH[expected.dtype] == body.result
        assert not distance(in_python(case, body), expected, body).any(), (case, body.body)
