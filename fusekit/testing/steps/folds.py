"""Lines that fold dimensions, and those that torch keeps for itself."""

from __future__ import annotations

import torch

from fusekit.testing.steps.lines import Lines


def reduction(b: Lines, name: str, t: torch.Tensor) -> str | None:
    c = b.choose
    d = f"{b.dim(t)}" if t.dim() else "()"
    keep = c.pick(("", ", keepdim=True")) if t.dim() else ""
    if t.dtype == torch.bool:
        return c.pick(
            (f"{name}.any()", f"{name}.all()", f"{name}.sum()", f"{name}.any({b.dim(t) if t.dim() else 0}{keep})")
        )
    texts = []
    if t.numel():
        texts += [f"{name}.amax({d}{keep})", f"{name}.amin({d}{keep})", f"{name}.amax()", f"{name}.max()"]
        if b.exact:
            texts += [f"{name}.argmax()", f"{name}.argmin({d}{keep})" if t.dim() else f"{name}.argmin()"]
            texts += [f"{name}.max({d})[{c.pick((0, 1))}]"] if t.dim() else []
    if not t.is_floating_point():
        texts += [
            f"{name}.sum()",
            f"{name}.sum({d}{keep})",
            f"{name}.prod()",
            f"{name}.any()",
            f"{name}.cumsum(0)" if t.dim() else f"{name}.sum()",
        ]
    elif not b.exact:
        texts += [f"{name}.sum()", f"{name}.mean()", f"{name}.sum({d}{keep})", f"{name}.mean({d}{keep})"] * 2
        if t.dim() and t.size(-1):
            size = t.size(-1)
            texts += [f"torch.softmax({name}, {d})", f"torch.log_softmax({name}, -1)", f"{name}.logsumexp(-1)"] * 2
            texts += [f"torch.nn.functional.layer_norm({name}, ({size},))", f"{name} - {name}.mean(-1, keepdim=True)"]
            texts += [f"torch.nn.functional.rms_norm({name}, ({size},))", f"{name}.norm()", f"{name}.cumsum(-1)"]
            texts += [f"{name}.var(-1)" if size > 1 else f"{name}.mean()"]
    return c.pick(texts) if texts else None


def library(b: Lines, name: str, t: torch.Tensor) -> str | None:
    """What stays torch's."""
    if not t.dim():
        return None
    texts = [f"{name}.sort(stable=True)[0]"] if b.exact or not t.is_floating_point() else []
    if t.dim() == 2 and t.dtype in (torch.int64, torch.int32):
        texts += [f"{name} @ {name}.T"]
    if t.is_floating_point() and not b.exact:
        texts += [f"{name}.cumsum_(0)", f"{name}.cumprod(0)"] + ([f"{name} @ {name}.T"] if t.dim() == 2 else [])
    elif t.dtype == torch.int64:
        texts += [
            f"{name}.cumsum_(0)",
            f"{name}.bincount(minlength=2)" if t.dim() == 1 and False else f"{name}.cummax(0)[0]",
        ]
    return b.choose.pick(texts) if texts else None
