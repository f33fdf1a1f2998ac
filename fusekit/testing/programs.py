"""Random programs as data: buffers, arguments that share them, and straight-line steps; readable as Python source."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch

_NUMBERS = count()
_MADE = re.compile(r"torch\.(tensor|arange)\(([^()]*)\)")
NAMES = ("a", "b", "c", "d", "e", "f")
NUMBERS = ("n", "m", "k")  # two that index, and one that is computed with
MANY = 200  # elements that are still written out one by one
SPECIAL = (float("nan"), float("inf"), float("-inf"), -0.0)


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
            odd = torch.tensor(SPECIAL, dtype=self.dtype)
            at = torch.randint(0, self.numel, (min(4, self.numel),), generator=generator)
            out[at] = odd[: len(at)]
        return out

    def text(self) -> str:
        """Python that makes the values; of many without specials, as they are drawn."""
        if self.numel <= MANY or (self.is_special and self.dtype.is_floating_point):
            return f"torch.tensor([{', '.join(map(_literal, self.values().tolist()))}], dtype={self.dtype})"
        raw = f"torch.randint(-12, 13, ({self.numel},), generator=torch.Generator().manual_seed({self.seed}))"
        if self.dtype == torch.bool:
            return f"{raw} > 0"
        return f"{raw}.to({self.dtype})" + (" / 4" if self.dtype.is_floating_point else "")


@dataclass(frozen=True, slots=True)
class View:
    """An argument: shape, strides and offset, in elements of buffer number ``buffer``; ``whole``: the buffer itself.

    ``dtype``: the elements are the buffer's bytes read as this. ``twin``: the very object of an earlier argument.
    """

    buffer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    whole: bool = False
    dtype: torch.dtype | None = None
    twin: int | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Arguments of one call: where in which memory each of them lies, and Python numbers ``n``, ``m``, ``k``."""

    buffers: tuple[Buffer, ...]
    arguments: tuple[View, ...]
    numbers: tuple[int | float, ...] = ()

    def make(self, device: str | None = None) -> list[torch.Tensor]:
        """The arguments, made anew; on a ``device`` they share memory as they do here."""
        bases = [buffer.values() if device is None else buffer.values().to(device) for buffer in self.buffers]
        out: list[torch.Tensor] = []
        for view in self.arguments:
            out.append(self._argument(view, bases[view.buffer]) if view.twin is None else out[view.twin])
        return out

    def _argument(self, view: View, base: torch.Tensor) -> torch.Tensor:
        if self.buffers[view.buffer].joined and base.numel() and base.device.type == "cpu":
            # from the first element on: element offsets then count from another storage object
            part = torch.from_numpy(np.asarray(base.numpy())[view.offset :])
            return part.as_strided(view.shape, view.strides, 0)
        if view.whole:
            return base
        seen = base if view.dtype is None else base.view(view.dtype)
        return seen.as_strided(view.shape, view.strides, view.offset)

    def lines(self) -> list[str]:
        """Python that makes ``args``."""
        seen = {view.buffer for view in self.arguments}
        lines = [f"memory{k} = {buffer.text()}" for k, buffer in enumerate(self.buffers) if k in seen]
        names: list[str] = []
        for name, view in zip(NAMES, self.arguments, strict=False):
            names.append(name if view.twin is None else names[view.twin])
            if view.twin is None:
                lines.append(f"{name} = {self._text(view)}")
        names += map(_literal, self.numbers)
        return [*lines, f"args = [{', '.join(names)}]"]

    def _text(self, view: View) -> str:
        base, buffer = f"memory{view.buffer}", self.buffers[view.buffer]
        if buffer.joined and buffer.numel:
            return f"torch.from_numpy({base}.numpy()[{view.offset}:]).as_strided({view.shape}, {view.strides})"
        if view.whole:
            return base
        seen = base if view.dtype is None else f"{base}.view({view.dtype})"
        return f"{seen}.as_strided({view.shape}, {view.strides}, {view.offset})"


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the program: ``text``, whose value is called ``name`` where it has one; ``kind`` for the counts."""

    text: str
    name: str | None = None
    kind: str = ""

    @property
    def line(self) -> str:
        return self.text if self.name is None else f"{self.name} = {self.text}"


@dataclass(frozen=True)
class RandomProgram:
    """A program with its arguments. Equal programs have equal arguments: everything follows from the data.

    ``placements``: the arguments of its calls, of the same shapes, strides and dtypes, sharing memory otherwise, and
    with other numbers.
    ``exact``: every op is exactly rounded, so bits can be compared. ``accident``: a result hangs on eager's loop order;
    ``unordered``: one does on a GPU, where eager goes through a list of tensors at once.
    """

    placements: tuple[Placement, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    exact: bool = True
    accident: bool = False
    unordered: bool = False

    @property
    def arguments(self) -> tuple[View, ...]:
        return self.placements[0].arguments

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return self.placements[0].buffers

    @property
    def calls(self) -> tuple[int, ...]:
        """The placement of each call; of two, the last call meets a plan that is there."""
        return (0, 1, 0) if len(self.placements) == 2 else tuple(range(len(self.placements)))

    def make(self, call: int = 0, device: str | None = None) -> list[torch.Tensor]:
        """The tensors of a call, made anew: they share memory as their views say."""
        return self.placements[call].make(device)

    def args(self, call: int = 0, device: str | None = None) -> list[torch.Tensor | int | float]:
        """The arguments of a call: tensors, then numbers."""
        return [*self.make(call, device), *self.placements[call].numbers]

    @property
    def source(self) -> str:
        """The program as a Python function named ``program``."""
        names = ", ".join([*NAMES[: len(self.arguments)], *NUMBERS[: len(self.placements[0].numbers)]])
        body = [step.line for step in self.steps] + [f"return ({', '.join(self.outputs)},)"]
        return "\n".join([f"def program({names}):", *(f"    {line}" for line in body)]) + "\n"

    @property
    def function(self) -> Callable[..., tuple[object, ...]]:
        """The program as a function that has source lines."""
        return self.function_on(None)

    def function_on(self, device: str | None) -> Callable[..., tuple[object, ...]]:
        """The same with the tensors that it makes itself on a device."""
        name, source = f"<random program {next(_NUMBERS)}>", self.source
        if device is not None:
            source = _MADE.sub(rf"torch.\1(\2, device={device!r})", source)
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        space: dict[str, object] = {"torch": torch}
        exec(compile(source, name, "exec"), space)
        function = space["program"]
        function.__fusekit_source__ = source  # type: ignore[attr-defined]
        return function  # type: ignore[return-value]

    def script(self, calls: Sequence[int] = (0, 1)) -> str:
        """Python that stands alone: one callable of the program, checked with the arguments of each call."""
        lines = ["import torch", "", "import fusekit as fk", "", "", self.source, "", "compiled = fk.jit(program)"]
        for call in calls:
            lines += ["", *self.placements[call].lines(), "print(fk.testing.differential(program, compiled, args))"]
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        calls = [line for k, one in enumerate(self.placements) for line in (f"# arguments of call {k}", *one.lines())]
        return "\n".join([*calls, self.source])


def _literal(value: object) -> str:
    return f"float('{value}')" if isinstance(value, float) and not abs(value) < float("inf") else repr(value)
