"""Makes random programs: from a seed, or by hypothesis (which then shrinks them).

What eager leaves undefined stays out: gaps of fresh outputs, floats out of an integer's range, and the last bits of
ops that are not exactly rounded (a program either has such ops, or looks at bits, compares and casts to integers).
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from fusekit.run.closeness import whole
from fusekit.testing.accidents import watched
from fusekit.testing.arguments import Arguments, Look
from fusekit.testing.choices import Chooser, Drawn, Seeded
from fusekit.testing.numbers import with_numbers
from fusekit.testing.programs import NAMES, NUMBERS, Placement, RandomProgram, Step
from fusekit.testing.steps import Lines, Space, write_line

if TYPE_CHECKING:
    from hypothesis import strategies as st

REFUSED = (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError)
MOST_ELEMENTS = 256  # of a tiny program's tensor
MANY_ELEMENTS = 20_000  # of a large program's


def random_program(seed: int, *, steps: int = 12, errors: bool = False, large: bool = False) -> RandomProgram:
    """The program of a seed, of 3 to ``steps`` ops. ``errors``: its last op may be one that eager refuses.
    ``large``: tensors past one block, with odd tails."""
    return _Maker(Chooser(Seeded(random.Random(seed))), errors, large).make(min(3, steps), steps, 4)


def programs(*, steps: int = 8, errors: bool = False) -> st.SearchStrategy[RandomProgram]:
    """A hypothesis strategy of random programs."""
    from hypothesis import strategies as st

    @st.composite
    def build(draw: Callable[[st.SearchStrategy[int]], int]) -> RandomProgram:
        return _Maker(Chooser(Drawn(draw)), errors).make(min(1, steps), steps, 3)

    return build()


def numbered_program(seed: int, *, steps: int = 12) -> RandomProgram:
    """The program of a seed that takes numbers, with four calls: equal numbers, cut windows, negative indices, ends,
    floats, bools; and now and then one of its later calls is one that eager refuses."""
    return _Maker(Chooser(Seeded(random.Random(seed))), numbered=True).make(min(2, steps), min(steps, 8), 3)


@dataclass
class _Maker:
    """Runs what it writes in eager, for all calls: what eager refuses is not kept, but where errors are asked for.

    ``spaces``: of the calls that have not come to an error."""

    choose: Chooser
    errors: bool = False
    large: bool = False
    numbered: bool = False
    steady: bool = False  # do numbers change no layout?
    accident: bool = False
    unordered: bool = False
    refused: bool = False  # did eager refuse the last line that was tried?
    spaces: list[Space] = field(default_factory=list)

    def make(self, fewest: int, most: int, arguments: int) -> RandomProgram:
        c = self.choose
        self.steady = self.numbered and c.chance(65)
        exact = not c.chance(35)
        placements = self._placements(Arguments(c, exact, self.large), arguments)
        names: list[str] = list(NAMES[: len(placements[0].arguments)])
        self.spaces = [{"torch": torch, **dict(zip(names, one.make(), strict=True))} for one in placements]
        for space, one in zip(self.spaces, placements, strict=True):
            space.update(zip(NUMBERS, one.numbers, strict=False))
        lines, steps = Lines(c, self.spaces, names, exact, self.numbered), list[Step]()
        is_drawn = isinstance(c.choices, Drawn)
        count = most if is_drawn else c.number(fewest, most if not self.steady else min(most, 4))
        for _ in range(3 * count):
            if len(steps) == count:
                break
            if is_drawn and len(steps) >= fewest and not c.chance(90):  # one choice a line: that shrinks well
                break
            made = write_line(lines)
            if made is None:
                continue
            kind, text = made
            is_named = not _is_statement(text) or (_is_method(text) and c.chance(25))
            step = Step(text, f"t{len(steps)}" if is_named else None, kind)
            if self._runs(step):
                steps.append(step)
                lines.names += [step.name] if step.name else []
            elif self.errors and c.chance(30):
                steps.append(Step(text, None, kind))
                break
        return RandomProgram(placements, tuple(steps), self._outputs(lines), exact, self.accident, self.unordered)

    def _placements(self, maker: Arguments, most: int) -> tuple[Placement, ...]:
        """Of the calls, which share memory in different ways where there is more than one way."""
        looks: list[Look] = maker.looks(most)
        seed = self.choose.number(0, 99)
        first = maker.placement(looks, seed)
        second = maker.placement(looks, seed)
        for _ in range(3):
            if first.arguments != second.arguments:
                break
            second = maker.placement(looks, seed)
        if self.numbered:
            return with_numbers(self.choose, first, second, self.steady)
        if not self.choose.chance(30):
            return first, second
        numbers = self.choose.number(0, 3), self.choose.number(0, 3)
        return replace(first, numbers=numbers[:1]), replace(second, numbers=numbers[1:])

    def _runs(self, step: Step) -> bool:
        """Does eager take the line in all calls? One that its loop order decides is kept, mostly. Where numbers make
        eager refuse a line, the calls may end there."""
        before = self.accident
        saved = [_Saved.of(space) for space in self.spaces]
        refusing: list[Space] = []
        if (
            all(self._takes(step, space) or self._ends(space, refusing) for space in self.spaces)
            and (before or not self.accident or self.choose.chance(75))
            and not (self.steady and self._differs(step))
        ):
            self.spaces[:] = [space for space in self.spaces if all(space is not one for one in refusing)]
            return True
        self.accident = before
        for one in saved:
            one.restore()
        return False

    def _differs(self, step: Step) -> bool:
        """Has the line's value another layout in another call?"""
        found = [space.get(step.name or "") for space in self.spaces]
        return len({(t.shape, t.stride(), t.dtype) for t in found if isinstance(t, torch.Tensor)}) > 1

    def _ends(self, space: Space, refusing: list[Space]) -> bool:
        """May a call end where eager refuses the line? The first one goes on."""
        refusing.append(space)
        return self.numbered and self.refused and space is not self.spaces[0] and self.choose.chance(60)

    def _takes(self, step: Step, space: Space) -> bool:
        self.refused = False
        try:
            with torch.no_grad(), warnings.catch_warnings(action="ignore"), watched() as watch:
                exec(step.line, space)
        except REFUSED:
            self.refused = True
            return False
        self.accident = self.accident or bool(watch.accidents)
        self.unordered = self.unordered or bool(watch.unordered)
        if step.name is None:
            return True
        found = space[step.name]
        return isinstance(found, torch.Tensor) and found.numel() <= (MANY_ELEMENTS if self.large else MOST_ELEMENTS)

    def _outputs(self, lines: Lines) -> tuple[str, ...]:
        """The last results and some others: a value that nobody sees would be left out of the kernels."""
        c = self.choose
        out = [lines.tensor()[0] for _ in range(c.number(1, 2))]
        out += [name for name in lines.names[-4:] if name not in out and c.chance(60)]
        out += [c.pick(NUMBERS)] if self.numbered and c.chance(10) else []
        return (*out, "3") if c.chance(5) else tuple(out)


@dataclass
class _Saved:
    """A space as it was: a line that is not kept may have changed elements, metadata and names."""

    space: Space
    names: Space
    metadata: list[tuple[torch.Tensor, torch.Size, tuple[int, ...], Any]]
    memory: list[tuple[torch.Tensor, torch.Tensor]]

    @staticmethod
    def of(space: Space) -> _Saved:
        tensors = [t for t in space.values() if isinstance(t, torch.Tensor)]
        storages = {t.untyped_storage().data_ptr(): whole(t.untyped_storage(), torch.uint8) for t in tensors}
        metadata = [(t, t.shape, t.stride(), t.storage_offset()) for t in tensors]
        return _Saved(space, dict(space), metadata, [(now, now.clone()) for now in storages.values()])

    def restore(self) -> None:
        self.space.clear()
        self.space.update(self.names)
        for now, before in self.memory:
            now.copy_(before)
        for t, shape, strides, offset in self.metadata:
            if (t.shape, t.stride(), t.storage_offset()) != (shape, strides, offset):
                t.as_strided_(shape, strides, offset)


def _is_statement(text: str) -> bool:
    """Does the line have no value of its own (in-place ops and item assignments)?"""
    return text.split("(")[0].endswith("_") or "] = " in text or "] += " in text


def _is_method(text: str) -> bool:
    return text.split("(")[0].endswith("_") and not text.startswith("torch.")
