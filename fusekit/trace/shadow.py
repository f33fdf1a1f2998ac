"""Numbers without a recording: the function's Python runs again, and every torch call is only compared with the script.

A call that hands its numbers on to ATen unread may have other numbers; anything else must be as recorded. What comes
out is the vector of numbers of ``signature``, at the price of the function's Python, not of fakes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from fusekit.trace.effects import Watcher
from fusekit.trace.nested import flat_outputs, mapped
from fusekit.trace.numbers import Scalar, Slots, differing, exactly, is_same, slots_of
from fusekit.trace.private import TensorClass
from fusekit.trace.program import Call, Place
from fusekit.trace.reach import SIMPLE, Reach
from fusekit.trace.recording import Argument, Capture, Recording
from fusekit.trace.schema import base_name
from fusekit.trace.sites import Site, sites_of
from fusekit.trace.swap import ScriptMode, TorchCall

# Bindings that pass numbers on unread; Python functions and composites may branch on them.
_BINDINGS = ("method_descriptor", "builtin_function_or_method", "wrapper_descriptor", "OpOverload", "OpOverloadPacket")
_INDEXING = (TensorClass.__getitem__, TensorClass.__setitem__)
_SPELLED = {"truediv": "div", "itruediv": "div", "iadd": "add", "isub": "sub", "imul": "mul", "rtruediv": "div"}
# Ops that take any number: eager checks no range and no order among these, whatever their values.
_TAKE_ANY = frozenset((
    "add", "sub", "rsub", "mul", "div", "remainder", "fmod", "addcmul", "addcdiv", "lerp", "clamp", "clamp_min",
    "clamp_max", "fill", "masked_fill", "where", "eq", "ne", "lt", "le", "gt", "ge", "addmm", "addmv", "addr",
    "baddbmm", "select", "slice", "unsqueeze", "copy",
))  # fmt: skip
_WORD = 1 << 63  # what a kernel takes as an integer
_Free = tuple[int, int | None, float]  # a slot, the extent of a view's offset, the largest finite value


class _Diverged(BaseException):
    """This call does not run as recorded. Not an Exception: the function's own handlers must not see it."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One torch call: what must be equal, its numbers, and for each of them what it is free for."""

    function: Callable[..., Any]
    key: tuple[Any, ...]
    numbers: tuple[Scalar, ...]
    free: tuple[_Free | None, ...]
    result: Any


class Script:
    """A recording as a list of torch calls with their answers."""

    def __init__(self, recording: Recording):
        self.recording = recording
        self.slots: Slots = slots_of(recording.program)
        self._sites = _sites_by_call(recording)
        self.rows = tuple(self._row(call) for call in recording.script)
        covered = {number for call in recording.script for number in range(*call.calls)}
        # an exact program may be legal for some offsets only; a call that no torch function made cannot be compared
        self.is_usable = not recording.is_exact and covered.issuperset(k for k, s in self._sites.items() if s)

    def numbers(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Scalar, ...] | None:
        """The numbers of this call, whose key differs from the recorded one in numbers only; None where the function
        runs differently with them, and must be recorded. Touches nothing, like a recording."""
        if not self.is_usable:
            return None
        reach = Reach(fn, [tuple(args), dict(kwargs)])
        watcher = Watcher()
        mode = _Shadow(self.rows, *self._tensors(args, kwargs), watcher)
        out, is_same, before = None, False, sys.getprofile()
        try:
            with mode:
                sys.setprofile(watcher)
                try:
                    out = fn(*args, **kwargs)
                finally:
                    sys.setprofile(before)
            is_same = mode.at == len(self.rows) and self._has_outputs(out, mode.objects) and self._has_read(watcher)
        except (_Diverged, Exception):  # a recording raises it properly
            is_same = False
        finally:
            is_same = not reach.contents.put_back() and is_same
        return self._checked(mode.found) if is_same else None

    def _has_read(self, watcher: Watcher) -> bool:
        """Did only code run whose reads the recording's guards know, and nothing that no recording may stand for?"""
        if watcher.unrepeatable or watcher.reseeded or (watcher.is_wide and not self.recording.is_wide):
            return False
        return watcher.codes <= self.recording.codes | _OWN

    def _row(self, call: TorchCall) -> _Row:
        key: list[Any] = []
        numbers: list[Scalar] = []
        _walk((call.args, call.kwargs), id, key, numbers)
        free = self._free(call, numbers)
        return _Row(call.function, tuple(key), tuple(numbers), tuple(free), call.result)

    def _free(self, call: TorchCall, numbers: Sequence[Scalar]) -> list[_Free | None]:
        """Which numbers may differ: those that are the value of one site and can be no other's."""
        free: list[_Free | None] = [None] * len(numbers)
        calls = [self.recording.calls[k] for k in range(*call.calls)]
        if not _hands_on(call.function, calls):
            return free
        most = min((torch.finfo(place.dtype).max for made in calls for place in made.places), default=math.inf)
        for number in range(*call.calls):
            for site in self._sites[number]:
                places = [k for k, value in enumerate(numbers) if _may_be(site, value)]
                if len(places) == 1 and free[places[0]] is None:
                    free[places[0]] = (self.slots.of[number, site.argument], site.extent, most)
        return free

    def _tensors(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[int, int], dict[int, Any]]:
        """(id of a tensor that the function holds -> that of its fake, id of a fake -> what the function holds)."""
        leaves = tree_leaves((tuple(args), dict(kwargs)))
        held = self.recording.handles.values()
        tokens: dict[int, int] = {id(handle): id(fake) for handle, fake in held}
        objects: dict[int, Any] = {id(fake): handle for handle, fake in held}
        # inputs and fakes were both written down in the order of first use
        for source, fake in zip(self.recording.inputs, self.recording.fakes, strict=False):
            now: Any = None
            if isinstance(source, Argument):
                now = leaves[source.leaf]
            elif isinstance(source, Capture):
                now = source.entry.read()
            tokens[id(now)], objects[id(fake)] = id(fake), now
        return tokens, objects

    def _has_outputs(self, out: Any, objects: Mapping[int, Any]) -> bool:
        """Does the function return what it returned when it was recorded?"""
        leaves, spec = flat_outputs(out)
        if spec != self.recording.out_spec:
            return False
        for leaf, output, fake in zip(leaves, self.recording.outputs, self.recording.out_fakes, strict=True):
            if output.operand is None and _token(leaf) != _token(output.value):
                return False
            if output.operand is not None and leaf is not objects.get(id(fake), fake):
                return False
        return True

    def _checked(self, found: Mapping[int, Scalar]) -> tuple[Scalar, ...] | None:
        """The vector, if view offsets that the signature keeps apart are still apart."""
        values = list(self.slots.values)
        for slot, value in found.items():
            values[slot] = value
        kept: dict[tuple[int, Scalar], int] = {}
        for number, sites in self._sites.items():
            for site in sites:
                slot = self.slots.of[number, site.argument]
                if site.extent is not None and kept.setdefault((site.extent, values[slot]), slot) != slot:
                    return None
        return tuple(values)


def parameters_of(
    recording: Recording, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Scalar, ...] | None:
    """The parameters of the recording's graph for this call; None where other numbers than these differ, too."""
    found = Script(recording).numbers(fn, args, kwargs)
    if found is None or set(differing(slots_of(recording.program).values, found)) - set(recording.parameters):
        return None
    return tuple(found[slot] for slot in recording.parameters)


class _Shadow(ScriptMode):
    """Answers each torch call from the script, or raises where it is another call."""

    def __init__(self, rows: Sequence[_Row], tokens: dict[int, int], objects: dict[int, Any], hook: Callable[..., Any]):
        self.rows, self.tokens, self.objects, self.hook = rows, tokens, objects, hook
        self.at = 0
        self.found: dict[int, Scalar] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        sys.setprofile(None)
        try:
            return self._answer(func, args, kwargs)
        finally:
            sys.setprofile(self.hook)

    def _answer(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> Any:
        if func == TensorClass.grad.__get__ and id(args[0]) in self.tokens:  # read, not called: it has no row
            return args[0].grad
        if self.at >= len(self.rows):
            raise _Diverged
        row = self.rows[self.at]
        self.at += 1
        key: list[Any] = []
        numbers: list[Scalar] = []
        _walk((tuple(args), dict(kwargs or {})), lambda t: self.tokens.get(id(t), id(t)), key, numbers)
        if func != row.function or tuple(key) != row.key:
            raise _Diverged
        for value, recorded, free in zip(numbers, row.numbers, row.free, strict=True):
            self._take(value, recorded, free)
        return mapped(row.result, lambda t: self.objects.get(id(t), t))

    def _take(self, value: Scalar, recorded: Scalar, free: _Free | None) -> None:
        if free is None:
            if not is_same(value, recorded):
                raise _Diverged
            return
        slot, extent, most = free
        if (type(value) is int and not -_WORD <= value < _WORD) or most < abs(value) < math.inf:
            raise _Diverged
        if extent is not None:
            if not -extent <= value < extent:
                raise _Diverged
            value %= extent
        if not is_same(self.found.setdefault(slot, value), value):
            raise _Diverged


_OWN = frozenset((_Shadow.__torch_function__.__code__,))


def _walk(value: Any, token: Callable[[torch.Tensor], int], key: list[Any], numbers: list[Scalar]) -> None:
    """The structure of call arguments into ``key``, their numbers into ``numbers``."""
    kind = type(value)
    if isinstance(value, torch.Tensor):
        key.append(("tensor", token(value)))
    elif kind is int or kind is float:
        key.append(kind)
        numbers.append(value)
    elif kind is slice:
        if type(value.start) is int and type(value.stop) is int and 0 <= value.start <= value.stop:
            key.append(("slice", value.stop - value.start, value.step))  # a window that may move
            numbers.append(value.start)
        else:
            key.append(("slice", value.start, value.stop, value.step))
    elif isinstance(value, (tuple, list)):
        key.append((kind, len(value)))
        for item in value:
            _walk(item, token, key, numbers)
    elif isinstance(value, dict):
        key.append((kind, tuple(value)))
        for item in value.values():
            _walk(item, token, key, numbers)
    else:
        key.append(_token(value))


def _token(value: Any) -> Any:
    return exactly(value) if isinstance(value, SIMPLE) else (type(value), id(value))


def _sites_by_call(recording: Recording) -> dict[int, tuple[Site, ...]]:
    now: dict[int, Place] = dict(recording.program.first)
    found = {}
    for number, call in enumerate(recording.calls):
        found[number] = sites_of(call, now)
        now.update(zip(call.results, call.places, strict=True))
    return found


def _hands_on(function: Callable[..., Any], calls: Sequence[Call]) -> bool:
    """Does the torch function hand its numbers on unread, so that other numbers cannot change what it calls, nor make
    it raise? Integer tensors are left out: eager refuses numbers that they cannot hold."""
    if not all(place.dtype.is_floating_point or place.dtype.is_complex for call in calls for place in call.places):
        return False
    if not {base_name(call.target).strip("_") for call in calls} <= _TAKE_ANY:
        return False
    if function in _INDEXING:
        names = {base_name(call.target) for call in calls}
        return names <= {"select", "slice", "unsqueeze", "copy_", "fill_"}
    if type(function).__name__ not in _BINDINGS or len(calls) != 1:
        return False
    called = getattr(function, "__name__", "").strip("_")
    return base_name(calls[0].target).strip("_") == _SPELLED.get(called, called)


def _may_be(site: Site, value: Scalar) -> bool:
    """May this number of the torch call be the site's? An index may have been negative."""
    if site.extent is None:
        return exactly(value) == exactly(site.value)
    return type(value) is int and value % max(site.extent, 1) == site.value
