"""Numbers without a recording: the function's Python runs again, and every torch call is only compared with the script.

What comes out is the vector of numbers of ``signature``, at the price of the function's Python, not of fakes: the very
vector that a recording of this call would have, or None. For the calls that the function makes now are the recorded
ones (the same torch functions in the same order, on the same tensors, with equal arguments but for free numbers), and
each of them makes the recorded ATen calls with just its free numbers exchanged (``handed``). In the vector, a slot has
what its free numbers are, and they must all agree; the slot of a site that no free number has, like ``a[m, m]``, keeps
its recorded value, whatever other sites share it. Slots that the signature keeps apart, since their values differed,
must still differ (``_checked``). What the function learns from its tensors is the same as well: their layouts
are, and a function that asks where they begin is recorded exactly, and has no script (``tells_place``).
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from fusekit.errors import UnsupportedError
from fusekit.memory import goes_at_once
from fusekit.trace.ambient import Ambience
from fusekit.trace.border import Border
from fusekit.trace.entries import exactly
from fusekit.trace.handed import Path, handed_on, largest
from fusekit.trace.interrupts import Held
from fusekit.trace.nested import is_stand_in, mapped
from fusekit.trace.numbers import Scalar, Slots, differing, is_same, slots_of
from fusekit.trace.private import TensorClass
from fusekit.trace.program import Place
from fusekit.trace.reach import SIMPLE, Reach
from fusekit.trace.recording import Argument, Capture, Recording
from fusekit.trace.results import take_apart
from fusekit.trace.sites import WORD, sites_by_call
from fusekit.trace.swap import ScriptMode, TorchCall
from fusekit.trace.watcher import Watcher, resuming

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
        self._sites = sites_by_call(recording.program)
        self.rows = self._rows()
        covered = {number for call in recording.script for number in range(*call.calls)}
        # an exact program may be legal for some offsets only; a call that no torch function made cannot be compared
        self.is_usable = not recording.is_exact and covered.issuperset(k for k, s in enumerate(self._sites) if s)

    def numbers(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Scalar, ...] | None:
        """The numbers of this call, whose key differs from the recorded one in numbers only; None where the function
        runs differently with them, and must be recorded. Touches nothing, like a recording."""
        if not self.is_usable:
            return None
        with Held(_Shadow._answer.__code__) as held, Border() as border:
            found = self._numbers(fn, args, kwargs, held, border)
            return None if held.has_raised else found

    def _numbers(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], held: Held, border: Border
    ) -> tuple[Scalar, ...] | None:
        reach = Reach(fn, [tuple(args), dict(kwargs)])
        watcher = Watcher()
        reach.contents.watch_generators(reach.generators, quickly=True, numpy=reach.meets_numpy)
        reach.contents.begin(watcher)
        mode = _Shadow(self.rows, *self._tensors(args, kwargs), watcher, held, border)
        out, failed = None, None
        resume, argument = resuming(sys.getprofile())
        with mode:
            ambience, held.caller = Ambience(), sys._getframe()
            sys.setprofile(watcher)
            try:
                out = fn(*args, **kwargs)
            except BaseException as error:  # a recording raises it properly
                failed = error
            held.caller = None
            resume(argument)
            ambience.put_back(watcher.settings, is_whole=failed is not None)
        changes = reach.contents.put_back(watcher, functools.partial(is_stand_in, stand_ins=border.stand_ins))
        watcher.edits.clear()
        if failed is not None and not isinstance(failed, (_Diverged, Exception)):
            raise failed
        is_same = failed is None and not changes and mode.at == len(self.rows) and self._has_read(watcher)
        is_same = is_same and self._has_outputs(out, (args, kwargs), mode, reach)
        del out, failed
        mode.objects.clear()
        is_same = not border.close() and is_same
        return self._checked(mode.found) if is_same else None

    def _has_read(self, watcher: Watcher) -> bool:
        """Did only code run whose reads the recording's guards know, and nothing that no recording may stand for?"""
        if watcher.unrepeatable or watcher.reseeded or (watcher.is_wide and not self.recording.is_wide):
            return False
        return watcher.codes.keys() <= self.recording.codes | _OWN

    def _rows(self) -> tuple[_Row, ...]:
        """The calls of the script; a number is free if one site takes it and every site of its slot has a free one."""
        now: dict[int, Place] = dict(self.recording.program.first)
        rows: list[_Row] = []
        taken: set[tuple[int, str]] = set()
        for call in self.recording.script:
            row, sites = self._row(call, now)
            rows.append(row)
            taken |= sites
            for one in self.recording.calls[slice(*call.calls)]:
                now.update(zip(one.results, one.places, strict=True))
        fixed = self._fixed(taken)
        return tuple(
            replace(row, free=tuple(None if free is None or free[0] in fixed else free for free in row.free))
            for row in rows
        )

    def _fixed(self, taken: Collection[tuple[int, str]]) -> set[int]:
        """Slots that keep their values: of sites that no number is handed on to; and of all offsets, where a foreach
        call was recorded one by one since its tensors did not meet, on a device that goes through them at once."""
        fixed = {slot for site, slot in self.slots.of.items() if site not in taken}
        at_once = any(goes_at_once(str(place.device)) for place in self.recording.program.first.values())
        if at_once and any("_foreach_" in getattr(row.function, "__name__", "") for row in self.recording.script):
            offsets = [(k, site) for k, sites in enumerate(self._sites) for site in sites if site.extent is not None]
            fixed.update(self.slots.of[k, site.argument] for k, site in offsets)
        return fixed

    def _row(self, call: TorchCall, now: Mapping[int, Place]) -> tuple[_Row, set[tuple[int, str]]]:
        """(a row, the sites that its numbers are handed on to)."""
        key: list[Any] = []
        numbers: list[Scalar] = []
        paths: list[Path] = []
        _walk((call.args, call.kwargs), id, key, numbers, paths)
        calls = self.recording.calls[slice(*call.calls)]
        made = list(zip(calls, self._sites[slice(*call.calls)], strict=True))
        found = handed_on(call, dict(zip(paths, numbers, strict=True)), made, now)
        most = largest(calls)
        free: list[_Free | None] = [None] * len(numbers)
        taken: set[tuple[int, str]] = set()
        for path, (k, site) in found.items():
            where = (call.calls[0] + k, site.argument)
            taken.add(where)
            free[paths.index(path)] = (self.slots.of[where], site.extent, most)
        return _Row(call.function, tuple(key), tuple(numbers), tuple(free), call.result), taken

    def _tensors(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[int, int], dict[int, Any]]:
        """(id of a tensor that the function holds -> that of its fake, id of a fake -> what the function holds)."""
        leaves = tree_leaves((tuple(args), dict(kwargs)))
        tokens: dict[int, int] = {}
        objects: dict[int, Any] = {}
        # inputs and fakes were both written down in the order of first use
        for source, fake in zip(self.recording.inputs, self.recording.fakes, strict=False):
            now: Any = None
            if isinstance(source, Argument):
                now = leaves[source.leaf]
            elif isinstance(source, Capture):
                now = source.entry.read()
            tokens[id(now)], objects[id(fake)] = id(fake), now
        return tokens, objects

    def _has_outputs(
        self, out: Any, call: tuple[Sequence[Any], Mapping[str, Any]], mode: _Shadow, reach: Reach
    ) -> bool:
        """Does the function return what it returned when it was recorded?"""
        try:
            leaves, spec = take_apart(out, call, mode.border.is_fresh, reach.knows)
        except UnsupportedError:
            return False
        if spec != self.recording.out_spec:
            return False
        for leaf, output, fake in zip(leaves, self.recording.outputs, self.recording.out_fakes, strict=True):
            if output.operand is None and _token(leaf) != _token(output.value):
                return False
            if output.operand is not None and leaf is not mode.objects.get(id(fake), fake):
                return False
        return True

    def _checked(self, found: Mapping[int, Scalar]) -> tuple[Scalar, ...] | None:
        """The vector, if view offsets that the signature keeps apart are still apart."""
        values = list(self.slots.values)
        for slot, value in found.items():
            values[slot] = value
        kept: dict[tuple[int, Scalar], int] = {}
        for number, sites in enumerate(self._sites):
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

    def __init__(
        self,
        rows: Sequence[_Row],
        tokens: dict[int, int],
        objects: dict[int, Any],
        hook: Watcher,
        held: Held,
        border: Border,
    ):
        self.rows, self.tokens, self.objects = rows, tokens, objects
        self.hook, self.held, self.border = hook, held, border
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
            result = self._answer(func, args, kwargs)
            self.held.deliver()
            return result
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
        return mapped(row.result, self._held)

    def _held(self, t: torch.Tensor) -> torch.Tensor:
        """What the function holds for a tensor of the script."""
        if id(t) not in self.objects and isinstance(t, FakeTensor):
            self.objects[id(t)] = made = self.border.stand_in(t)
            self.tokens[id(made)] = id(t)
        return self.objects.get(id(t), t)

    def _take(self, value: Scalar, recorded: Scalar, free: _Free | None) -> None:
        if free is None:
            if not is_same(value, recorded):
                raise _Diverged
            return
        slot, extent, most = free
        if not _is_taken(value, extent, most):
            raise _Diverged
        if extent is not None:
            value %= extent
        if not is_same(self.found.setdefault(slot, value), value):
            raise _Diverged


def _is_taken(value: Scalar, extent: int | None, most: float) -> bool:
    """Does eager take another value here as it took the recorded one?"""
    if extent is not None:
        return -extent <= value < extent
    return not (most < abs(value) < math.inf) and (type(value) is float or -WORD <= value < WORD)


_OWN = frozenset((_Shadow.__torch_function__.__code__,))


def _walk(
    value: Any,
    token: Callable[[torch.Tensor], int],
    key: list[Any],
    numbers: list[Scalar],
    paths: list[Path] | None = None,
    path: Path = (),
) -> None:
    """The structure of call arguments into ``key``, their numbers into ``numbers``, and where they stand."""
    kind = type(value)
    if isinstance(value, torch.Tensor):
        key.append(("tensor", token(value)))
    elif kind is int or kind is float:
        key.append(kind)
        numbers.append(value)
        if paths is not None:
            paths.append(path)
    elif kind is slice:
        if type(value.start) is int and type(value.stop) is int and 0 <= value.start <= value.stop:
            key.append(("slice", value.stop - value.start, value.step))  # a window that may move
            numbers.append(value.start)
            if paths is not None:
                paths.append((*path, "start"))
        else:
            key.append(("slice", value.start, value.stop, value.step))
    elif isinstance(value, (tuple, list)):
        key.append((kind, len(value)))
        for k, item in enumerate(value):
            _walk(item, token, key, numbers, paths, path if paths is None else (*path, k))
    elif isinstance(value, dict):
        key.append((kind, tuple(value)))
        for name, item in value.items():
            _walk(item, token, key, numbers, paths, path if paths is None else (*path, name))
    else:
        key.append(_token(value))


def _token(value: Any) -> Any:
    return exactly(value) if isinstance(value, SIMPLE) else (type(value), id(value))
