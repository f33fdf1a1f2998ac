"""Models train through the backend as in eager: parameters, gradients and running statistics after five steps."""

import pytest
import torch

from tests.dynamo.models import MODELS, two_trainings


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        *[pytest.param(name, "SGD") for name in MODELS],
        pytest.param("in-place residual", "AdamW"),
        *[pytest.param(name, "AdamW", marks=pytest.mark.slow) for name in MODELS if name != "in-place residual"],
    ],
)
def test_five_steps_are_those_of_eager(name, optimizer):
    model, twin = two_trainings(name, optimizer)
    for (path, want), got in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, msg=path)
    for (path, want), got in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(got.grad, want.grad, rtol=1e-3, atol=1e-5, msg=path)
