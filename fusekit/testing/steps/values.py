"""Lines with values of their own: pointwise ops and casts."""

from __future__ import annotations

import torch

from fusekit.testing.steps.lines import Lines, broadcasts


def pure(b: Lines, name: str, t: torch.Tensor) -> str | None:
    c, other = b.choose, b.partner(t)
    if t.dtype == torch.bool:
        texts = [f"~{name}", f"{name} & {other}", f"{name} | {other}", f"{name} ^ {other}"]
        texts += [f"torch.where({name}, 1.5, 2.0)", f"torch.where({name}, {c.pick(b.names)}, 1)"]
        return c.pick(texts)
    is_tensor = b.is_tensor(other)
    texts = [f"{name} + {other}", f"{name} * {other}", f"{name} - {other}"] * 3
    texts += [f"-{name}", f"{name}.abs()", f"2 - {name}"] if t.dtype != torch.uint8 else []
    texts += [f"{name}.clone()", f"{name}.contiguous()", f"{name} * 2", f"torch.relu({name})", f"{name}.square()"]
    texts += [
        f"torch.ones_like({name}) + {name}",
        f"torch.zeros_like({name})",
        f"torch.full_like({name}, 2)",
        f"{name}.clamp(0, 3)",
    ]
    texts += (
        [f"torch.maximum({name}, {other})", f"torch.minimum({other}, {name})", f"torch.add({name}, {other}, alpha=2)"]
        if is_tensor
        else []
    )
    if t.dim():
        texts += [f"{name} + torch.arange({t.size(-1)})"]
    masks = [n for n in b.names if b.get(n).dtype == torch.bool and broadcasts(b.get(n).shape, t.shape)]
    texts += (
        [f"torch.where({c.pick(masks)}, {name}, {other})", f"{name}.masked_fill({c.pick(masks)}, 1)"] * 2
        if masks
        else []
    )
    if b.exact:
        texts += [
            f"{name} > {other}",
            f"{name} == {other}",
            f"torch.where({name} > 0, {name}, {other})",
            f"{name} != {name}",
            f"{name}.sign()",
        ]
        texts += (
            [f"{name}.nan_to_num()", f"{name}.floor()", f"{name} / {other if is_tensor else 2}", f"torch.isnan({name})"]
            if t.is_floating_point()
            else []
        )
    if not t.is_floating_point():
        texts += [f"{name} & 6", f"{name} // 2", f"{name} % 3", f"{name} >> 1", f"{name} | 1"]
    elif not b.exact:
        texts += [f"{name}.{f}()" for f in ("exp", "sin", "sigmoid", "tanh", "erf", "cos", "sqrt")]
        texts += [f"torch.nn.functional.{f}({name})" for f in ("silu", "gelu", "softplus")]
        texts += [f"{name} / 3", f"{name} / {other}", f"{name}.clamp(0.1, 4).log()", f"{name}.clamp(0.1, 4).rsqrt()"]
        texts += [f"torch.lerp({name}, {other}, 0.25)", f"torch.addcmul({name}, {other}, {other})"] if is_tensor else []
    return c.pick(texts)


def cast(b: Lines, name: str, t: torch.Tensor) -> str | None:
    c = b.choose
    if t.is_floating_point():
        texts = (
            [f"{name}.to(torch.{c.pick(('float64', 'float32', 'bfloat16', 'float16'))})"]
            if b.exact
            else [f"{name}.double()"]
        )
        if b.exact:
            texts += [
                f"{name}.nan_to_num().clamp(-100, 100).to(torch.{c.pick(('int64', 'int32', 'int16'))})",
                f"{name}.bool()",
            ]
            texts += [f"{name}.nan_to_num().clamp(0, 100).to(torch.uint8)"]
    else:
        texts = [
            f"{name}.to(torch.{c.pick(('float32', 'int64', 'float64', 'int32', 'bool', 'bfloat16'))})",
            f"{name}.float()",
        ]
        texts += [f"{name}.to(torch.{c.pick(('uint8', 'int16', 'int8'))})"]
    return c.pick(texts)
