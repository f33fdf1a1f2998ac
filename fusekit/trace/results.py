"""What a function returns: taken apart when it is recorded, put together anew at each call.

Three kinds of objects make up a result. *Fresh* ones, which the call made, are made anew. Containers of the caller's
arguments come back as the objects that they are at that call. Whatever was there before comes back as itself.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_flatten, tree_leaves

from fusekit.errors import UnsupportedError
from fusekit.ir import Origin
from fusekit.trace.entries import SIMPLE, exact
from fusekit.trace.kinds import Kind, taken

Build = Callable[..., Any]  # (leaves, args, kwargs) -> the result; leaves alone where nothing is ``given``
_Ref = tuple[str, int]  # a value while a result is taken apart: "leaf", "given", "kept" or "node", and its number
_STATELESS = (type, types.ModuleType, types.CodeType)


class Node(NamedTuple):
    """A fresh object; ``first`` and ``later`` are its parts, as numbers of values of the structure."""

    kind: Kind
    key: Any
    first: tuple[int, ...]
    later: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """A plain value, or an object that was there before; ``token`` tells it apart."""

    token: Any
    value: Any = field(compare=False)


@dataclass(frozen=True, slots=True)
class Structure:
    """How leaves become a result; equal structures make alike results of alike leaves.

    Its values are numbered: ``leaves`` many leaves, the containers ``given`` (by their place among ``nodes_of`` the
    call), what is ``kept``, then the ``nodes``, each after its parts unless it is a part of one of them.
    """

    leaves: int
    given: tuple[int, ...]
    kept: tuple[Kept, ...]
    nodes: tuple[Node, ...]
    root: int

    def builder(self) -> Build:
        """A function that puts a result together."""
        if not self.nodes and self.root < self.leaves:
            return _first
        if len(self.nodes) == 1 and not self.given and not self.kept:
            _, key, first, later = self.nodes[0]
            for plain in (tuple, list):
                alike = taken(plain(range(self.leaves)))
                if alike and key == alike.key and (*first, *later) == (*range(self.leaves),):
                    return plain
        return _Builder(self)


def _first(flat: Sequence[Any]) -> Any:
    return flat[0]


class _Builder:
    """Makes every node, in an order in which it can be made."""

    def __init__(self, structure: Structure):
        self.structure = structure
        before = structure.leaves + len(structure.given) + len(structure.kept)
        self.kept = [one.value for one in structure.kept]
        self.room = [None] * len(structure.nodes)
        todo = [(number, node, is_fill) for number, node in enumerate(structure.nodes, before) for is_fill in (0, 1)]
        made, self.steps = set(range(before)), []
        while todo:  # a second time only where a container lies in itself
            left = []
            for number, node, is_fill in todo:
                if not made.issuperset(node.later if is_fill else node.first) or (is_fill and number not in made):
                    left.append((number, node, is_fill))
                elif not is_fill:
                    made.add(number)
                    self.steps.append((number, node.kind.make, node.key, node.first, False))
                elif node.later and node.kind.fill is not None:
                    self.steps.append((number, node.kind.fill, node.key, node.later, True))
            if len(left) == len(todo):
                raise UnsupportedError("a result that lies in itself", None, "return it without the cycle")
            todo = left

    def __call__(self, flat: Sequence[Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = self.structure.given
        nodes = nodes_of(args, kwargs or {}) if given else ()
        values = [*flat, *[nodes[k] for k in given], *self.kept, *self.room]
        for number, do, key, parts, is_fill in self.steps:
            found = [values[k] for k in parts]
            if is_fill:
                do(values[number], key, found)
            else:
                values[number] = do(key, found)
        return values[self.structure.root]


def nodes_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """All containers and leaves of a call's arguments, each container before what it holds."""
    found: list[Any] = []
    tree_flatten((tuple(args), dict(kwargs)), is_leaf=lambda value: found.append(value) or False)
    return found


def take_apart(
    result: Any,
    call: tuple[Sequence[Any], Mapping[str, Any]],
    is_fresh: Callable[[Any], bool],
    is_known: Callable[[Any], bool],
    where: Origin | None = None,
) -> tuple[list[Any], Structure]:
    """Leaves (tensors and plain values) and structure of what a function returned for the arguments ``call``.

    ``is_fresh``: did the call make this object? ``is_known``: can the function reach it without its arguments? Raises
    UnsupportedError, at ``where``, for objects that nobody can make anew.
    """
    taking = _Taking(call, is_fresh, is_known, where)
    try:
        root = taking.add(result, True)
    except RecursionError:
        raise UnsupportedError("a result that is nested too deep", where, "return a flat list") from None
    return taking.leaves, taking.structure(root)


class _Taking:
    def __init__(
        self,
        call: tuple[Sequence[Any], Mapping[str, Any]],
        is_fresh: Callable[[Any], bool],
        is_known: Callable[[Any], bool],
        where: Origin | None,
    ):
        self.is_fresh, self.is_known, self.where = is_fresh, is_known, where
        self.leaves: list[Any] = []
        self.given: list[int] = []
        self.kept: list[Any] = []
        self.nodes: list[tuple[int, Kind, Any, list[_Ref], list[_Ref]]] = []  # in the order in which they are whole
        self.refs: dict[int, _Ref] = {}
        self.pins: list[Any] = []
        self.count = 0
        self.call: dict[int, list[int]] = {}
        leaves = set(map(id, tree_leaves(call)))
        for k, value in enumerate(nodes_of(*call)):
            if id(value) not in leaves and (value or not isinstance(value, tuple)):  # () is everybody's
                self.call.setdefault(id(value), []).append(k)

    def add(self, value: Any, is_leaf: bool) -> _Ref:
        """The number of a value. ``is_leaf``: a plain value is a leaf, and a tensor is one each time that it comes."""
        found = self.refs.get(id(value))
        if found is not None and not (is_leaf and isinstance(value, torch.Tensor)):
            return found
        if isinstance(value, torch.Tensor):
            ref = self._leaf(value)
        elif type(value) in SIMPLE or isinstance(value, _STATELESS):
            return self._leaf(value) if is_leaf else self._keep(value)
        elif id(value) in self.call:
            ref = self._given(value)
        elif not self.is_fresh(value):
            ref = self._leaf(value) if is_leaf else self._keep(value)
        else:
            return self._take(value, is_leaf)
        self.refs.setdefault(id(value), ref)
        return ref

    def _leaf(self, value: Any) -> _Ref:
        self.leaves.append(value)
        return "leaf", len(self.leaves) - 1

    def _keep(self, value: Any) -> _Ref:
        self.kept.append(value)
        return "kept", len(self.kept) - 1

    def _given(self, value: Any) -> _Ref:
        places = self.call[id(value)]
        if len(places) > 1 or self.is_known(value):
            what = f"a result that is a {type(value).__name__} which the function is given in two ways"
            raise UnsupportedError(what, self.where, "return another container, list(xs) say")
        self.given.append(places[0])
        return "given", len(self.given) - 1

    def _take(self, value: Any, is_leaf: bool) -> _Ref:
        pieces = taken(value)
        if pieces is None:
            self._refuse(value)
            return self._leaf(value) if is_leaf else self._keep(value)
        self.pins.append((value, pieces))  # ids are only good while their objects live
        self.refs[id(value)] = ref = ("node", self.count)
        self.count += 1
        refs = [self.add(part, k in pieces.leaves) for k, part in enumerate((*pieces.first, *pieces.later))]
        many = len(pieces.first)
        self.nodes.append((ref[1], pieces.kind, pieces.key, refs[:many], refs[many:]))
        return ref

    def _refuse(self, value: Any) -> None:
        """Raise for an object that holds state, or is known by what it is: every call has to give another one."""
        kind = type(value)
        if kind in (weakref.ref, *weakref.ProxyTypes):
            what, fix = "a weak reference", "return what it refers to"
        elif isinstance(value, collections.abc.Coroutine):
            what, fix = "a coroutine", "await outside of the function"
            value.close()
        elif isinstance(value, (types.GeneratorType, types.AsyncGeneratorType)):
            what, fix = "a generator", "return a list of what it yields"
        elif isinstance(value, collections.abc.Iterator):
            what, fix = f"an iterator ({kind.__name__})", "return a list of its items"
        elif _is_value(value):
            return
        else:
            what = f"an object of {kind.__module__}.{kind.__qualname__}, which no call can make again,"
            fix = "return its tensors in a tuple, a dict or a dataclass"
        raise UnsupportedError(f"a result with {what}", self.where, fix)

    def structure(self, root: _Ref) -> Structure:
        starts = {"leaf": 0, "given": len(self.leaves)}
        starts["kept"] = starts["given"] + len(self.given)
        first = starts["kept"] + len(self.kept)
        places = {number: first + k for k, (number, *_) in enumerate(self.nodes)}

        def number(ref: _Ref) -> int:
            return places[ref[1]] if ref[0] == "node" else starts[ref[0]] + ref[1]

        nodes = (
            Node(kind, key, tuple(map(number, before)), tuple(map(number, later)))
            for _, kind, key, before, later in self.nodes
        )
        kept = tuple(Kept(exact(value), value) for value in self.kept)
        return Structure(len(self.leaves), tuple(self.given), kept, tuple(nodes), number(root))


def _is_value(value: Any) -> bool:
    """Is an object that nobody can take apart a value like a number: the same as any that is equal?"""
    if isinstance(value, types.BuiltinFunctionType):  # a method of an object, or a function
        return value.__self__ is None or isinstance(value.__self__, _STATELESS)
    return type(value).__hash__ not in (None, object.__hash__)


def refuse_suspended(fn: Any, where: Origin | None) -> None:
    """Raise for a function whose call runs nothing of it: a generator function, or an async one."""
    target = getattr(fn, "forward", fn) if isinstance(fn, torch.nn.Module) else fn
    target = target if inspect.isroutine(target) else inspect.getattr_static(type(target), "__call__", target)
    if inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target):
        raise UnsupportedError("an async function", where, "compile the plain functions that it calls")
    if inspect.isgeneratorfunction(target):
        raise UnsupportedError("a generator function", where, "return a list of what it yields")
