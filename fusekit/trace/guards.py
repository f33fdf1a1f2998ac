"""The key of a call: everything that decides which recording stands for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from fusekit.trace.alive import identity, release
from fusekit.trace.ambient import ambient
from fusekit.trace.blocks import is_absolute
from fusekit.trace.entries import SIMPLE, Entry, Snapshot, exact, exactly
from fusekit.trace.numbers import pattern_of
from fusekit.trace.recording import Capture, Recording, Sourced, tensors_of
from fusekit.trace.spans import Span, meeting

_CONTAINERS = (list, tuple, dict)
_MOST_PLACES = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Looked:
    """One call as a key sees it. ``key`` is hashable and keeps no object alive; ``read`` has what is at the key's
    entries now, by ``Entry.identity``."""

    key: tuple[Any, ...]
    leaves: Sequence[Any]
    read: Mapping[tuple[Any, ...], Any]

    @property
    def without_numbers(self) -> tuple[Any, ...]:
        """The key with numbers among the arguments known by type only: calls that one Script may stand for."""
        spec, rest, *more = self.key
        steady = tuple([(k, t[0]) if type(self.leaves[k]) in (int, float) else (k, t) for k, t in rest])
        return (spec, steady, *more)

    def inputs(self, recording: Sourced) -> list[torch.Tensor]:
        """The tensors of this call for the results of ``^in``, in order."""
        return tensors_of(recording.inputs, self.leaves, lambda entry: self.read[entry.identity])


class Key:
    """What the recordings of one function have taught: which places to read, and whether storages matter as such.

    Learning makes earlier keys stale, never wrong: a call that meets a stale key is recorded once more.
    """

    def __init__(self) -> None:
        self.tensors: list[Entry] = []  # places of tensors: captures, and second names of whatever took part
        self.values: list[Entry] = []  # places of Python values
        self.is_exact = False
        self._known: set[tuple[Any, ...]] = set()
        self._age = 0  # how often it forgot: keys of another age are stale

    def learn(self, recording: Recording) -> None:
        """Take over a recording's captures, watched places and guards."""
        self.is_exact |= recording.is_exact
        if len(self._known) > _MOST_PLACES + 4 * len(recording.guards):  # objects that were replaced, again and again
            self.tensors, self.values, self._known, self._age = [], [], set(), self._age + 1
        captures = [source.entry for source in recording.inputs if isinstance(source, Capture)]
        self._forget_the_dead()
        for entries, into in (((*captures, *recording.watched), self.tensors), (recording.guards, self.values)):
            for entry in entries:
                if entry.identity not in self._known:
                    into.append(entry)  # first: a fork may come between, and what is known must be read
                    self._known.add(entry.identity)

    def _forget_the_dead(self) -> None:
        """Places of objects that are gone: nothing can be read there any more."""
        release()
        kept = [[entry for entry in entries if entry.at() is not None] for entries in (self.tensors, self.values)]
        if sum(map(len, kept)) < len(self.tensors) + len(self.values):
            self.tensors, self.values = kept
            self._known = {entry.identity for entries in kept for entry in entries}
            self._age += 1

    def look(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Looked:
        """The key of this call, now."""
        leaves, spec = flatten(args, kwargs)
        captured = [entry.read() for entry in self.tensors]
        values = [entry.read() for entry in self.values]
        rest = [(k, leaf) for k, leaf in enumerate(leaves) if not isinstance(leaf, torch.Tensor)]
        tensors = [leaf for leaf in (*leaves, *captured) if isinstance(leaf, torch.Tensor)]
        key = (
            spec,
            tuple([(k, token(leaf)) for k, leaf in rest]),
            tuple([token(t) for t in captured if not isinstance(t, torch.Tensor)]),
            tuple([isinstance(t, torch.Tensor) for t in captured]),
            tuple([layout_of(t, self.is_exact) for t in tensors]),
            meeting([Span.of_storage(t) if self.is_exact else Span.of(t) for t in tensors]),
            _storages(tensors) if self.is_exact else (),
            tuple([v if type(v) in _PLAIN else token(v) for v in values]),
            ambient(),
            self._age,
        )
        places = {entry.identity: t for entry, t in zip(self.tensors, captured, strict=True)}
        return Looked(key, leaves, places)


def _storages(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Which tensors share a storage object: one without a byte may still be resized."""
    numbers: dict[int, int] = {}
    return tuple([numbers.setdefault(t.untyped_storage()._cdata, len(numbers)) for t in tensors])


def flatten(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Any]:
    """(leaves, a hashable structure); a call with plain positional arguments only is its own leaves."""
    if kwargs or any(isinstance(a, _CONTAINERS) or type(a) not in _LEAVES for a in args):
        return tree_flatten((tuple(args), dict(kwargs)))
    return args, len(args)


_PLAIN = frozenset((bool, str, type(None)))
_LEAVES = frozenset((torch.Tensor, torch.nn.Parameter, *SIMPLE))


def layout_of(t: torch.Tensor, is_exact: bool = False) -> tuple[Any, ...]:
    """Class, layout, dtype, device, dispatch keys (lazy bits, inference, ...) and autograd state of a tensor."""
    wants_grad = t.requires_grad
    state = wants_grad and (t.is_leaf, torch.is_grad_enabled())
    keys = torch._C._dispatch_keys(t).raw_repr()
    if t.layout != torch.strided or t.is_nested:  # the recorder refuses it by name
        return type(t), t.dtype, t.device, keys, state
    found = (type(t), t.shape, t.stride(), t.dtype, t.device, keys, state)
    return (*found, t.storage_offset(), t.untyped_storage().nbytes()) if is_exact else found


def token(value: Any) -> Any:
    """Simple values by type and bits, anything else by identity."""
    kind = type(value)
    if kind is bool or kind is str or value is None or kind is Snapshot:
        return value
    if kind is int:
        return kind, value
    if isinstance(value, SIMPLE):
        return exactly(value)
    return identity(value)


def is_as_recorded(entry: Entry) -> bool:
    """Is at a guarded place what was there when the function was recorded?"""
    return exact(entry.read()) == entry.mark


def same_pattern(recording: Recording, inputs: Sequence[torch.Tensor]) -> str | None:
    """How these tensors for ``^in`` differ from the recorded ones in layout or overlap; None where they do not."""
    program = recording.program
    for (number, name, _), t in zip(program.inputs, inputs, strict=True):
        place = program.first[number]
        want = f"{place.dtype} {list(place.sizes)} with strides {list(place.strides)} on {place.device}"
        got = f"{t.dtype} {list(t.shape)} with strides {list(t.stride())} on {t.device}"
        if want != got:
            return f"{name} is {got}, explored was {want}"
        if recording.is_exact and place.offset != t.storage_offset():
            return f"{name} starts at element {t.storage_offset()} of its storage, explored was {place.offset}"
    span = Span.of_storage if is_absolute(program) else Span.of
    if meeting([span(t) for t in inputs]) != pattern_of(program):
        return "their memory overlaps in another way"
    return None
