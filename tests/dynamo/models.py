"""Small models that train, and what a few steps of training leave behind."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F

import fusekit as fk
from fusekit.dynamo_backend import FallbackWarning, backend


class GPT2Block(torch.nn.Module):
    def __init__(self, width: int = 16, heads: int = 2):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.project = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        scores = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        attended = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        x = x + self.project(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class InPlaceResidual(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner, self.outer = torch.nn.LayerNorm(8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.outer(F.silu(self.inner(self.norm(x))))
        h += x
        h[:, :2].mul_(0.5)  # through a view
        return h


def conv_net() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(inplace=True),
        torch.nn.Conv2d(4, 2, 1),
        torch.nn.BatchNorm2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(2 * 36, 1),
    )


def group_net() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv1d(3, 4, 1),
        torch.nn.GroupNorm(2, 4),
        torch.nn.SiLU(),
        torch.nn.Dropout(0.25),
        torch.nn.LayerNorm(5),
    )


MODELS: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...]]] = {
    "gpt2 block": (GPT2Block, (2, 6, 16)),
    "conv, batch norm, relu": (conv_net, (4, 3, 6, 6)),
    "group norm, dropout, layer norm": (group_net, (2, 3, 5)),
    "in-place residual": (InPlaceResidual, (4, 8)),
}

# eps: some gradients are zero but for rounding (a key's bias), which Adam would blow up
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, eps=1e-2),
}


def trained(model: torch.nn.Module, call: Callable[..., torch.Tensor], optimizer: str, shape: tuple[int, ...]) -> None:
    """Five steps of ``model`` through ``call``; the launches of forward and backward must have been counted."""
    steps = OPTIMIZERS[optimizer](model.parameters())
    for k in range(5):
        x = torch.randn(*shape, generator=torch.Generator().manual_seed(k))
        steps.zero_grad()
        torch.manual_seed(k)  # dropout
        loss = call(x).square().mean()
        if call is not model:
            assert fk.last_run() is not None
        loss.backward()
        steps.step()


def two_trainings(name: str, optimizer: str) -> tuple[torch.nn.Module, torch.nn.Module]:
    """The model trained in eager, and its twin trained through the backend without a fallback."""
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = make()
    twin = copy.deepcopy(model)
    trained(model, model, optimizer, shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        trained(twin, torch.compile(twin, backend=backend), optimizer, shape)
    return model, twin
