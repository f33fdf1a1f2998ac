"""Random programs as data: buffers, arguments that share them, and straight-line steps; readable as Python source."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch

_NUMBERS = count()
NAMES = ("a", "b", "c", "d", "e", "f")


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that arguments lie in. ``joined``: each argument brings a storage object of its own over it (numpy)."""

    numel: int
    dtype: torch.dtype
    seed: int
    is_special: bool = False
    joined: bool = False

    def values(self) -> torch.Tensor:
        """Multiples of a quarter, small integers or bools; ``is_special``: NaN, infinities and -0.0 among them."""
        generator = torch.Generator().manual_seed(self.seed)
        raw = torch.randint(-12, 13, (self.numel,), generator=generator)
        if self.dtype == torch.bool:
            return raw > 0
        if not self.dtype.is_floating_point:
            return raw.to(self.dtype)
        out = raw.to(self.dtype) / 4
        if self.is_special and self.numel:
            odd = torch.tensor([float("nan"), float("inf"), float("-inf"), -0.0], dtype=self.dtype)
            at = torch.randint(0, self.numel, (min(4, self.numel),), generator=generator)
            out[at] = odd[: len(at)]
        return out


@dataclass(frozen=True, slots=True)
class View:
    """An argument: shape, strides and offset, in elements of buffer number ``buffer``; ``whole``: the buffer itself."""

    buffer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the program: ``text``, whose value is called ``name`` where it has one."""

    text: str
    name: str | None = None

    @property
    def line(self) -> str:
        return self.text if self.name is None else f"{self.name} = {self.text}"


@dataclass(frozen=True)
class RandomProgram:
    """A program with its arguments. Equal programs have equal arguments: everything follows from the data."""

    buffers: tuple[Buffer, ...]
    arguments: tuple[View, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]

    def make(self) -> list[torch.Tensor]:
        """The arguments, made anew: they share memory as their views say."""
        bases = [buffer.values() for buffer in self.buffers]
        return [self._argument(view, bases[view.buffer]) for view in self.arguments]

    def _argument(self, view: View, base: torch.Tensor) -> torch.Tensor:
        if self.buffers[view.buffer].joined and base.numel():
            # from the first element on: element offsets then count from another storage object
            part = torch.from_numpy(np.asarray(base.numpy())[view.offset :])
            return part.as_strided(view.shape, view.strides, 0)
        return base if view.whole else base.as_strided(view.shape, view.strides, view.offset)

    @property
    def source(self) -> str:
        """The program as a Python function named ``program``."""
        names = ", ".join(NAMES[: len(self.arguments)])
        body = [step.line for step in self.steps] + [f"return ({', '.join(self.outputs)},)"]
        return "\n".join([f"def program({names}):", *(f"    {line}" for line in body)]) + "\n"

    @property
    def function(self) -> Callable[..., tuple[object, ...]]:
        """The program as a function that has source lines."""
        name, source = f"<random program {next(_NUMBERS)}>", self.source
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        space: dict[str, object] = {"torch": torch}
        exec(compile(source, name, "exec"), space)
        function = space["program"]
        function.__fusekit_source__ = source  # type: ignore[attr-defined]
        return function  # type: ignore[return-value]

    def __repr__(self) -> str:
        lines = [f"buffer{k} = {buffer}" for k, buffer in enumerate(self.buffers)]
        for name, view in zip(NAMES, self.arguments, strict=False):
            how = "" if view.whole else f".as_strided({view.shape}, {view.strides}, {view.offset})"
            lines.append(f"{name} = buffer{view.buffer}{how}")
        return "\n".join([*lines, self.source])
