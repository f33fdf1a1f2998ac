"""The last call's key as one generated function, a few microseconds; whatever it cannot say goes to the full key."""

from __future__ import annotations

import collections
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import torch

from fusekit.escape import attribute
from fusekit.trace.ambient import ambient
from fusekit.trace.entries import MISSING, SIMPLE, Entry, exactly
from fusekit.trace.guards import Key
from fusekit.trace.private import C
from fusekit.trace.recording import Argument, Capture, Source, Sourced
from fusekit.trace.spans import Span, meeting

Predicate = Callable[[Sequence[Any]], "list[torch.Tensor] | None"]
_BUILTIN = (dict, list, collections.OrderedDict, collections.deque)  # empty and false are one
_STEADY = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.CodeType, type)  # kept: they last
_CHUNK = 40  # conditions of one `if`


def predicate_of(
    key: Key,
    recording: Sourced,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    ends: Callable[[weakref.ref[Any]], None] | None = None,
) -> Predicate | None:
    """A function of the positional arguments that gives the tensors of ``^in`` where the call has this very key, and
    None where it may not have it. None itself for calls that it does not serve: keywords, nested arguments,
    programs that need exact storages, tensors that require grad under grad mode.

    It keeps no tensor and no object with attributes alive, but parts of them: ``ends`` is called when one of these
    objects is gone, and with it all that the function can answer."""
    plain = all(type(a) in (torch.Tensor, torch.nn.Parameter) or isinstance(a, SIMPLE) for a in args)
    modes = C._len_torch_function_stack()  # one of them may be a recording's
    if kwargs or modes or not plain or key.is_exact or not args:
        return None
    return _Source(key, recording.inputs, args, ends).function()


class _Source:
    """Collects lines of the function and the objects they name."""

    def __init__(
        self,
        key: Key,
        sources: Sequence[Source],
        args: Sequence[Any],
        ends: Callable[[weakref.ref[Any]], None] | None,
    ):
        self.sources, self.args, self.ends = sources, args, ends
        self.env: dict[str, Any] = {"ambient": ambient, "want": ambient(), "exactly": exactly}
        self.lines: list[str] = [f"if len(args) != {len(args)} or ambient() != want: return None"]
        self.tensors = {f"args[{k}]": a for k, a in enumerate(args) if isinstance(a, torch.Tensor)}
        self.is_whole = True
        self._arguments()
        places = [entry for entry in key.tensors if entry.at() is not None]
        self.captured = {entry.identity: self._captured(k, entry) for k, entry in enumerate(places)}
        self._values(key.values)

    def function(self) -> Predicate | None:
        tensors = list(self.tensors.values())
        needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
        if not self.is_whole or needs_grad or not tensors:
            return None
        self._layouts()
        self._addresses(tensors)
        self.lines.append(f"return [{', '.join(map(self._input, self.sources))}]")
        body = "\n        ".join(self.lines)
        # an entry that is gone, or a tensor without strides, is for the full key to judge
        text = (
            f"def guard(args):\n    try:\n        {body}\n"
            "    except (KeyError, IndexError, AttributeError, ValueError, RuntimeError): return None\n"
        )
        exec(compile(text, "<fusekit guard>", "exec"), self.env)
        return self.env["guard"]

    def _name(self, kind: str, value: Any) -> str:
        name = f"{kind}{len(self.env)}"
        self.env[name] = value
        return name

    def _arguments(self) -> None:
        for k, a in enumerate(self.args):
            kind = self._name("class", type(a))
            self.lines.append(f"if args[{k}].__class__ is not {kind}: return None")
            if not isinstance(a, torch.Tensor):
                exact = isinstance(a, (float, complex))
                value = self._name("value", exactly(a) if exact else a)
                self.lines.append(f"if {f'exactly(args[{k}])' if exact else f'args[{k}]'} != {value}: return None")

    def _getter(self, entry: Entry) -> str:
        holder, how = self._object(entry.holder), entry.how
        if how == "cell":
            return f"{holder}.cell_contents"
        if how == "attr":
            return attribute(holder, entry.key)
        key = self._name("key", entry.key)
        return f"{holder}.__dict__[{key}]" if how == "class" else f"{holder}[{key}]"

    def _test(self, entry: Entry, value: Any) -> str:
        """Is at a place what is there now?"""
        holder, how = entry.holder, entry.how
        if how in ("len", "keys") and not holder and type(holder) in _BUILTIN:
            return f"not {self._name('holder', holder)}"
        if how == "len":
            return f"len({self._name('holder', holder)}) == {value}"
        if how == "keys" and all(type(key) is str for key in value):
            return f"[*{self._name('holder', holder)}] == {self._name('value', list(value))}"
        if how in ("keys", "contents"):
            return f"{self._name('read', entry.read)}() == {self._name('value', value)}"
        if how == "absent":
            where = f"{self._object(holder)}{'.__dict__' if isinstance(holder, type) else ''}"
            return f"{self._name('key', entry.key)} {'not ' if value else ''}in {where}"
        return f"{self._getter(entry)} is {self._object(value)}"

    def _object(self, value: Any) -> str:
        """An expression for the very object; of one that may be replaced and has parts, while it lives."""
        if isinstance(value, (*SIMPLE, *_STEADY)):
            return self._name("value", value)
        try:
            return f"{self._name('value', weakref.ref(value, self.ends))}()"
        except TypeError:
            return self._name("value", value)

    def _captured(self, number: int, entry: Entry) -> str:
        """The name of a captured tensor: a place must still hold the very object."""
        value, name = entry.read(), f"tensor{number}"
        if isinstance(value, torch.Tensor):
            self.tensors[name] = value
        self.is_whole &= isinstance(value, torch.Tensor)
        self.lines.append(f"if ({name} := {self._getter(entry)}) is not {self._object(value)}: return None")
        return name

    def _values(self, entries: Sequence[Entry]) -> None:
        conditions: list[str] = []
        for entry in entries:
            if entry.at() is None:  # of an object that is gone: nothing reads it any more
                continue
            value = entry.read()
            self.is_whole &= value is not MISSING
            if value is not MISSING:
                conditions.append(self._test(entry, value))
        for k in range(0, len(conditions), _CHUNK):
            self.lines.append(f"if not ({' and '.join(conditions[k : k + _CHUNK])}): return None")

    def _layouts(self) -> None:
        """Class, dispatch keys, dtype, device, requires_grad, sizes and strides, compared in C++."""
        once = {id(t): name for name, t in reversed(self.tensors.items())}  # it refuses a tensor that comes twice
        make = C._dynamo.guards.TensorGuards
        tensors = [self.tensors[name] for name in once.values()]
        guards = make(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        self.lines.append(f"if not {self._name('check', guards.check)}({', '.join(once.values())}): return None")

    def _addresses(self, tensors: Sequence[torch.Tensor]) -> None:
        """The same addresses, or others of which the same meet at the same distances."""
        names, spans = list(self.tensors), [Span.of(t) for t in tensors]
        addresses = self._name("addresses", [span.start for span in spans])
        self.lines.append(f"now = [{', '.join(f'{name}.data_ptr()' for name in names)}]")
        pattern = meeting(spans)
        groups = _groups(len(spans), [(a, b) for a, b, *_ in pattern])
        alike = self._name("alike", _alike(groups, spans))
        self.lines.append(f"if now != {addresses} and not {alike}(now): return None")
        # that different names are different tensors is a part of the check of the layouts
        first = {id(t): k for k, t in reversed(list(enumerate(tensors)))}
        for k, t in enumerate(tensors):
            if first[id(t)] != k:
                self.lines.append(f"if {names[k]} is not {names[first[id(t)]]}: return None")
        self._storages([[k for k in group if first[id(tensors[k])] == k] for group in groups], spans)

    def _storages(self, groups: Sequence[Sequence[int]], spans: Sequence[Span]) -> None:
        """Tensors that meet lie in one storage object, or in different ones, as they did."""
        names = list(self.tensors)
        for group in groups:
            heads: dict[int, int] = {}
            for k in group:
                head = heads.setdefault(spans[k].storage, k)
                if head != k:
                    self._storage_test(names[k], names[head], "!=")
            for one, other in combinations(heads.values(), 2):
                self._storage_test(names[one], names[other], "==")

    def _storage_test(self, one: str, other: str, wrong: str) -> None:
        self.lines.append(f"if {one}.untyped_storage()._cdata {wrong} {other}.untyped_storage()._cdata: return None")

    def _input(self, source: Any) -> str:
        if isinstance(source, Argument):
            return f"args[{source.leaf}]"
        if isinstance(source, Capture):
            return self.captured[source.entry.identity]
        return self._name("constant", source.tensor)


def _groups(count: int, meet: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The connected parts of 0 ... count - 1."""
    group = {k: [k] for k in range(count)}
    for a, b in meet:
        if group[a] is not group[b]:
            group[a] += group[b]
            group.update(dict.fromkeys(group[b], group[a]))
    return list({id(members): sorted(members) for members in group.values()}.values())


def _alike(groups: Sequence[Sequence[int]], spans: Sequence[Span]) -> Callable[[Sequence[int]], bool]:
    """Do tensors at other addresses keep their distances within each group, and the groups share no byte?"""
    distances = [
        (k, group[0], spans[k].start - spans[group[0]].start)
        for group in groups
        for k in group[1:]
        if spans[k].start < spans[k].end
    ]
    hulls = []
    for group in groups:
        low = min(spans[k].start for k in group)
        high = max(spans[k].end for k in group)
        if high > low:
            hulls.append((group[0], low - spans[group[0]].start, high - low))

    def alike(addresses: Sequence[int]) -> bool:
        for k, head, distance in distances:
            if addresses[k] - addresses[head] != distance:
                return False
        end = 0
        for start, size in sorted([(addresses[head] + low, size) for head, low, size in hulls]):
            if start < end:
                return False
            end = start + size
        return True

    return alike
