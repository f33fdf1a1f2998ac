"""What floats may be off by, in programs with ops that are not exactly rounded.

An op that is not exactly rounded (exp, a sum, a division by a number) may be off by ``ULPS`` units in the last place of
its dtype; sums by as many of the sum of magnitudes. What the program then makes of it is measured, not guessed: eager
runs some more times, each of these results off by a random part of that, and an element may differ by ``base`` (see
``run/closeness``) plus ``FACTOR`` times what it moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fusekit.run.closeness import Tolerance, whole
from fusekit.run.observe import Outcome, observe

ULPS = 4
FACTOR = 4
RUNS = 4
EXACT = frozenset(
    "add add_ sub sub_ rsub mul mul_ neg neg_ abs abs_ copy_ clone _to_copy fill_ zero_ where clamp clamp_ clamp_min "
    "clamp_min_ relu relu_ cat stack view as_strided expand slice select transpose t permute unsqueeze squeeze detach "
    "alias split split_with_sizes unfold diagonal index index_select gather amax amin max min maximum minimum flip "
    "roll repeat constant_pad_nd slice_scatter select_scatter diagonal_scatter tril triu index_put_ index_fill_ "
    "index_copy_ scatter_ ones_like zeros_like full_like empty_like empty arange full zeros ones new_empty "
    "_unsafe_view _reshape_alias reshape masked_fill masked_fill_ unsqueeze_ squeeze_ transpose_ t_ view_as sort "
    "square embedding lift_fresh".split()
)


class Perturbed(TorchDispatchMode):
    """Results of ops that are not exactly rounded are off by a few units in the last place, at random."""

    def __init__(self, seed: int):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._overloadpacket.__name__ not in EXACT:
            for result in out if isinstance(out, tuple | list) else (out,):
                if isinstance(result, torch.Tensor) and result.is_floating_point():
                    self._move(result, args)
        return out

    def _move(self, result: torch.Tensor, args: Sequence[Any]) -> None:
        scale = torch.finfo(result.dtype).eps * (ULPS if result.dtype in (torch.float32, torch.float64) else 1)
        noise = torch.rand(result.shape, generator=self.generator, dtype=torch.float64).to(result.device) * 2 - 1
        size = result.double().abs()
        for arg in args:
            if isinstance(arg, torch.Tensor) and arg.is_floating_point() and arg.numel() > result.numel():  # a reduction
                size = size + arg.double().abs().nan_to_num().sum() * (arg.dtype == result.dtype)
        try:
            result.copy_((result.double() + noise * size * scale).to(result.dtype))
        except RuntimeError:  # it overlaps itself
            return


@contextmanager
def _nothing() -> Any:
    yield


def within_bound(
    fn: Callable[..., object], make: Callable[[], Sequence[torch.Tensor]], want: Outcome, got: Outcome
) -> bool:
    """Is every element of the outputs and of the arguments' memory as near to eager's as the bound allows?"""
    if want.error is not None or got.error is not None:
        return False
    runs = []
    for seed in range(RUNS):
        with Perturbed(seed):
            runs.append(observe(fn, make()))
    if any(run.error is not None for run in runs):
        return False
    pairs = [(a, b, [run.outputs[k][1] for run in runs]) for k, ((_, a), (_, b)) in enumerate(zip(want.outputs, got.outputs, strict=True))]
    pairs += [
        (_flat(a), _flat(b), [_flat(run.tensors[k][1]) for run in runs])
        for k, ((_, a), (_, b)) in enumerate(zip(want.tensors, got.tensors, strict=True))
    ]
    return all(_is_near(*pair) for pair in pairs)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return whole(tensor.untyped_storage(), tensor.dtype)


def _is_near(want: torch.Tensor, got: torch.Tensor, moved: Sequence[torch.Tensor]) -> bool:
    if (want.shape, want.dtype) != (got.shape, got.dtype):
        return False
    if not want.is_floating_point():
        return bool((want == got).all())
    rtol, atol = Tolerance().of(want.dtype)
    want, got = want.double(), got.double()
    spread = torch.stack([(one.double() - want).abs() for one in moved]).amax(0) if want.numel() else want
    near = (want - got).abs() <= atol + rtol * want.abs() + FACTOR * spread
    lost = ~spread.isfinite()  # overflow or NaN is that near
    return bool((near | lost | (want == got) | (want.isnan() & got.isnan())).all())
