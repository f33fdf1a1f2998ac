"""A behaviour is a program as a user writes it: this explores it, counts its launches, and runs it twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils._pytree import tree_leaves

import fusekit as fk
from fusekit.testing import differential
from fusekit.testing.differential import clone_arguments


@dataclass(frozen=True)
class Seen:
    """``outs``: the tensors that one run on ``args`` returned."""

    x: fk.Exploration
    args: tuple[torch.Tensor, ...]
    outs: tuple[torch.Tensor, ...]

    @property
    def out(self) -> torch.Tensor:
        assert len(self.outs) == 1
        return self.outs[0]


def see(
    fn: Callable[..., object],
    *args: object,
    kernels: int,
    copies: int = 0,
    calls: int = 0,
    alias: int | None = None,
    forced: bool = False,
) -> Seen:
    """Assert that ``fn`` is right (after every pass, by its kernels, at a second call) within this many launches.

    ``kernels`` and ``copies`` are upper bounds; where boundaries are ``forced`` the kernels are counted exactly.
    ``alias``: segments that launch nothing.
    """
    x = fk.explore(fn, *args)
    for name, report in x.check_steps().items():
        assert report.ok, f"after {name}\n{report}"
        assert fk.parse(x.text(name)) == x[name].graph
    assert x.check().ok, x.check()
    compiled = fk.jit(fn)
    for _ in range(2):
        report = differential(fn, compiled, args)
        assert report.ok, report
    s, last = x.summary(), compiled.last_run
    assert (s.kernels, s.extern_calls, s.copies) == (last.kernels, last.extern_calls, last.copies)
    assert s.kernels == kernels if forced else s.kernels <= kernels, s
    assert s.copies <= copies and s.extern_calls == calls, s
    assert alias is None or s.alias_segments == alias, s
    assert s.bytes_moved >= s.bytes_least, s
    gpu = fk.explore(fn, *args, options=fk.Options(backend="cuda")).summary()
    assert gpu.extern_calls == calls and gpu.kernels + gpu.copies <= s.kernels + s.copies + 1, gpu
    mine, _ = clone_arguments(args, {})
    outs = x.run(*mine)
    return Seen(x, tuple(t for t in tree_leaves(mine) if isinstance(t, torch.Tensor)), tuple(tree_leaves(outs)))


def data(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Quarters from -4 to 4: sums of a few are exact."""
    numbers = torch.randint(-16, 17, shape, generator=torch.Generator().manual_seed(seed))
    return (numbers / 4).to(dtype)


def share(*tensors: torch.Tensor) -> bool:
    """Have they one storage?"""
    return len({t.untyped_storage().data_ptr() for t in tensors}) == 1


def start_alike(*tensors: torch.Tensor) -> bool:
    """Have they one storage and one first element?"""
    return share(*tensors) and len({t.data_ptr() for t in tensors}) == 1


def launched(seen: Seen) -> list[fk.SegmentView]:
    """The segments that have a kernel."""
    return [s for s in seen.x.segments if s.kernel is not None]


def moves_least(seen: Seen) -> bool:
    """Is each byte read and written once?"""
    s = seen.x.summary()
    return s.bytes_moved == s.bytes_least
