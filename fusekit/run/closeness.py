"""How two tensors, or the bytes of two storages, differ: bits for integers, a tolerance and ulps for floats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from fusekit.kinds import FLAG, SIZE, expect, maybe

# (relative, absolute) for values that were rounded in another order
TOLERANCE: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-9, 1e-9),
    torch.float32: (1e-5, 1e-5),
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.complex64: (1e-5, 1e-5),
    torch.complex128: (1e-9, 1e-9),
}
# precision="fast" keeps digits that eager rounds away after each op: a few roundings, and what later ops make of them
FAST: dict[torch.dtype, tuple[float, float]] = {
    torch.float32: (2e-5, 2e-5),
    torch.float16: (8e-3, 8e-3),
    torch.bfloat16: (6e-2, 5e-2),
}
_ORDERED = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """``rtol`` and ``atol`` in place of the dtype's own; ``bitwise``: floats too must have equal bits (NaN is NaN);
    ``fast``: one side rounds less often than the other."""

    rtol: float | None = None
    atol: float | None = None
    bitwise: bool = False
    fast: bool = False

    def __post_init__(self) -> None:
        expect("check", rtol=(self.rtol, maybe(SIZE)), atol=(self.atol, maybe(SIZE)), bitwise=(self.bitwise, FLAG))

    def of(self, dtype: torch.dtype) -> tuple[float, float]:
        table = TOLERANCE | FAST if self.fast else TOLERANCE
        rtol, atol = table.get(dtype, (0.0, 0.0))
        return rtol if self.rtol is None else self.rtol, atol if self.atol is None else self.atol


def difference(want: torch.Tensor, got: torch.Tensor, tolerance: Tolerance) -> str | None:
    """None where two tensors of one shape and dtype are equal enough, else how many elements differ, and the first."""
    want, got = want.detach(), got.detach()
    if want.numel() == 0:
        return None
    close = _close(want, got, tolerance)
    if bool(close.all()):
        return None
    first = int((~close).reshape(-1).nonzero()[0])
    a, b = (t.reshape(-1)[first].item() for t in (want, got))
    return f"{int((~close).sum())} of {want.numel()} elements, first {first}: {a!r}, not {b!r}{_ulp_text(want, got)}"


def _close(want: torch.Tensor, got: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    floating = want.is_floating_point() or want.is_complex()
    if not floating:
        return want == got
    if want.element_size() == 1:  # 8-bit floats have no isclose
        want, got = want.float(), got.float()
    if tolerance.bitwise and not want.is_complex():
        return (_bits(want) == _bits(got)) | (want.isnan() & got.isnan())
    rtol, atol = tolerance.of(want.dtype)
    return torch.isclose(want, got, rtol=rtol, atol=atol, equal_nan=True)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(_ORDERED[tensor.dtype])


def ulps(want: torch.Tensor, got: torch.Tensor) -> int | None:
    """The largest distance in units of the last place between finite elements; None for dtypes without such."""
    if want.dtype not in _ORDERED or want.numel() == 0:
        return None
    finite = want.isfinite() & got.isfinite()
    far = (_ordered(want.detach()) - _ordered(got.detach())).abs()
    return int(torch.where(finite, far, 0.0).max())


def _ordered(tensor: torch.Tensor) -> torch.Tensor:
    """Neighbouring floats become neighbouring numbers (float64: exact below 2**53, ample for a report)."""
    bits = _bits(tensor).to(torch.int64)
    lowest = torch.iinfo(_ORDERED[tensor.dtype]).min
    return torch.where(bits < 0, lowest - bits, bits).double()


def _ulp_text(want: torch.Tensor, got: torch.Tensor) -> str:
    far = ulps(want, got)
    return f" (up to {far} ulp)" if far else ""


def whole(storage: torch.UntypedStorage, dtype: torch.dtype) -> torch.Tensor:
    """Everything in a storage, flat, as elements of a dtype; bytes at the end that make no element are left out."""
    empty = torch.empty(0, dtype=dtype, device=storage.device)
    return empty.set_(storage, 0, (storage.nbytes() // empty.element_size(),), (1,))


def storage_difference(
    want: torch.UntypedStorage, got: torch.UntypedStorage, dtypes: Iterable[torch.dtype], tolerance: Tolerance
) -> str | None:
    """None where every byte is equal, or the bytes are equal enough read as one of ``dtypes``; else the difference."""
    if want.nbytes() != got.nbytes():
        return f"{want.nbytes()} bytes, not {got.nbytes()}"
    if torch.equal(whole(want, torch.uint8), whole(got, torch.uint8)):
        return None
    words = [
        difference(whole(want, dtype), whole(got, dtype), tolerance)
        for dtype in dtypes
        if want.nbytes() % dtype.itemsize == 0
    ]
    return None if None in words else (words[0] if words else "other bytes")
