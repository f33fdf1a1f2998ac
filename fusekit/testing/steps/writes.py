"""Lines that write: in place, by item, into ``out=``, many tensors at once, by index."""

from __future__ import annotations

import torch

from fusekit.testing.steps.lines import Lines, number


def in_place(b: Lines, name: str, t: torch.Tensor) -> str | None:
    c, other = b.choose, b.source(t)
    if t.dtype == torch.bool:
        texts = [f"{name}.logical_not_()", f"{name}.fill_(False)", f"{name}.zero_()"]
        texts += (
            [f"{name}.{c.pick(('copy_', 'logical_or_', 'logical_and_', 'logical_xor_'))}({other})"] * 3
            if other != "True"
            else []
        )
        return c.pick(texts)
    is_tensor = b.is_tensor(other)
    texts = [f"{name}.add_({other})", f"{name}.mul_({other})", f"{name}.sub_({other})"] * 2
    texts += (
        [f"{name}.copy_({other})", f"{name}.add_({other}, alpha=2)"] * 2 if is_tensor else [f"{name}.fill_({other})"]
    )
    texts += [f"{name}.zero_()", f"{name}.fill_({c.pick(('2', '0'))})", f"{name}.clamp_(0, 4)", f"{name}.pow_(2)"]
    texts += [f"{name}.neg_()", f"{name}.abs_()", f"{name}.clamp_min_(-1)"] if t.dtype != torch.uint8 else []
    if t.dim():
        texts += [f"{name}.copy_({name}.flip(0))", f"{name}.add_({name}.flip(-1))"]
        texts += [f"{name}.copy_({name}.transpose(0, -1))"] if t.size(0) == t.size(-1) else []
    if b.exact:
        texts += [f"{name}.masked_fill_({name} > 0, 1)", f"{name}.masked_fill_({name} == {other}, 2)"]
    if not t.is_floating_point():
        texts += [
            f"{name}.bitwise_and_(6)",
            f"{name}.bitwise_xor_(5)",
            f"{name}.remainder_(5)",
            f"{name}.floor_divide_(2)",
        ]
    elif b.exact:
        texts += [f"{name}.div_({other if is_tensor else 2})", f"{name}.floor_()", f"{name}.relu_()", f"{name}.sign_()"]
    else:
        texts += [f"{name}.{f}_()" for f in ("exp", "sigmoid", "tanh", "sin", "relu")]
        texts += [f"{name}.div_(3)", f"{name}.mul_(0.3)"]
        texts += [f"{name}.addcmul_({other}, {other}, value=0.5)", f"{name}.lerp_({other}, 0.3)"] if is_tensor else []
    return c.pick(texts)


def set_item(b: Lines, name: str, t: torch.Tensor) -> str | None:
    c = b.choose
    if not t.dim() or not t.size(0):
        return f"{name}[()] = {number(t)}" if not t.dim() else None
    at = c.number(-t.size(0), t.size(0) - 1)
    texts = [f"{name}[{at}] = {number(t)}", f"{name}[..., 0] = {number(t)}" if t.size(-1) else f"{name}[0] = 1"]
    texts += [f"{name}[::2] = {c.pick(('0', '1'))}", f"{name}[{at}] = {name}[0].clone()"]
    if t.size(0) > 1:
        shift = "" if c.chance(60) else ".clone()"
        texts += [
            f"{name}[1:] = {name}[:-1]{shift}",
            f"{name}[:-1] = {name}[1:] * 2" if t.dtype != torch.bool else f"{name}[1:] = ~{name}[:-1]",
        ]
        texts += [f"{name}[1:] += {name}[:-1].clone()"] if t.dtype != torch.bool else []
    texts += [f"{name}[n] = {number(t)}", f"{name}[n] = {name}[0].clone()"] * 2 if b.indexes(t.size(0)) else []
    other = b.partner(t[0], tensor_only=True)
    if other is not None:
        safe = f"{other}.clone()" if b._shares(b.get(other), t) and c.chance(55) else other
        texts += [f"{name}[{at}] = {safe}"] * 2
    if b.exact:
        texts += [f"{name}[{name} > 0] = 1" if t.dtype != torch.bool else f"{name}[{name}] = False"]
    return c.pick(texts)


def out(b: Lines, name: str, t: torch.Tensor) -> str | None:
    """Results into a tensor that is there, of just that shape."""
    c = b.choose
    if t.dtype == torch.bool:
        fits = [n for n in b.names if b.get(n).shape == t.shape and b.get(n).dtype != torch.bool]
        return f"torch.gt({c.pick(fits)}, 0, out={name})" if fits and b.exact else None
    other, more = b.partner(t, tensor_only=True, same_shape=True), b.partner(t)
    if other is None:
        return None
    texts = [f"torch.add({other}, {more}, out={name})", f"torch.mul({other}, {more}, out={name})"]
    texts += [f"torch.{c.pick(('neg', 'abs', 'square'))}({other}, out={name})"] if t.dtype != torch.uint8 else []
    texts += [
        f"torch.clamp({other}, 0, 3, out={name})",
        f"torch.cat([{other}], 0, out={name})" if t.dim() else f"torch.abs({other}, out={name})",
    ]
    if t.dim() and t.size(-1):
        texts += [f"torch.amax({other}, -1, keepdim=True, out={name}[..., :1])"]
    texts += [f"torch.exp({other}, out={name})"] if not b.exact and t.is_floating_point() else []
    return c.pick(texts)


def foreach(b: Lines, name: str, t: torch.Tensor) -> str | None:
    if t.dtype == torch.bool:
        return None
    c, other = b.choose, b.partner(t, tensor_only=True)
    if other is None:
        return None
    texts = [
        f"torch._foreach_add_([{name}, {other}], 2)",
        f"torch._foreach_mul_([{name}, {other}], 3)",
        f"torch._foreach_add_([{name}], [{other}.clone()])",
        f"torch._foreach_copy_([{name}], [{other}])" if c.chance(20) else f"torch._foreach_sub_([{name}, {name}], 1)",
        f"torch._foreach_add([{name}, {other}], 1)[1]",
        f"torch._foreach_mul([{name}], [{other}])[0]",
    ]
    texts += (
        [f"torch._foreach_exp([{name}])[0]", f"torch._foreach_lerp_([{name}], [{other}.clone()], 0.3)"]
        if not b.exact and t.is_floating_point()
        else []
    )
    return c.pick(texts)


def scatter(b: Lines, name: str, t: torch.Tensor) -> str | None:
    """Writes by index: library calls on real memory."""
    c = b.choose
    if not t.dim() or not t.size(0):
        return None
    at, value = c.number(0, t.size(0) - 1), "True" if t.dtype == torch.bool else "3"
    index, rows = f"torch.tensor([{at}])", f"{name}[:1].clone()"
    texts = [
        f"{name}.index_fill_(0, {index}, {value})",
        f"{name}[{index}] = {value}",
        f"{name}.index_put_(({index},), {rows})",
        f"{name}.index_copy_(0, {index}, {rows})",
        f"{name}.scatter_(0, torch.zeros_like({rows}, dtype=torch.int64) + {at}, {rows})",
        f"torch.index_select({name}, 0, {index})",
    ]
    if t.dtype != torch.bool:
        texts += [
            f"{name}.index_add_(0, torch.tensor([{at}, 0]), torch.cat([{rows}, {rows}]))",
            f"{name}.index_put_(({index},), {rows}, accumulate=True)",
            f"{name}.scatter_add_(0, torch.zeros_like({rows}, dtype=torch.int64) + {at}, {rows})",
            f"{name}.index_add(0, {index}, {rows})",
        ]
    return c.pick(texts)


def accident(b: Lines, name: str, t: torch.Tensor) -> str | None:
    """Writes whose result hangs on the order in which eager goes through the elements."""
    c = b.choose
    if not t.dim() or t.size(0) < 2 or not t.numel():
        return None
    half = t.size(0) // 2
    texts = [
        f"{name}[1:] = {name}[:-1]",
        f"{name}[:-1].copy_({name}[1:])",
        f"{name}[:{half}].copy_({name}[::2][:{half}])",
    ]
    texts += [f"{name}.index_put_((torch.tensor([0, 0]),), {name}[:2].clone())"]
    texts += [f"{name}[::2][1:] = {name}[::2][:-1]"] * 4 if t.size(0) > 2 else []  # a loop over single elements
    texts += (
        [f"{name}[..., 1:, :] = {name}[..., :-1, :]", f"{name}[..., 1:] = {name}[..., :-1]"] * 2 if t.dim() > 1 else []
    )
    texts += [f"{name}.copy_({name}.transpose(0, -1))"] * 3 if t.dim() > 1 and t.size(0) == t.size(-1) else []
    texts += [f"{name}.unfold(0, 2, 1).neg_()"] if t.dtype != torch.bool else []
    return c.pick(texts)
