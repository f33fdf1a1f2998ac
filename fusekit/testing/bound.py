"""What floats may be off by: measured for the program at hand, not guessed.

An op that is not exactly rounded (exp, a sum, a division by a number) may be off by ``ULPS`` units in the last place of
its dtype; sums by as many of the sum of magnitudes. Eager runs some more times, each of these results off by a random
part of that, and an element may differ by the tolerance of ``run/closeness`` plus ``FACTOR`` times what it moved.

Of exact programs the bits count, but those of a NaN are nobody's promise, nor which of 0.0 and -0.0 is the greater: it
hangs on how a loop was compiled. There the bits of every NaN that arithmetic makes, and the signs of zeros that a
maximum or the like finds, are drawn anew in each run, and an element that is always the same must be just that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fusekit.run.closeness import Tolerance, whole
from fusekit.run.observe import Named, Outcome, observe

ULPS = 4
FACTOR = 4
RUNS = 4
BITS = {torch.float64: torch.int64, torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}
PAYLOAD = {torch.float64: 51, torch.float32: 22, torch.bfloat16: 6, torch.float16: 9}  # bits of a quiet NaN's own
MOVES = """
    copy_ clone _to_copy fill_ zero_ where cat stack view as_strided expand slice select transpose t permute unsqueeze
    squeeze detach alias split split_with_sizes unfold diagonal index index_select gather flip roll repeat
    constant_pad_nd slice_scatter select_scatter diagonal_scatter tril triu index_put_ index_fill_ index_copy_
    scatter_ ones_like zeros_like full_like empty_like empty arange full zeros ones new_empty _unsafe_view
    _reshape_alias reshape masked_fill masked_fill_ unsqueeze_ squeeze_ transpose_ t_ sort embedding lift_fresh
    _foreach_copy_
""".split()  # noqa: SIM905
EXACT = """
    neg neg_ abs abs_ sign sign_ add add_ sub sub_ rsub mul mul_ square clamp clamp_ clamp_min clamp_min_ relu relu_
    amax amin max min maximum minimum _foreach_add_ _foreach_sub_ _foreach_mul_ _foreach_add _foreach_mul
""".split()  # noqa: SIM905


TIES = """
    clamp clamp_ clamp_min clamp_min_ clamp_max clamp_max_ relu relu_ amax amin max min maximum minimum
    fmax fmin cummax sort
""".split()  # noqa: SIM905


class Perturbed(TorchDispatchMode):
    """Results that are not exactly rounded are off by a few last places; ``exact``: NaNs have other bits."""

    def __init__(self, seed: int, exact: bool):
        super().__init__()
        self.generator, self.exact, self.draws = torch.Generator().manual_seed(seed), exact, seed > 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        if (name in MOVES and not _converts(name, args, out)) or (name in EXACT and not self.exact):
            return out
        for result in out if isinstance(out, tuple | list) else (out, *_foreach(name, args)):
            if isinstance(result, torch.Tensor) and result.dtype in BITS:
                self._write(result, self._redrawn(result, name) if self.exact else self._off(result, args))
        return out

    def _off(self, result: torch.Tensor, args: Sequence[Any]) -> torch.Tensor:
        scale = torch.finfo(result.dtype).eps * (ULPS if result.dtype in (torch.float32, torch.float64) else 1)
        noise = torch.rand(result.shape, generator=self.generator, dtype=torch.float64).to(result.device) * 2 - 1
        size = result.double().abs()
        for arg in args:
            if isinstance(arg, torch.Tensor) and arg.is_floating_point() and arg.numel() > result.numel():
                size = size + arg.double().abs().nan_to_num().sum()  # a reduction
        return (result.double() + noise * size * scale).to(result.dtype)

    def _redrawn(self, result: torch.Tensor, name: str) -> torch.Tensor:
        bits, kind = result.contiguous().view(BITS[result.dtype]), BITS[result.dtype]
        drawn = torch.randint(0, 1 << PAYLOAD[result.dtype], bits.shape, generator=self.generator, dtype=torch.int64)
        sign = torch.randint(0, 2, bits.shape, generator=self.generator).to(result.device) * torch.iinfo(kind).min
        sign = sign if self.draws else torch.full_like(sign, torch.iinfo(kind).min)  # all of them, once
        other = bits ^ drawn.to(result.device).to(kind) ^ sign.to(kind)
        signed = torch.where((result == 0) & (name in TIES), bits ^ sign.to(kind), bits)
        return torch.where(result.isnan(), other, signed).view(result.dtype)

    def _write(self, result: torch.Tensor, values: torch.Tensor) -> None:
        try:
            result.copy_(values)
        except RuntimeError:  # it overlaps itself
            return


def _converts(name: str, args: Sequence[Any], out: Any) -> bool:
    """Is it a copy into another dtype? Which bits a NaN then has is not promised either."""
    source = args[-1] if name == "copy_" and len(args) < 3 else args[0]
    return name in ("copy_", "_to_copy") and isinstance(source, torch.Tensor) and source.dtype != out.dtype


def _foreach(name: str, args: Sequence[Any]) -> Sequence[Any]:
    """In-place foreach ops return nothing: what they wrote."""
    return args[0] if name.startswith("_foreach") and name.endswith("_") else ()


def within_bound(
    fn: Callable[..., object], make: Callable[[], Sequence[object]], want: Outcome, got: Outcome, exact: bool
) -> bool:
    """Is every element of the outputs and of the arguments' memory as near to eager's as the bound allows?"""
    if want.error is not None or got.error is not None:
        return False
    runs = []
    for seed in range(2 * RUNS if exact else RUNS):
        with Perturbed(seed, exact):
            runs.append(observe(fn, make()))
    if any(run.error is not None for run in runs):
        return False
    pairs = [(a, b, [run.outputs[k][1] for run in runs]) for k, (a, b) in enumerate(_both(want.outputs, got.outputs))]
    pairs += [
        (_flat(a), _flat(b), [_flat(run.tensors[k][1]) for run in runs])
        for k, (a, b) in enumerate(_both(want.tensors, got.tensors))
    ]
    near = _is_same if exact else _is_near
    return all(a.shape == b.shape and a.dtype == b.dtype and near(a, b, moved) for a, b, moved in pairs)


def _both(want: Named, got: Named) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(a, b) for (_, a), (_, b) in zip(want, got, strict=True)]


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return whole(tensor.untyped_storage(), tensor.dtype)


def _is_same(want: torch.Tensor, got: torch.Tensor, moved: Sequence[torch.Tensor]) -> bool:
    a, b, others = _bits(want), _bits(got), [_bits(one) for one in moved]
    undefined = torch.stack([one != a for one in others]).any(0)
    return bool(((a == b) | undefined).all())


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(BITS.get(tensor.dtype, tensor.dtype))


def _is_near(want: torch.Tensor, got: torch.Tensor, moved: Sequence[torch.Tensor]) -> bool:
    if not want.is_floating_point():
        return bool((want == got).all())
    rtol, atol = Tolerance().of(want.dtype)
    want, got = want.double(), got.double()
    spread = torch.stack([(one.double() - want).abs() for one in moved]).amax(0)
    near = (want - got).abs() <= atol + rtol * want.abs() + FACTOR * spread
    lost = ~spread.isfinite()  # overflow or NaN is that near
    return bool((near | lost | (want == got) | (want.isnan() & got.isnan())).all())
