"""One random line of a program: a view, an in-place op, a pure op, a reduction, a look-up, a library call.

``exact`` programs look at bits, compare and cast floats to integers, and have no op whose last bits may differ; the
others have those ops and look at none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from fusekit.testing.choices import Chooser

Space = dict[str, object]
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@dataclass
class Lines:
    """Writes lines over the tensors in ``spaces``, one space a call; what they look like is the same in all."""

    choose: Chooser
    spaces: Sequence[Space]
    names: list[str] = field(default_factory=list)
    exact: bool = True

    def line(self) -> tuple[str, str] | None:
        """(kind, text), or None where the dice found nothing that fits."""
        c = self.choose
        kind = c.pick([name for name, weight in WEIGHTS.items() for _ in range(weight)])
        name, t = self.tensor()
        text = KINDS[kind](self, name, t)
        return None if text is None else (kind, text)

    # ---- what there is

    def get(self, name: str) -> torch.Tensor:
        found = self.spaces[0][name]
        assert isinstance(found, torch.Tensor)
        return found

    def tensor(self) -> tuple[str, torch.Tensor]:
        """One that is there, later ones more often."""
        c = self.choose
        back = min(c.number(0, len(self.names) - 1), c.number(0, len(self.names) - 1)) if c.chance(50) else None
        name = self.names[-1 - (c.number(0, len(self.names) - 1) if back is None else back)]
        return name, self.get(name)

    def partner(self, t: torch.Tensor, *, tensor_only: bool = False, same_shape: bool = False) -> str | None:
        """A tensor that broadcasts to ``t``, of the same dtype as a rule, or a number."""
        fits = []
        for name in self.names:
            other = self.get(name)
            shaped = other.shape == t.shape if same_shape else broadcasts(other.shape, t.shape)
            if shaped and (other.dtype == t.dtype or (not tensor_only and self.choose.chance(6))):
                fits.append(name)
        if fits and (tensor_only or not self.choose.chance(15)):
            return self.choose.pick(fits)
        return None if tensor_only else self.scalar(t)

    def scalar(self, t: torch.Tensor) -> str:
        """A literal, or the number among the arguments."""
        has_number = "n" in self.spaces[0] and t.dtype != torch.bool
        return "n" if has_number and self.choose.chance(50) else number(t)

    def is_tensor(self, name: str | None) -> bool:
        return name is not None and name.split(".")[0] in self.names

    def indexes(self, size: int) -> bool:
        """Is the number among the arguments an index of so many elements, in every call?"""
        found = [space.get("n") for space in self.spaces]
        return all(isinstance(n, int) and n < size for n in found)

    def starts_its_storage(self, name: str) -> bool:
        found = [space[name] for space in self.spaces]
        return all(isinstance(t, torch.Tensor) and t.storage_offset() == 0 for t in found)

    def source(self, t: torch.Tensor) -> str | None:
        """A partner to be written over ``t``; a clone of it where eager's loop order might decide."""
        name = self.partner(t)
        if name in self.names and self.choose.chance(50) and self._shares(self.get(name), t):
            return f"{name}.clone()"
        return name

    def _shares(self, a: torch.Tensor, b: torch.Tensor) -> bool:
        same = (a.data_ptr(), a.shape, a.stride()) == (b.data_ptr(), b.shape, b.stride())
        return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() and not same

    def elements(self, name: str) -> int:
        """Elements of the storage, in the call where they are fewest."""
        found = [space[name] for space in self.spaces]
        return min(t.untyped_storage().nbytes() // t.element_size() for t in found if isinstance(t, torch.Tensor))

    def is_dense(self, name: str) -> bool:
        """Does the tensor fill its storage in every call? (Gaps of fresh outputs are undefined.)"""
        found = [space[name] for space in self.spaces]
        return all(
            t.is_contiguous() and t.numel() * t.element_size() == t.untyped_storage().nbytes()
            for t in found
            if isinstance(t, torch.Tensor)
        )

    def dim(self, t: torch.Tensor) -> int:
        return self.choose.number(0, t.dim() - 1)


def number(t: torch.Tensor) -> str:
    return "True" if t.dtype == torch.bool else "1.5" if t.is_floating_point() else "3"


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    if len(shape) > len(to):
        return False
    return all(n in (1, m) for n, m in zip(shape, to[len(to) - len(shape) :], strict=True))


# ---- views


def _view(b: Lines, name: str, t: torch.Tensor) -> str | None:
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


def _as_strided(b: Lines, name: str, t: torch.Tensor) -> str | None:
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


def _bits(b: Lines, name: str, t: torch.Tensor) -> str | None:
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


def _metadata(b: Lines, name: str, t: torch.Tensor) -> str | None:
    texts = ["unsqueeze_(0)", "squeeze_()"]
    texts += ["t_()"] if t.dim() == 2 else []
    texts += ["transpose_(0, -1)", "swapdims_(0, -1)", "unsqueeze_(-1)"] if t.dim() else []
    return f"{name}.{b.choose.pick(texts)}"


# ---- writes


def _in_place(b: Lines, name: str, t: torch.Tensor) -> str | None:
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


def _set_item(b: Lines, name: str, t: torch.Tensor) -> str | None:
    c = b.choose
    if not t.dim() or not t.size(0):
        return f"{name}[()] = {number(t)}" if not t.dim() else None
    at = c.number(-t.size(0), t.size(0) - 1)
    texts = [f"{name}[{at}] = {number(t)}", f"{name}[..., 0] = {number(t)}" if t.size(-1) else f"{name}[0] = 1"]
    texts += [f"{name}[::2] = {c.pick(('0', '1'))}", f"{name}[{at}] = {name}[0].clone()"]
    if t.size(0) > 1:
        shift = "" if c.chance(12) else ".clone()"
        texts += [
            f"{name}[1:] = {name}[:-1]{shift}",
            f"{name}[:-1] = {name}[1:] * 2" if t.dtype != torch.bool else f"{name}[1:] = ~{name}[:-1]",
        ]
        texts += [f"{name}[1:] += {name}[:-1].clone()"] if t.dtype != torch.bool else []
    texts += [f"{name}[n] = {number(t)}", f"{name}[n] = {name}[0].clone()"] * 2 if b.indexes(t.size(0)) else []
    other = b.partner(t[0], tensor_only=True)
    if other is not None:
        safe = f"{other}.clone()" if b._shares(b.get(other), t) and c.chance(85) else other
        texts += [f"{name}[{at}] = {safe}"] * 2
    if b.exact:
        texts += [f"{name}[{name} > 0] = 1" if t.dtype != torch.bool else f"{name}[{name}] = False"]
    return c.pick(texts)


def _out(b: Lines, name: str, t: torch.Tensor) -> str | None:
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


def _foreach(b: Lines, name: str, t: torch.Tensor) -> str | None:
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


# ---- pure ops


def _pure(b: Lines, name: str, t: torch.Tensor) -> str | None:
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


def _cast(b: Lines, name: str, t: torch.Tensor) -> str | None:
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


def _moving(b: Lines, name: str, t: torch.Tensor) -> str | None:
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
    # A *_scatter op copies the whole storage of its operand, offset and all: no layout promises that offset.
    whole = name if t.numel() and b.starts_its_storage(name) else f"{name}.clone()"
    if t.size(0):
        texts += [
            f"torch.slice_scatter({whole}, {name}[:1] + 1, 0, 0, 1)"
            if t.dtype != torch.bool
            else f"torch.slice_scatter({whole}, {name}[:1], 0, 0, 1)"
        ]
        texts += [
            f"torch.select_scatter({whole}, {name}[0], 0, {c.number(0, t.size(0) - 1)})",
            f"torch.cat([{name}[1:], {name}[:1]], 0)",
        ]
    if t.dim() > 1:
        texts += [f"{name}.tril()", f"{name}.triu(1)", f"torch.diagonal_scatter({whole}, {name}.diagonal() * 1)"]
        texts += [
            f"{name}.transpose(0, -1).contiguous()",
            f"{name}.T.reshape(-1)" if t.dim() == 2 else f"{name}.mT.flatten()",
        ]
    return c.pick(texts)


def _reduction(b: Lines, name: str, t: torch.Tensor) -> str | None:
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


def _look_up(b: Lines, name: str, t: torch.Tensor) -> str | None:
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


def _scatter(b: Lines, name: str, t: torch.Tensor) -> str | None:
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


def _library(b: Lines, name: str, t: torch.Tensor) -> str | None:
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


KINDS: Mapping[str, Callable[[Lines, str, torch.Tensor], str | None]] = {
    "view": _view,
    "in-place": _in_place,
    "pure": _pure,
    "set item": _set_item,
    "moving": _moving,
    "reduction": _reduction,
    "cast": _cast,
    "look-up": _look_up,
    "as_strided": _as_strided,
    "bits": _bits,
    "metadata": _metadata,
    "out=": _out,
    "foreach": _foreach,
    "scatter": _scatter,
    "library": _library,
}
WEIGHTS: Mapping[str, int] = {
    "view": 20, "in-place": 22, "pure": 14, "set item": 8, "moving": 7, "reduction": 5, "cast": 4, "look-up": 3,
    "as_strided": 4, "bits": 4, "metadata": 3, "out=": 4, "foreach": 3, "scatter": 3, "library": 1,
}  # fmt: skip
