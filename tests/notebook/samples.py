"""Explorations that the tests of the notebook show."""

from __future__ import annotations

from functools import cache

import torch

from fusekit.exploration import Exploration, explore

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


def in_place(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.exp_() * b.tanh_()


def with_library_call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x @ w + 1)  # </script><b onclick="window.hacked = 1">&amp;
    return y.t()


@cache
def aliased() -> Exploration:
    """Two arguments that share an element, both written."""
    a = torch.linspace(-1, 1, 20).reshape(4, 5)
    return explore(in_place, a, a[0, 0])


@cache
def several() -> Exploration:
    """A library call, a kernel, and a view."""
    return explore(with_library_call, torch.ones(4, 4), torch.ones(4, 4))
