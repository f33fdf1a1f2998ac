"""States of random generators, and how what a function drew is put back."""

from __future__ import annotations

import copy
import itertools
import random
import sys
from collections.abc import Iterable
from typing import Any

import torch

from fusekit.trace.oracle import default_generators
from fusekit.trace.watcher import Edits
from fusekit.trace.writes import Writes

_PYTHON: random.Random = random.random.__self__  # type: ignore[attr-defined]  # what the module's functions draw from


def state_of(holder: Any) -> Any:
    """A generator's state as plain values; None where it is none, or has none (SystemRandom)."""
    if isinstance(holder, torch.Generator):
        return holder.get_state()
    if isinstance(holder, random.SystemRandom):
        return None
    if isinstance(holder, random.Random):
        return holder.getstate()
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(holder, numpy.random.Generator):
        return copy.deepcopy(holder.bit_generator.state)
    if isinstance(holder, numpy.random.BitGenerator):
        return copy.deepcopy(holder.state)
    return holder.get_state() if isinstance(holder, numpy.random.RandomState) else None


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, tuple) and hasattr(one[1], "tobytes"):  # NumPy's older form
        return all(map(_is_same, one, other))
    return bool((one == other).all()) if hasattr(one, "tobytes") else one == other


def _rewind(holder: Any, was: Any) -> None:
    if isinstance(holder, random.Random):
        holder.setstate(was)
    elif hasattr(holder, "set_state"):
        holder.set_state(was)
    else:
        getattr(holder, "bit_generator", holder).state = was


class RandomState:
    """One generator. Numbers that another thread drew are never drawn again: beside others the state is put back only
    where it is still what the function left."""

    def __init__(self, holder: Any, text: str, by_calls: bool = False):
        """``by_calls``: what no call of its methods tells is not looked for."""
        self.holder, self.text, self.by_calls = holder, text, by_calls
        self.was = None if by_calls else state_of(holder)

    def put_back(self, own: Writes) -> list[str]:
        states = own.edits(self.holder)
        if self.by_calls and not states:
            return []
        now, was = state_of(self.holder), states[0][0] if states else self.was
        if _is_same(now, was) or not (states or own.is_alone or self._may_draw(own)):
            return []
        is_chain = all(_is_same(one[1], next_one[0]) for one, next_one in itertools.pairwise(states))
        if own.is_alone or (states and is_chain and _is_same(states[-1][1], now)):
            _rewind(self.holder, was)
        return [self.text]

    def _may_draw(self, own: Writes) -> bool:
        if isinstance(
            self.holder, (random.Random, torch.Generator)
        ):  # their methods call the hook, if Python calls them
            return own.draws and own.hands_on
        is_default = self.holder is getattr(sys.modules["numpy"].random.rand, "__self__", None)
        return own.draws_of_numpy if is_default else own.draws


class Generators:
    """torch's generators, and those that Python and NumPy draw from by default."""

    def __init__(self, generators: Iterable[torch.Generator], with_numpy: bool, by_calls: bool):
        self._all = [RandomState(_PYTHON, "Python's random state", by_calls)]
        if with_numpy and "numpy" in sys.modules:
            self._all.append(RandomState(sys.modules["numpy"].random.rand.__self__, "NumPy's random state"))
        self._all += [RandomState(g, "a generator's state") for g in (*default_generators(), *generators)]

    def edits(self) -> list[Edits]:
        """What the hook has to watch."""
        return [Edits(one.holder, state_of) for one in self._all]

    def put_back(self, own: Writes) -> list[str]:
        return [text for one in self._all for text in one.put_back(own)]
