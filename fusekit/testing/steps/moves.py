"""Lines that move elements: cat, pads, scatters of parts, flips, look-ups by index tensors."""

from __future__ import annotations

import torch

from fusekit.testing.steps.lines import Lines


def moving(b: Lines, name: str, t: torch.Tensor) -> str | None:
    """cat, pad, slices that are scattered, flips, rolls."""
    c = b.choose
    if not t.dim():
        return f"torch.stack([{name}, {name}])"
    d, other = b.dim(t), b.partner(t, tensor_only=True, same_shape=True)
    texts = [f"torch.cat([{name}, {other or name}], {d})", f"torch.stack([{name}, {other or name}], {d})"] * 2
    texts += [
        f"{name}.flip({d})",
        f"{name}.roll(1, {d})",
        f"{name}.repeat({', '.join(['2'] * t.dim())})",
        f"{name}.tile((2,))",
    ]
    texts += [f"torch.nn.functional.pad({name}, ({c.number(-1, 2)}, {c.number(0, 2)}), value={c.pick(('0', '1'))})"] * 2
    if t.size(0):
        texts += [
            f"torch.slice_scatter({name}, {name}[:1] + 1, 0, 0, 1)"
            if t.dtype != torch.bool
            else f"torch.slice_scatter({name}, {name}[:1], 0, 0, 1)"
        ]
        texts += [
            f"torch.select_scatter({name}, {name}[0], 0, {c.number(0, t.size(0) - 1)})",
            f"torch.cat([{name}[1:], {name}[:1]], 0)",
        ]
    if t.dim() > 1:
        texts += [f"{name}.tril()", f"{name}.triu(1)", f"torch.diagonal_scatter({name}, {name}.diagonal() * 1)"]
        texts += [
            f"{name}.transpose(0, -1).contiguous()",
            f"{name}.T.reshape(-1)" if t.dim() == 2 else f"{name}.mT.flatten()",
        ]
    return c.pick(texts)


def look_up(b: Lines, name: str, t: torch.Tensor) -> str | None:
    """Look-ups by index tensors: literal ones, and ones that the program computes."""
    c = b.choose
    if not t.dim() or not t.size(0):
        return None
    size = t.size(0)
    ats = [c.number(-size if c.chance(50) else 0, size - 1) for _ in range(c.number(1, 3))]
    up = [at % size for at in ats]
    texts = [
        f"{name}.index_select(0, torch.tensor({up}))",
        f"{name}[torch.tensor({ats})]",
        f"torch.gather({name}, 0, torch.zeros_like({name}, dtype=torch.int64) + {up[0]})",
        f"torch.take_along_dim({name}, torch.tensor({up}).reshape(-1, {', '.join(['1'] * (t.dim() - 1))}), 0)"
        if t.dim() > 1
        else f"{name}.take(torch.tensor({up}))",
    ]
    whole = [n for n in b.names if b.get(n).dtype == torch.int64 and b.get(n).numel() and b.get(n).dim() <= 2]
    if whole:
        index = f"({c.pick(whole)} % {size})"
        texts += [f"{name}[{index}]", f"{name}.index_select(0, {index}.reshape(-1))"] * 2
        texts += [f"torch.nn.functional.embedding({index}, {name})"] if t.dim() == 2 else []
    return c.pick(texts)
