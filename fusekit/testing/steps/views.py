"""Lines that make views, or change the metadata of what is there."""

from __future__ import annotations

import torch

from fusekit.testing.steps.lines import Lines


def view(b: Lines, name: str, t: torch.Tensor) -> str | None:
    c, dims = b.choose, t.dim()
    if not dims:
        return c.pick((f"{name}.unsqueeze(0)", f"{name}.expand(2)", f"{name}.expand(2, 3)", f"{name}.view(1, 1)"))
    d = b.dim(t)
    size = t.size(d)
    texts = [
        f"{name}.unsqueeze({c.number(0, dims)})",
        f"{name}.expand({c.pick((2, 1, 3))}, {', '.join(['-1'] * dims)})",
        f"{name}.{c.pick(('view(-1)', 'reshape(-1)', 'flatten()'))}",
        f"{name}.squeeze()",
        f"{name}.detach()",
        f"{name}[{':, ' * d}{c.pick(('1::2', '::2', '::3', '1:', ':-1'))}]",
        f"{name}.view_as({name})",
        f"{name}[None]",
    ]
    if size:
        start = c.number(0, size - 1)
        texts += [f"{name}.narrow({d}, {start}, {c.number(0 if c.chance(5) else 1, size - start)})"] * 2
        texts += [f"{name}.select({d}, {c.number(-size, size - 1)})"] * 2
        texts += [f"{name}.narrow({d}, n, 1)", f"{name}.select({d}, n)"] * 3 if b.indexes(size) else []
        texts += [f"{name}.unfold({d}, {c.number(1, min(2, size))}, {c.number(1, 2)})"]
        texts += [f"{name}.split({c.number(1, size)}, {d})[{c.pick((0, -1))}]", f"{name}.chunk(2, {d})[0]"]
    if dims > 1:
        texts += [
            f"{name}.transpose(0, -1)",
            f"{name}.mT",
            f"{name}.diagonal({c.number(-1, 1)})",
            f"{name}.movedim(0, -1)",
        ]
    if t.numel():
        k = c.pick([n for n in range(1, t.numel() + 1) if t.numel() % n == 0])
        texts += [f"{name}.{c.pick(('view', 'reshape'))}({k}, {t.numel() // k})"]
    return c.pick(texts)


def as_strided(b: Lines, name: str, t: torch.Tensor) -> str | None:
    """Absolute in its storage: over arguments, and over fresh results without gaps."""
    c, whole = b.choose, b.elements(name)
    is_argument = name in b.names[:6] and len(name) == 1
    if not whole or not (is_argument or b.is_dense(name)):
        return None
    shape = tuple(c.number(1, 4) for _ in range(c.number(0, 3)))
    strides, step = [0] * len(shape), 1
    for k in reversed(range(len(shape))):
        strides[k], step = step, step * shape[k]
    if c.chance(30):
        strides = [c.pick((1, 2, 3, 4)) if not c.chance(10) else 0 for _ in shape]
    top = sum(s * (n - 1) for s, n in zip(strides, shape, strict=True))
    return f"{name}.as_strided({shape}, {tuple(strides)}, {c.number(0, whole - 1 - top)})" if top < whole else None


def bits(b: Lines, name: str, t: torch.Tensor) -> str | None:
    """The bytes read as another dtype; only of exactly rounded values."""
    if (
        not b.exact
        or not t.dim()
        or t.dtype not in (torch.float32, torch.float64, torch.int32, torch.int64, torch.bfloat16)
    ):
        return None
    other = {
        torch.float32: ("int32", "int16", "uint8"),
        torch.float64: ("int64", "int32"),
        torch.bfloat16: ("int16", "uint8"),
        torch.int32: ("int16", "float32"),
        torch.int64: ("int32", "float64"),
    }
    return f"{name}.view(torch.{b.choose.pick(other[t.dtype])})"


def metadata(b: Lines, name: str, t: torch.Tensor) -> str | None:
    texts = ["unsqueeze_(0)", "squeeze_()"]
    texts += ["t_()"] if t.dim() == 2 else []
    texts += ["transpose_(0, -1)", "swapdims_(0, -1)", "unsqueeze_(-1)"] if t.dim() else []
    return f"{name}.{b.choose.pick(texts)}"
