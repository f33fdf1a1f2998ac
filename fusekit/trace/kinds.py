"""The kinds of objects that a result may hold: how each is taken apart, and made again from its parts.

Objects are made past their classes' own ``__init__`` and ``__setattr__``: what a user's class does in Python was done
when the function was recorded, and what it left in the object is all there is.
"""

from __future__ import annotations

import array
import collections
import copy
import functools
import gc
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import SUPPORTED_NODES

from fusekit.trace.entries import SIMPLE, contents, is_array


class Taken(NamedTuple):
    """An object in pieces. ``first``: parts that it cannot be made without; ``later``: those that it is filled with.

    ``key``: what is the same at each call; equal for objects that are made alike. ``leaves``: which of all parts are
    leaves of the result where they are plain values, as in torch's pytrees; other plain values are kept.
    """

    kind: Kind
    key: Any
    first: Sequence[Any] = ()
    later: Sequence[Any] = ()
    leaves: range = range(0)


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """``make(key, first)`` gives the object, ``fill(object, key, later)`` puts the rest in."""

    make: Callable[[Any, Sequence[Any]], Any]
    fill: Callable[[Any, Any, Sequence[Any]], None] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """An object in a key: equal to itself alone."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Copied:
    """A private copy of an array: equal to one of equal contents."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Copied) and contents(self.value) == contents(other.value)

    def __hash__(self) -> int:
        return hash(contents(self.value))


def taken(value: Any) -> Taken | None:
    """The object in pieces; None where nobody knows how to make another one."""
    cls = type(value)
    if cls in _EXACT:
        return _EXACT[cls](value)
    if cls in (bytearray, array.array) or _is_plain_array(value):
        return Taken(_COPY, Copied(copy.copy(value)))
    base = next((base for base in _BASES if issubclass(cls, base)), None)
    if base is not None and _holds_only_attributes(cls, base):
        return _instance(value, cls, base)
    if cls in SUPPORTED_NODES:  # written in C, and registered as a pytree: torch.return_types.max
        children, context = SUPPORTED_NODES[cls].flatten_fn(value)
        return Taken(_REGISTERED, (Same(cls), _hashable(context)), [*children], leaves=range(len(children)))
    return None


def _is_plain_array(value: Any) -> bool:
    return is_array(value) and type(value) is sys.modules["numpy"].ndarray and not value.dtype.hasobject


def named_parts(value: Any) -> list[tuple[str, Any]] | None:
    """What an object holds, each part under a name as a person would write it; None where it cannot be opened."""
    pieces = None if isinstance(value, (torch.Tensor, *SIMPLE)) else taken(value)
    if pieces is None or pieces.kind is _COPY:
        return None
    parts = [*pieces.first, *pieces.later]
    names: list[str] = []  # of the last parts; the others have numbers
    if pieces.kind in (_INSTANCE, _FIXED):
        _, base, attributes, members, *_ = pieces.key
        names = [*attributes, *(member.__name__ for member in members)]
        if base in (set, frozenset):
            parts = [*sorted(parts[: len(parts) - len(names)], key=_rank), *parts[len(parts) - len(names) :]]
    numbers = [f"[{k}]" for k in range(len(parts) - len(names))]
    return list(zip([*numbers, *(f".{name}" for name in names)], parts, strict=True))


def _rank(part: Any) -> tuple[Any, ...]:
    """An order for what a set holds, whose own hangs on addresses."""
    return (str(part.dtype), *part.shape, *part.flatten().tolist()) if isinstance(part, torch.Tensor) else (str(part),)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return Same(value)
    return value


# ---- instances: the items of a built-in base, then attributes and slots


class _Base(NamedTuple):
    """How a built-in class gives its items and takes them back: a head (keys, say), and a body.

    ``is_fixed``: it takes them only when it is made.
    """

    head: Callable[[Any], list[Any]]
    body: Callable[[Any], list[Any]]
    put: Callable[[Any, Sequence[Any], Sequence[Any]], None]
    is_fixed: bool = False


def _none(value: Any) -> list[Any]:
    return []


def _mapping(kind: type[dict], head: Callable[[Any], list[Any]] = _none) -> _Base:
    def put(mapping: Any, keys: Sequence[Any], values: Sequence[Any]) -> None:
        for key, value in zip(keys[len(keys) - len(values) :], values, strict=True):
            kind.__setitem__(mapping, key, value)
        if kind is collections.defaultdict:
            mapping.default_factory = keys[0]

    return _Base(lambda value: [*head(value), *kind.keys(value)], lambda value: [*kind.values(value)], put)


def _put_partial(partial: Any, head: Sequence[Any], body: Sequence[Any]) -> None:
    partial_type: Any = functools.partial
    partial_type.__setstate__(partial, (*head, None))


_NO_ITEMS = _Base(_none, _none, lambda value, head, body: None)
_BASES: dict[type, _Base] = {  # the first that fits
    collections.OrderedDict: _mapping(collections.OrderedDict),
    collections.defaultdict: _mapping(collections.defaultdict, lambda value: [value.default_factory]),
    dict: _mapping(dict),
    list: _Base(_none, lambda value: [*list.__iter__(value)], lambda value, head, body: list.extend(value, body)),
    tuple: _Base(_none, lambda value: [*tuple.__iter__(value)], _NO_ITEMS.put, is_fixed=True),
    set: _Base(_none, lambda value: [*set.__iter__(value)], lambda value, head, body: set.update(value, body)),
    frozenset: _Base(_none, lambda value: [*frozenset.__iter__(value)], _NO_ITEMS.put, is_fixed=True),
    collections.deque: _Base(
        lambda value: [value.maxlen],
        lambda value: [*collections.deque.__iter__(value)],
        lambda value, head, body: collections.deque.__init__(value, body, head[0]),
    ),
    functools.partial: _Base(lambda value: [value.func, value.args, value.keywords], _none, _put_partial),
    types.SimpleNamespace: _NO_ITEMS,
    object: _NO_ITEMS,
}
_HEAP_TYPE = 1 << 9


def _holds_only_attributes(cls: type, base: type) -> bool:
    """Do instances hold nothing that Python cannot see, on top of what ``base`` holds? Then their memory is that of
    the base and a word for each slot, for the attributes and for weak references."""
    own = [c for c in cls.__mro__ if c is not base and not issubclass(base, c)]
    if not all(c.__flags__ & _HEAP_TYPE for c in own) or cls.__itemsize__ != base.__itemsize__:
        return False
    words = sum(len(_slots(c)) + ("__dict__" in vars(c)) + ("__weakref__" in vars(c)) for c in own)
    return cls.__basicsize__ <= base.__basicsize__ + 8 * words


def _slots(cls: type) -> list[Any]:
    """The descriptors of the slots that a class adds."""
    return [member for member in vars(cls).values() if isinstance(member, types.MemberDescriptorType)]


@functools.lru_cache(maxsize=1024)
def _members(cls: type, base: type) -> tuple[Any, ...]:
    return tuple(m for c in cls.__mro__ if c is not base and not issubclass(base, c) for m in _slots(c))


def _instance(value: Any, cls: type, base: type) -> Taken:
    members = tuple(m for m in _members(cls, base) if _is_set(m, value))
    attributes = _attributes(value)
    head, body = _BASES[base].head(value), _BASES[base].body(value)
    state = [*attributes.values(), *(m.__get__(value) for m in members)]
    key = (cls, base, tuple(attributes), members, len(head), len(body))
    if _BASES[base].is_fixed:
        return Taken(_FIXED, key, body, state, leaves=range(len(body)))
    of = range(len(head), len(head) + len(body)) if base in _TREES and not state else range(0)
    return Taken(_INSTANCE, key, (), [*head, *body, *state], leaves=of)


def _is_set(member: Any, value: Any) -> bool:
    try:
        member.__get__(value)
    except AttributeError:
        return False
    return True


def _attributes(value: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def _make_instance(key: Any, first: Sequence[Any]) -> Any:
    cls, base, *_ = key
    return base.__new__(cls, _nobody) if base is functools.partial else base.__new__(cls)


def _nobody() -> None:
    """What a partial calls until it is filled."""


def _fill_instance(value: Any, key: Any, later: Sequence[Any]) -> None:
    head, body = key[4], key[4] + key[5]
    _BASES[key[1]].put(value, later[:head], later[head:body])
    _fill_attributes(value, key, later[body:])


def _fill_attributes(value: Any, key: Any, later: Sequence[Any]) -> None:
    names, members = key[2:4]
    if names:
        object.__getattribute__(value, "__dict__").update(zip(names, later, strict=False))
    for member, part in zip(members, later[len(names) :], strict=True):
        member.__set__(value, part)


_INSTANCE = Kind(_make_instance, _fill_instance)
_FIXED = Kind(lambda key, first: key[1].__new__(key[0], first), _fill_attributes)
_TREES = (dict, collections.OrderedDict, collections.defaultdict, collections.deque, list)
_COPY = Kind(lambda key, first: copy.copy(key.value))
_REGISTERED = Kind(
    lambda key, first: SUPPORTED_NODES[key[0].value].unflatten_fn(
        [*first], key[1].value if isinstance(key[1], Same) else key[1]
    )
)


# ---- what Python's own objects are made of


def _view(value: Any) -> Taken:
    (mapping,) = gc.get_referents(value)
    return Taken(_VIEW, type(value).__name__.partition("_")[2], [mapping])


def _make_view(key: str, first: Sequence[Any]) -> Any:
    kind = collections.OrderedDict if isinstance(first[0], collections.OrderedDict) else dict
    return getattr(kind, key)(first[0])


def _function(value: types.FunctionType) -> Taken:
    named = (value.__name__, value.__qualname__, value.__module__, value.__doc__)
    first = [value.__defaults__, *(value.__closure__ or ())]
    later = [value.__kwdefaults__, value.__annotations__, *vars(value).values()]
    return Taken(_FUNCTION, (value.__code__, Same(value.__globals__), named, tuple(vars(value))), first, later)


def _make_function(key: Any, first: Sequence[Any]) -> Any:
    code, namespace, named, _ = key
    made = types.FunctionType(code, namespace.value, named[0], first[0], tuple(first[1:]) or None)
    made.__qualname__, made.__module__, made.__doc__ = named[1:]
    return made


def _fill_function(function: types.FunctionType, key: Any, later: Sequence[Any]) -> None:
    function.__kwdefaults__, function.__annotations__ = later[:2]
    vars(function).update(zip(key[3], later[2:], strict=True))


def _cell(value: types.CellType) -> Taken:
    try:
        return Taken(_CELL, True, (), [value.cell_contents])
    except ValueError:  # not bound
        return Taken(_CELL, False)


def _fill_cell(cell: types.CellType, key: bool, later: Sequence[Any]) -> None:
    if key:
        cell.cell_contents = later[0]


_VIEW = Kind(_make_view)
_PROXY = Kind(lambda key, first: types.MappingProxyType(first[0]))
_SLICE = Kind(lambda key, first: slice(*first))
_METHOD = Kind(lambda key, first: types.MethodType(*first))
_FUNCTION = Kind(_make_function, _fill_function)
_CELL = Kind(lambda key, first: types.CellType(), _fill_cell)
_EXACT: dict[type, Callable[[Any], Taken]] = {
    slice: lambda value: Taken(_SLICE, None, [value.start, value.stop, value.step]),
    types.MappingProxyType: lambda value: Taken(_PROXY, None, gc.get_referents(value)),
    types.MethodType: lambda value: Taken(_METHOD, None, [value.__func__, value.__self__]),
    types.FunctionType: _function,
    types.CellType: _cell,
    **{
        type(view): _view
        for made in ({}, collections.OrderedDict())
        for view in (made.keys(), made.values(), made.items())
    },
}
