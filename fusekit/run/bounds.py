"""Indices looked at before anything uses them: ``fk.check_index`` raises what eager raises for one out of bounds."""

from __future__ import annotations

import torch

from fusekit.errors import FusekitError
from fusekit.ir import Op

_TEXTS = {
    "embedding": "index out of range in self",
    "index_select": "index out of range in self",
    "index": "index {found} is out of bounds for dimension 0 with size {size}",
    "gather": "index {found} is out of bounds for dimension {dim} with size {size}",
    "nll_loss_forward": "Target {found} is out of bounds.",
    "nll_loss2d_forward": "Target {found} is out of bounds.",
}
_INDICES = "INDICES element is out of DATA bounds, id={found} axis_dim={size}"
_ERRORS: dict[str, type[Exception]] = {"IndexError": IndexError, "RuntimeError": RuntimeError}


def check_index(index: torch.Tensor, op: Op) -> None:
    """Raise eager's error where an index is not in ``[0, size)``, nor ``ignore``, nor, if it ``wraps``, negative.

    The text names the first bad index in row-major order (eager's, with several threads, any one).
    """
    size, wraps, ignore = (op.kwarg(name) for name in ("size", "wraps", "ignore"))
    if not isinstance(size, int):
        raise FusekitError(f"the size {size!r} of an index check is no number")
    flat = index.reshape(-1).long()
    bad = (flat < (-size if wraps else 0)) | (flat >= size)
    if ignore is not None:
        bad &= flat != ignore
    if bool(bad.any()):
        raise error(op, int(flat[bad][0]))


def error(op: Op, found: int) -> Exception:
    """The exception that eager raises at ``op`` for the index ``found``."""
    name = str(op.kwarg("error"))
    of = str(op.kwarg("of"))
    text = _INDICES if of == "index_select" and name == "RuntimeError" else _TEXTS[of]
    return _ERRORS[name](text.format(found=found, size=op.kwarg("size"), dim=op.kwarg("dim")))
