"""Where a random program comes from: the numbers of a seed, or numbers that hypothesis draws (and then shrinks)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from hypothesis import strategies as st

T = TypeVar("T")


class Choices(Protocol):
    """Whole numbers, low ends tried first by whoever shrinks."""

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
        from hypothesis import strategies as st

        return self.draw(st.integers(low, high))


@dataclass
class Chooser:
    """What can be chosen with whole numbers."""

    choices: Choices

    def number(self, low: int, high: int) -> int:
        return self.choices.integer(low, high)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent
