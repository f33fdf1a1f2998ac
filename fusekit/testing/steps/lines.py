"""What a random line is written with: the tensors that are there, and which of them fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from fusekit.testing.choices import Chooser

Space = dict[str, object]


@dataclass
class Lines:
    """Writes lines over the tensors in ``spaces``, one space a call; what they look like is the same in all."""

    choose: Chooser
    spaces: Sequence[Space]
    names: list[str] = field(default_factory=list)
    exact: bool = True
    numbered: bool = False  # are most lines about the numbers among the arguments?

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

    def source(self, t: torch.Tensor) -> str | None:
        """A partner to be written over ``t``; a clone of it where eager's loop order might decide."""
        name = self.partner(t)
        if name in self.names and self.choose.chance(20) and self._shares(self.get(name), t):
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
