"""Python effects of the recorded function: noticed, put back, and named.

What changed while no other thread ran is the function's doing, and is put back as it was. Beside other threads only
what the function itself can have written is (``Writes``), item by item, and only where nobody has written since.
"""

from __future__ import annotations

import array
import collections
import copy
import itertools
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import torch

from fusekit.trace.private import C
from fusekit.trace.randomness import Generators, RandomState, state_of
from fusekit.trace.watcher import Edits, Watcher
from fusekit.trace.writes import Others, Writes

_NOTHING: Any = object()


class _Watched(Protocol):
    def put_back(self, own: Writes) -> list[str]:
        """Undo what the function did, and say what it was; done again, it finds nothing to do."""
        ...


class Contents:
    """What a function can reach, as it is now: containers, names, arrays, generators, caches."""

    def __init__(self) -> None:
        self._others = Others()
        self._watched: list[_Watched] = []
        self._edited: list[Edits] = []

    def watch(self, holder: list | dict | set | collections.deque, path: str) -> None:
        self._watched.append(_Dict(holder, path) if isinstance(holder, dict) else _Items(holder, path))
        self._edited.append(Edits(holder, _copied))

    def watch_attributes(self, holder: dict[str, Any], path: str) -> None:
        self._watched.append(_Dict(holder, path, by_name=True))
        self._edited.append(Edits(holder, _copied))

    def watch_cell(self, cell: types.CellType, name: str) -> None:
        self._watched.append(_Cell(cell, name))

    def watch_globals(self, holder: dict[str, Any], names: Iterable[str]) -> None:
        self._watched.append(_Globals(holder, names))

    def watch_slot(self, holder: Any, name: str, path: str) -> None:
        self._watched.append(_Slot(holder, name, path))

    def watch_names(self, holder: type | types.ModuleType, path: str) -> None:
        self._watched.append(_Names(holder, path))

    def watch_buffer(self, holder: Any, path: str) -> None:
        self._watched.append(_Buffer(holder, path))

    def watch_random(self, holder: Any, path: str) -> None:
        """Python's and NumPy's generators; anything else is left alone."""
        if state_of(holder) is not None:
            self._watched.append(RandomState(holder, f"{path}: its random state"))
            self._edited.append(Edits(holder, state_of))

    def watch_cache(self, holder: Any, path: str) -> None:
        self._watched.append(_Cache(holder, path))

    def watch_generators(
        self, generators: Iterable[torch.Generator], quickly: bool = False, numpy: bool = True
    ) -> None:
        """torch's, and the ones that Python and NumPy draw from by default. Their states take longer to read than all
        the rest: ``quickly`` leaves Python's to the hook."""
        found = Generators(generators, numpy, quickly)
        self._watched.append(found)
        self._edited += found.edits()

    def begin(self, watcher: Watcher) -> None:
        """The function runs from here on, and the watcher sees what it calls."""
        watcher.edits.update((id(edits.holder), edits) for edits in self._edited)

    def put_back(self, watcher: Watcher, is_stand_in: Callable[[Any], bool]) -> list[str]:
        """Restores what the function changed, and says what it was."""
        own = Writes(watcher, self._others, is_stand_in)
        return [text for watched in self._watched for text in watched.put_back(own)]


def _copied(holder: Any) -> Any:
    return dict(holder) if isinstance(holder, dict) else set(holder) if isinstance(holder, set) else list(holder)


def _is_same(one: Any, other: Any) -> bool:
    """Do two copies of a container hold the same objects, in the same order where they have one?"""
    if isinstance(one, dict):
        return len(one) == len(other) and all(other.get(key, _NOTHING) is value for key, value in one.items())
    if isinstance(one, set):
        return one == other
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


class _Dict:
    """A dict, key by key; ``by_name``: of attributes, whose keys are names in the code that writes them."""

    def __init__(self, holder: dict[Any, Any], path: str, by_name: bool = False):
        self.holder, self.path, self.by_name, self.was = holder, path, by_name, dict(holder)

    def put_back(self, own: Writes) -> list[str]:
        holder, was, now = self.holder, self.was, dict(self.holder)
        if _is_same(was, now):
            return []
        changed = [k for k in {**was, **now} if now.get(k, _NOTHING) is not was.get(k, _NOTHING)]
        if own.is_alone:
            mine, doubtful = changed, []
            holder.clear()
            holder.update(was)  # in the order of before
        else:
            by_call = _edited_keys(own.edits(holder))
            mine = [k for k in changed if k in by_call or self._is_mine(k, now.get(k), own)]
            doubtful = [k for k in changed if k not in mine and not self.by_name and own.items]
            for key in mine:
                before, after = by_call.get(key, (was.get(key, _NOTHING), now.get(key, _NOTHING)))
                if holder.get(key, _NOTHING) is after:
                    _assign(holder, key, before)
        named = [repr(k) if isinstance(k, str) else type(k).__name__ for k in (*mine, *doubtful)]
        return [f"{self.path}: {', '.join(named[:4])} changed{_by(mine)}"] if named else []

    def _is_mine(self, key: Any, value: Any, own: Writes) -> bool:
        if own.is_stand_in(value):
            return True
        return isinstance(key, str) and (own.name(key) or (not self.by_name and own.items and own.mentions(key)))


def _edited_keys(states: Sequence[tuple[Any, Any]]) -> dict[Any, tuple[Any, Any]]:
    """Keys that calls of a dict's methods changed in sum, each with its value before the first and after the last."""
    found: dict[Any, tuple[Any, Any]] = {}
    for before, after in states:
        for key in {**before, **after}:
            old, new = before.get(key, _NOTHING), after.get(key, _NOTHING)
            if old is not new:
                found[key] = (found[key][0] if key in found else old, new)
    return {key: pair for key, pair in found.items() if pair[0] is not pair[1]}


def _by(mine: Sequence[Any]) -> str:
    return "" if mine else " (by another thread, or by it)"


class _Items:
    """A list, a deque or a set."""

    def __init__(self, holder: Any, path: str):
        self.holder, self.path, self.was = holder, path, _copied(holder)

    def put_back(self, own: Writes) -> list[str]:
        holder, states, now = self.holder, own.edits(self.holder), _copied(self.holder)
        if _is_same(self.was, now):
            return []
        text = f"{self.path}: the {type(holder).__name__} changed"
        if own.is_alone:
            _fill(holder, self.was)
            return [text]
        if states and _is_same(states[-1][1], now) and all(_is_same(a[1], b[0]) for a, b in itertools.pairwise(states)):
            _fill(holder, states[0][0])  # nobody else wrote since the function first did
            return [] if _is_same(states[0][0], now) else [text]
        added, removed = _sums(states)
        added += [x for x in _without(now, self.was) if own.is_stand_in(x) and not any(x is y for y in added)]
        for item in added:
            _take(holder, item)
        for item in removed:
            self._give(item)
        if added or removed:
            return [text]
        is_doubtful = own.items or any(len(a) == len(b) and not _is_same(a, b) for a, b in states)  # sorted, say
        return [text + _by(())] if is_doubtful else []

    def _give(self, item: Any) -> None:
        if isinstance(self.holder, set):
            self.holder.add(item)
        else:
            self.holder.insert(next((k for k, x in enumerate(self.was) if x is item), len(self.holder)), item)


def _sums(states: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    """Items that calls of a container's methods added, and that they removed, in sum."""
    added: list[Any] = []
    removed: list[Any] = []
    for before, after in states:
        for gone, here, there in ((before, added, removed), (after, removed, added)):
            for item in _without(gone, after if gone is before else before):
                at = next((k for k, x in enumerate(here) if x is item), None)
                there.append(item) if at is None else here.pop(at)
    return added, removed


def _without(items: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """Items that are not among the others, each as often as it is there more often."""
    left = collections.Counter(map(id, others))
    found = []
    for item in items:
        left[id(item)] -= 1
        if left[id(item)] < 0:
            found.append(item)
    return found


def _take(holder: Any, item: Any) -> None:
    """Out of the holder with the last one of it."""
    if isinstance(holder, set):
        holder.discard(item)
        return
    for k in reversed(range(len(holder))):
        if k < len(holder) and holder[k] is item:
            del holder[k]
            return


def _fill(holder: Any, was: Any) -> None:
    if isinstance(holder, list):
        holder[:] = was
    else:
        holder.clear()
        (holder.update if isinstance(holder, set) else holder.extend)(was)


def _assign(holder: dict[Any, Any], name: Any, value: Any) -> None:
    if value is _NOTHING:
        holder.pop(name, None)
    else:
        holder[name] = value


class _Globals:
    def __init__(self, holder: dict[str, Any], names: Iterable[str]):
        self.holder = holder
        self.was = {name: holder.get(name, _NOTHING) for name in sorted(names)}

    def put_back(self, own: Writes) -> list[str]:
        found = []
        for name, was in self.was.items():
            if self.holder.get(name, _NOTHING) is not was and (own.is_alone or own.a_global(self.holder, name)):
                _assign(self.holder, name, was)
                found.append(f"global {name!r} was rebound")
        return found


class _Cell:
    def __init__(self, cell: types.CellType, name: str):
        self.cell, self.name, self.was = cell, name, cell.cell_contents

    def put_back(self, own: Writes) -> list[str]:
        try:
            if self.cell.cell_contents is self.was:
                return []
        except ValueError:  # deleted
            pass
        if not (own.is_alone or own.a_cell(self.name)):
            return []
        self.cell.cell_contents = self.was
        return [f"closure variable {self.name!r} was rebound"]


class _Slot:
    def __init__(self, holder: Any, name: str, path: str):
        self.holder, self.name, self.path, self.was = holder, name, path, getattr(holder, name, _NOTHING)

    def put_back(self, own: Writes) -> list[str]:
        holder, name = self.holder, self.name
        if getattr(holder, name, _NOTHING) is self.was or not (own.is_alone or own.name(name)):
            return []
        kind = next(cls for cls in type(holder).__mro__ if name in vars(cls))
        slot = vars(kind)[name]  # past a frozen dataclass' __setattr__
        slot.__delete__(holder) if self.was is _NOTHING else slot.__set__(holder, self.was)
        return [f"{self.path}: {name} changed"]


class _Names:
    """What a class or a module holds. Much of it comes by being used first, so only names count that the function's
    own code writes."""

    def __init__(self, holder: type | types.ModuleType, path: str):
        self.holder, self.path, self.was = holder, path, dict(vars(holder))

    def put_back(self, own: Writes) -> list[str]:
        now, found = dict(vars(self.holder)), []
        for name in sorted({**self.was, **now}):
            was = self.was.get(name, _NOTHING)
            if now.get(name, _NOTHING) is not was and not name.startswith("__") and own.name(name):
                kind: Any = type if isinstance(self.holder, type) else types.ModuleType
                kind.__delattr__(self.holder, name) if was is _NOTHING else kind.__setattr__(self.holder, name, was)
                found.append(f"{self.path}: {name} changed")
        return found


class _Buffer:
    """An array or raw bytes; a changed length is put back too, where there is one to change."""

    def __init__(self, holder: Any, path: str):
        self.holder, self.path = holder, path
        self.was: Any = bytes(holder) if isinstance(holder, memoryview) else copy.copy(holder)

    def put_back(self, own: Writes) -> list[str]:
        if self._is_same() or not (own.is_alone or own.elements):
            return []
        if own.is_alone:
            self._refill()
        return [f"{self.path}: the {type(self.holder).__name__} changed{'' if own.is_alone else _by(())}"]

    def _is_same(self) -> bool:
        if isinstance(self.holder, (bytearray, memoryview, array.array)):
            return bytes(self.holder) == bytes(self.was)
        now, before = self.holder.view(), self.was.view()
        if now.dtype.hasobject:
            return now.shape == before.shape and all(a is b for a, b in zip(now.flat, before.flat, strict=True))
        return now.shape == before.shape and now.tobytes() == before.tobytes()

    def _refill(self) -> None:
        if isinstance(self.holder, (bytearray, memoryview, array.array)):
            self.holder[:] = self.was
        else:
            self.holder[...] = self.was.reshape(self.holder.shape)


class _Cache:
    """A cache that took a result while recording would keep a stand-in: it forgets all instead."""

    def __init__(self, holder: Any, path: str):
        self.holder, self.path, self.misses = holder, path, holder.cache_info().misses

    def put_back(self, own: Writes) -> list[str]:
        code = getattr(self.holder.__wrapped__, "__code__", None)
        if self.holder.cache_info().misses == self.misses or not (own.is_alone or code is None or own.ran(code)):
            return []
        self.holder.cache_clear()
        self.misses = 0
        return [f"{self.path}: its cache took a result"]


def put_versions_back(pairs: Iterable[tuple[torch.Tensor, int | None]], watcher: Watcher) -> list[str]:
    """Version counters as they were (None: an inference tensor has none), where the function itself stepped them: by
    ``mark_dirty``, the only way past the stand-ins."""
    if torch.autograd.function.FunctionCtx.mark_dirty.__code__ not in watcher.codes:
        return []
    found = []
    for t, version in pairs:
        if version is not None and t._version != version:
            C._autograd._unsafe_set_version_counter((t,), (version,))
            found.append("a tensor's version counter (mark_dirty of an autograd.Function?)")
    return found


def sentence(changes: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(changes))
