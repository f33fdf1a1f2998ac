"""Makes random programs: from a seed, or by hypothesis (which then shrinks them).

What eager leaves undefined stays out: gaps of fresh outputs, floats out of an integer's range, and the last bits of
ops that are not exactly rounded (a program either has such ops, or looks at bits, compares and casts to integers).
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import torch
from hypothesis import strategies as st

from fusekit.testing.programs import NAMES, Buffer, RandomProgram, Step, View

T = TypeVar("T")
DTYPES = (
    (torch.float32,) * 6 + (torch.int64,) * 2 + (torch.bfloat16, torch.bool, torch.float64, torch.int32, torch.uint8)
)
SIZES = (2, 3, 1, 4, 5, 7, 0)


class Choices(Protocol):
    """Where a random program comes from: whole numbers, low ends tried first by whoever shrinks."""

    def integer(self, low: int, high: int) -> int:
        """A number in ``low..high``, both included."""
        ...


@dataclass
class Seeded:
    """Choices that follow from a seed."""

    generator: random.Random

    def integer(self, low: int, high: int) -> int:
        return self.generator.randint(low, high)


@dataclass
class Drawn:
    """Choices that hypothesis draws."""

    draw: Callable[[st.SearchStrategy[int]], int]

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))


def random_program(seed: int, *, steps: int = 12, errors: bool = False) -> RandomProgram:
    """The program of a seed, of up to ``steps`` ops. ``errors``: its last op may be one that eager refuses."""
    return _Maker(Seeded(random.Random(seed)), errors).make(min(3, steps), steps)


def programs(*, steps: int = 8, errors: bool = False) -> st.SearchStrategy[RandomProgram]:
    """A hypothesis strategy of random programs."""

    @st.composite
    def build(draw: Callable[[st.SearchStrategy[int]], int]) -> RandomProgram:
        return _Maker(Drawn(draw), errors).make(min(1, steps), steps)

    return build()


@dataclass
class _Maker:
    choices: Choices
    errors: bool
    space: dict[str, object] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    exact: bool = True

    # ---- choices

    def number(self, low: int, high: int) -> int:
        return self.choices.integer(low, high)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent

    def tensor(self) -> tuple[str, torch.Tensor]:
        name = self.names[-1 - self.number(0, len(self.names) - 1)]
        found = self.space[name]
        assert isinstance(found, torch.Tensor)
        return name, found

    # ---- a program

    def make(self, fewest: int, most: int) -> RandomProgram:
        self.exact = not self.chance(35)
        buffers, views = self._arguments()
        start = RandomProgram(buffers, views, (), ())
        self.space = {"torch": torch, **dict(zip(NAMES, start.make(), strict=False))}
        self.names = list(NAMES[: len(views)])
        steps: list[Step] = []
        for k in range(most):
            if k >= fewest and not self.chance(90):
                break
            text = self._step()
            if text is None:
                continue
            step = Step(text, None if _is_statement(text) else f"t{len(steps)}")
            if self._runs(step):
                steps.append(step)
            elif self.errors and self.chance(30):
                steps.append(step)
                break
        return RandomProgram(buffers, views, tuple(steps), self._outputs())

    def _runs(self, step: Step) -> bool:
        try:
            with torch.no_grad(), warnings.catch_warnings(action="ignore"):
                exec(step.line, self.space)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return False
        if step.name is not None:
            found = self.space[step.name]
            if not isinstance(found, torch.Tensor) or found.numel() > 4096:
                return False
            self.names.append(step.name)
        return True

    def _outputs(self) -> tuple[str, ...]:
        out = [self.tensor()[0] for _ in range(self.number(1, 3))]
        return (*out, "3") if self.chance(5) else tuple(out)

    def _arguments(self) -> tuple[tuple[Buffer, ...], tuple[View, ...]]:
        buffers: list[Buffer] = []
        views: list[View] = []
        for _ in range(self.number(1, 2)):
            dtype = self.pick(DTYPES)
            joined = dtype != torch.bfloat16 and self.chance(6)
            buffer = Buffer(self.pick((12, 6, 8, 16, 24, 35, 1, 0)), dtype, self.number(0, 99), self.chance(8), joined)
            views += [self._view(len(buffers), buffer.numel) for _ in range(self.number(1, 2))]
            buffers.append(buffer)
        return tuple(buffers), tuple(views)

    def _view(self, number: int, numel: int) -> View:
        if self.chance(50):
            return View(number, (numel,), (1,), 0, whole=True)
        shape, strides, offset = self.layout(numel)
        return View(number, shape, strides, offset)

    def layout(self, numel: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """A layout, dense most of the time, within ``numel`` elements."""
        shape = [self.pick(SIZES[:4]) for _ in range(self.number(0, 3))]
        if self.chance(60):
            strides, step = [], 1
            for size in reversed(shape):
                strides.insert(0, step)
                step *= max(size, 1)
        else:
            strides = [self.pick((1, 2, 3, 4, 6)) if not self.chance(8) else 0 for _ in shape]
        top = sum(s * (n - 1) for s, n in zip(strides, shape, strict=True))
        if top >= numel:
            return ((1,), (1,), self.number(0, numel - 1)) if numel else ((0,), (1,), 0)
        return tuple(shape), tuple(strides), self.number(0, numel - 1 - top)

    # ---- steps

    def _step(self) -> str | None:
        kind = self.number(0, 99)
        if kind < 30:
            return self._in_place()
        if kind < 60:
            return self._view_step()
        if kind < 90:
            return self._pure()
        return self._library()

    def _view_step(self) -> str | None:
        name, t = self.tensor()
        dims = t.dim()
        d = self.number(0, dims - 1) if dims else 0
        size = t.size(d) if dims else 0
        rules = ["unsqueeze", "expand", "slice", "select", "transpose", "flat", "every", "as_strided", "diagonal"]
        rule = self.pick([*rules, "unfold", "bits", "detach", "split", "shape", "squeeze"])
        if rule in ("slice", "select", "every", "unfold", "split") and not size:
            return None
        if rule == "slice":
            start = self.number(0, size - 1)
            return f"{name}.narrow({d}, {start}, {self.number(0 if self.chance(5) else 1, size - start)})"
        if rule == "as_strided":
            return self._as_strided(name, t)
        if rule == "bits":
            return self._bits(name, t)
        if rule == "shape" and t.numel():
            k = self.pick([n for n in range(1, t.numel() + 1) if t.numel() % n == 0])
            return f"{name}.{self.pick(('view', 'reshape'))}({k}, {t.numel() // k})"
        texts = {
            "unsqueeze": f"{name}.unsqueeze({self.number(0, dims)})",
            "expand": f"{name}.expand({self.pick((2, 1, 3))}, {', '.join(['-1'] * dims)})",
            "select": f"{name}.select({d}, {self.number(-size, max(size - 1, 0))})",
            "transpose": f"{name}.transpose(0, -1)" if dims > 1 else None,
            "flat": f"{name}.{self.pick(('view', 'reshape', 'flatten'))}({'' if self.chance(0) else '-1'})".replace(
                "flatten(-1)", "flatten()"
            ),
            "every": f"{name}[{':, ' * d}{self.pick(('1::2', '::2', '::3'))}]",
            "diagonal": f"{name}.diagonal({self.number(-1, 1)})" if dims > 1 else None,
            "unfold": f"{name}.unfold({d}, {self.number(1, min(2, max(size, 1)))}, {self.number(1, 2)})",
            "detach": f"{name}.detach()",
            "split": f"{name}.split({self.number(1, max(size, 1))}, {d})[{self.pick((0, -1))}]",
            "squeeze": f"{name}.squeeze()",
        }
        return texts.get(rule)

    def _as_strided(self, name: str, t: torch.Tensor) -> str | None:
        whole = t.untyped_storage().nbytes() // t.element_size()
        if not t.is_contiguous() or t.numel() != whole:  # gaps of fresh outputs are undefined
            return None
        shape, strides, offset = self.layout(whole)
        return f"{name}.as_strided({shape}, {strides}, {offset})"

    def _bits(self, name: str, t: torch.Tensor) -> str | None:
        if not self.exact or t.dtype not in (torch.float32, torch.int32, torch.float64) or not t.dim():
            return None
        return f"{name}.view(torch.{self.pick(('int32', 'int16', 'uint8'))})" if t.is_floating_point() else None

    def _partner(self, t: torch.Tensor) -> str:
        """A tensor of the same dtype that broadcasts to ``t``, or a number."""
        fits = []
        for name in self.names:
            other = self.space[name]
            assert isinstance(other, torch.Tensor)
            if (other.dtype == t.dtype or self.chance(8)) and _broadcasts(other.shape, t.shape):
                fits.append(name)
        if not fits or self.chance(15):
            return "True" if t.dtype == torch.bool else "1.5" if t.is_floating_point() else "3"
        return self.pick(fits)

    def _in_place(self) -> str | None:
        name, t = self.tensor()
        other = self._partner(t)
        whole = not t.is_floating_point()
        if t.dtype == torch.bool:
            return self.pick(
                (f"{name}.logical_not_()", f"{name}.copy_({other})" if other != "True" else f"{name}.fill_(True)")
            )
        numbers = ("2", "0") if whole else ("0.5", "-2.0")
        texts = [
            f"{name}.add_({other})",
            f"{name}.mul_({other})",
            f"{name}.copy_({other})" if other in self.names else f"{name}.fill_({other})",
            f"{name}.sub_({other})",
            f"{name}.neg_()" if t.dtype != torch.uint8 else f"{name}.zero_()",
            f"{name}.fill_({self.pick(numbers)})",
            f"{name}.copy_({name}.flip(0))" if t.dim() else f"{name}.mul_(2)",
            f"{name}.clamp_(-2, 2)" if t.dtype != torch.uint8 else f"{name}.clamp_(1, 4)",
            f"{name}[0] = {self.pick(numbers)}" if t.dim() and t.size(0) else f"{name}.zero_()",
            f"{name}[1:] = {name}[:-1].clone()" if t.dim() and t.size(0) > 1 else f"{name}.zero_()",
            f"{name}.add_({other}, alpha=2)" if other in self.names else f"{name}.abs_()",
            f"{name}.masked_fill_({name} > 0, 1)" if self.exact else f"{name}.abs_()",
            f"{name}.{self.pick(('unsqueeze_(0)', 't_()', 'transpose_(0, -1)', 'squeeze_()'))}",
        ]
        if not self.exact and not whole:
            texts += [f"{name}.exp_()", f"{name}.sigmoid_()", f"{name}.tanh_()", f"{name}.div_(3)"]
        return self.pick(texts)

    def _pure(self) -> str | None:
        name, t = self.tensor()
        other = self._partner(t)
        if t.dtype == torch.bool:
            return self.pick(
                (f"~{name}", f"{name} & {other}", f"torch.where({name}, 1.5, 2.0)", f"{name}.to(torch.float32)")
            )
        texts = [
            f"{name} + {other}",
            f"{name} * {other}",
            f"{name} - {other}",
            f"-{name}",
            f"{name}.clone()",
            f"torch.cat([{name}, {name}], 0)" if t.dim() else f"{name} + 1",
            f"torch.stack([{name}, {name}])",
            f"torch.maximum({name}, {other})" if other in self.names else f"{name}.abs()",
            f"{name}.flip(-1)" if t.dim() else f"{name}.abs()",
            f"torch.relu({name})",
            f"{name}.contiguous()",
            f"{name}.sum()" if not t.is_floating_point() or not self.exact else f"{name} * 2",
            f"{name}.amax()" if t.numel() else f"{name} + 1",
            f"torch.nn.functional.pad({name}, (1, 2))" if t.dim() else f"{name} + 1",
            f"torch.slice_scatter({name}, {name}[:1] * 2, 0, 0, 1)" if t.dim() and t.size(0) else f"{name} + 1",
            f"{name}.to(torch.{self.pick(('float64', 'float32', 'bfloat16'))})" if self.exact else f"{name}.clone()",
            f"torch.ones_like({name})",
            f"{name} + torch.arange({t.size(-1)})" if t.dim() else f"torch.zeros(2) + {name}",
        ]
        if self.exact:
            texts += [f"{name} > {other}", f"torch.where({name} > 0, {name}, {other})", f"{name} == {other}"]
            texts += [f"torch.nan_to_num({name}).clamp(-100, 100).to(torch.{self.pick(('int64', 'int32'))})"]
        elif t.is_floating_point():
            texts += [
                f"{name}.exp()",
                f"{name}.mean()",
                f"torch.sigmoid({name})",
                f"{name} / 3",
                f"{name}.sum(-1, keepdim=True)",
            ]
            texts += [f"torch.softmax({name}, -1)", f"{name}.sin()", f"torch.nn.functional.silu({name})"]
        return self.pick(texts)

    def _library(self) -> str | None:
        """Ops that stay library calls, writing ones among them."""
        name, t = self.tensor()
        if not t.dim() or not t.size(0) or t.dtype == torch.bool:
            return None
        at = self.number(0, t.size(0) - 1)
        texts = [
            f"{name}.index_fill_(0, torch.tensor([{at}]), 3)",
            f"{name}.index_select(0, torch.tensor([{at}, 0]))",
            f"{name}[torch.tensor([{at}])] = 2",
            f"{name}.sort()[0]",
            f"{name}.roll(1, 0)",
            f"{name}.repeat({', '.join(['2'] * t.dim())})",
        ]
        if not self.exact or not t.is_floating_point():
            texts += [f"{name}.cumsum(0)", f"{name}.cumsum_(0)"]
        return self.pick(texts)


def _is_statement(text: str) -> bool:
    """Does the line have no value of its own (in-place ops and item assignments)?"""
    head = text.split("(")[0]
    return head.endswith("_") or "] = " in text


def _broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    if len(shape) > len(to):
        return False
    tail = to[len(to) - len(shape) :]
    return all(n in (1, m) for n, m in zip(shape, tail, strict=True))
