"""Index forms evaluated on every element of a tensor at once, with torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from fusekit.index import Div, Form, Var
from fusekit.ir import Guard

Grid = Mapping[str, torch.Tensor | int]


def grid(shape: Sequence[int], numbers: Mapping[str, object]) -> Grid:
    """i0, i1, ... as tensors that broadcast to ``shape``, and the numbers n0, n1, ..."""
    out: dict[str, torch.Tensor | int] = dict(numbers)  # type: ignore[arg-type]
    for k, size in enumerate(shape):
        axis = [1] * len(shape)
        axis[k] = size
        out[f"i{k}"] = torch.arange(size).reshape(axis)
    return out


def on_grid(form: Form, grid: Grid) -> torch.Tensor:
    """The values of a form, int64, of a shape that broadcasts to the grid's."""
    total = torch.tensor(form.const)
    for atom, c in form.terms:
        if isinstance(atom, Var):
            value = grid[atom.name]
        elif isinstance(atom, Div):
            value = torch.div(on_grid(atom.of, grid), atom.by, rounding_mode="floor")
        else:
            value = torch.remainder(on_grid(atom.of, grid), atom.by)
        total = total + c * value
    return total


def gather(
    source: torch.Tensor, index: Sequence[Form], shape: Sequence[int], numbers: Mapping[str, object]
) -> torch.Tensor:
    """``result[i] = source[index(i)]``. Positions outside the source are clamped: a guard elsewhere hides them."""
    if 0 in shape or source.numel() == 0:
        return source.new_empty(tuple(shape)) if 0 in shape else source.new_zeros(tuple(shape))
    at, cells = torch.tensor(0), grid(shape, numbers)
    for form, size in zip(index, source.shape, strict=True):
        at = at * size + on_grid(form, cells).clamp(0, size - 1)
    return source.reshape(-1)[at.expand(tuple(shape)).to(source.device)]


def holds(guards: Sequence[Guard], shape: Sequence[int], numbers: Mapping[str, object]) -> torch.Tensor:
    """Where all guards hold: bool, of ``shape``."""
    mask, cells = torch.ones(tuple(shape), dtype=torch.bool), grid(shape, numbers)
    for guard in guards:
        at = on_grid(guard.form, cells)
        mask = mask & (at >= 0) & (at < guard.extent)
    return mask
