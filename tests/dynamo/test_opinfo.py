"""A part of torch's own samples with gradients; ``python -m tests.dynamo.opinfo`` runs all."""

import pytest
import torch

from tests.dynamo.opinfo import CRASH, WRONG, operators, outcomes

# lying stand-ins, random numbers, zeros without memory, several views, lazy bits
SAMPLE = (
    *("nn.functional.batch_norm", "nn.functional.layer_norm", "nn.functional.group_norm"),
    *("nn.functional.embedding_bag", "nn.functional.dropout", "nn.functional.scaled_dot_product_attention"),
    *("sgn", "chunk", "linalg.pinv", "mul"),
)


def bad(name, dtype, most=2):
    found = [outcome for op in operators(name) for outcome in outcomes(op, dtype, most)]
    return [outcome for outcome in found if outcome.kind in (WRONG, CRASH)]


@pytest.mark.parametrize("name", SAMPLE)
def test_samples_are_as_in_eager(name):
    assert not [outcome for dtype in (torch.float32, torch.bfloat16) for outcome in bad(name, dtype, 1)]


def test_a_complex_sample_is_as_in_eager():
    assert not bad("linalg.pinv", torch.complex64, 1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_all_samples_are_as_in_eager(dtype):
    assert not bad("*", dtype)
