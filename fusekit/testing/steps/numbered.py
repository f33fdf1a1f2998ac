"""Lines with the Python numbers of the caller's in them: offsets, windows, scalars, and what Python makes of them."""

from __future__ import annotations

import torch

from fusekit.testing.steps.lines import Lines


def numbered_view(b: Lines, name: str, t: torch.Tensor) -> str | None:
    c = b.choose
    if not t.dim() or not t.numel():
        return None
    d, n, w = b.dim(t), c.pick("nm"), c.number(1, 3)
    texts = [f"{name}[{index}]" for index in _indices(b, t)] * 2
    texts += [f"{name}.select({d}, {n})", f"torch.select({name}, {d}, {n})", f"{name}.narrow({d}, {n}, {w})"]
    texts += [f"{name}.select({d}, n).select(0, m)"] * 2 if t.dim() > 1 else []
    texts += [f"{name}[n : n + {w}][m : m + 1]", f"{name}[n : n + 3][m]", f"{name}[n : n + {w}].unsqueeze(0)[0, m]"]
    texts += [f"torch.ops.aten.slice({name}, {d}, {n}, {c.pick(('m', 'n + 2', str(t.size(d))))})"]
    texts += [f"{name}.unbind({d})[{n}]", f"{name}.roll({n}, {d})", f"torch.select_scatter({name}, {name}[0], 0, {n})"]
    texts += [f"{name}.diagonal({n})", f"{name}.mT[n, m]"] if t.dim() > 1 else []
    texts += [f"{name}.expand(2, {', '.join(['-1'] * t.dim())})[:, {n}]", f"({name} + 1)[{n}]"]
    return c.pick(texts)


def numbered_place(b: Lines, name: str, t: torch.Tensor) -> str | None:
    """What hangs on where a view begins, or on which of two equal numbers is whose."""
    c, n = b.choose, b.choose.pick("nm")
    if not t.dim() or not t.numel():
        return None
    flat = f"({name} {'| False' if t.dtype == torch.bool else '* 1'}).reshape(-1)[{n} : {n} + 2]"
    texts = [f"{flat}.as_strided((2,), ({c.number(1, 2)},))"] * 2
    texts += [f"{flat}.view(torch.int64)"] * 2 if b.exact and t.dtype in (torch.float32, torch.int32) else []
    if t.dtype != torch.bool:
        d, w = b.dim(t), c.number(1, 2)
        texts += [
            f"{name} * {name}[{n}].storage_offset()",
            f"torch.ops.aten.slice({name}, {d}, n, {t.size(d)}).amax({d})",
        ]
        texts += [f"{name}.select({d}, n) + {name}.narrow({d}, m, 1).squeeze({d})"] * 2
        texts += [f"{name}[n : n + {w}] + {name}.narrow(0, m, {w})", f"{name}[n] * {name}.unbind(0)[m]"]
        texts += [f"{name}[n : n + {t.size(0)}, m : m + {t.size(0)}]"] if t.dim() > 1 else []
    return c.pick(texts)


def numbered_value(b: Lines, name: str, t: torch.Tensor) -> str | None:
    c = b.choose
    if t.dtype == torch.bool or not t.numel():
        return None
    n, is_float = c.pick("nm"), t.is_floating_point()
    k = c.pick(("k", "k", n)) if is_float else n
    texts = [f"{name} * {k}", f"{name} + {k}", f"{name} - {k}", f"{k} - {name}", f"{k} * {name}"] * 2
    texts += [f"{name} + 1 if n > {c.pick(('m', '1'))} else {name} - n", f"{name} * len(range(n))"]
    texts += [f"torch.full_like({name}, {k})", f"{name}.clamp({c.pick(('n', '0'))}, {c.pick(('m', '3'))})"]
    texts += [f"torch.add({name}, {name}, alpha={k})", f"{name} + torch.tensor({n})"]
    if b.exact:
        texts += [f"torch.where({name} > {k}, {name}, {k})", f"{name} == {k}"]
        texts += [f"torch.copysign({name}, k)"] * 3 + [f"{name}.masked_fill({name} > 0, {k})"] if is_float else []
    texts += [f"{name} / {k}", f"torch.addcmul({name}, {name}, {name}, value={k})"] if is_float else []
    texts += [f"torch.lerp({name}, {name}.flip(-1), k)"] if is_float and t.dim() and not b.exact else []
    texts += [f"{name} % {n}", f"{name} // {n}"] if not is_float and t.dtype != torch.uint8 else []
    texts += [f"{name} + torch.arange({n}, {n} + {t.size(-1)})"] if t.dim() else []
    return c.pick(texts)


def numbered_write(b: Lines, name: str, t: torch.Tensor) -> str | None:
    c = b.choose
    if not t.dim() or not t.numel() or t.dtype == torch.bool:
        return None
    w, k = c.number(1, 3), "k" if t.is_floating_point() else c.pick("nm")
    at = c.pick(_indices(b, t))
    texts = [f"{name}[{at}] = {c.pick((k, '1'))}", f"{name}[{at}] += {c.pick((k, '2'))}", f"{name}[{at}].mul_(2)"] * 3
    texts += [
        f"{name}.select({b.dim(t)}, n).add_(1)",
        *[f"{name}.fill_({k})"] * 3,
        f"{name}.mul_({k})",
        f"{name}.add_({k})",
    ]
    texts += [
        f"{name}[n : n + {w}].{c.pick(('add_', 'copy_'))}({name}[{c.pick(('m', '0'))} : {c.pick(('m', '0'))} + {w}])"
    ]
    texts += [
        f"{name}[n : n + {w}] = {name}[m : m + {w}].clone()",
        f"{name}[n] = {name}[m]",
        f"{name}[n] += {name}[m]",
    ] * 2
    texts += [f"{name}.narrow(0, n, {w}).neg_()"] if t.dtype != torch.uint8 else []
    other = b.partner(t[0], tensor_only=True)
    texts += [f"{name}[{c.pick('nm')}] = {other}", f"{name}.select(0, n).copy_({other})"] * 2 if other else []
    return c.pick(texts)


def _indices(b: Lines, t: torch.Tensor) -> list[str]:
    """What stands in brackets: integers, windows that fit, are cut or count from the end, None, ellipses, ends."""
    c, n = b.choose, b.choose.pick("nm")
    w = c.number(0 if c.chance(10) else 1, 4)
    found = [n, f"{n} : {n} + {w}", f"{n} : {n} + {w}", "n:m", f"{n}:", f":{n}", f"-1 - {n}", f"{n} - 1 : {n} + 1"]
    found += [f"{n} : {n} + {w + 1} : 2", f"..., {n}", f"..., {n} : {n} + {w}", f"None, {n}", f"{n}, None", f"{n} - 1"]
    if t.dim() > 1:
        found += [f"{n}, {n}", "n, m", f":, {n}", f":2, {n}", f"1:, {n}", f"{c.number(0, 1)}, {n}"] * 2
        found += [f"{n} : {n} + {w}, {c.pick('nm')}", f"n : n + {w}, m : m + 2", f"0 : {t.size(0)}, {n}"]
    return found
