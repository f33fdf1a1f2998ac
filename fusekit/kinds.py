"""What public calls take: the kinds of their arguments in words, and the error for one that is of another kind."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from fusekit.errors import FusekitError


@dataclass(frozen=True, slots=True)
class Kind:
    """``words`` say what is wanted, so that they end the sentence "give it ..."."""

    words: str
    fits: Callable[[object], bool]


def expect(where: str, **given: tuple[object, Kind]) -> None:
    """Raises FusekitError for the first argument of the call ``where`` whose value is not of its kind."""
    for name, (value, kind) in given.items():
        if not kind.fits(value):
            raise FusekitError(f"{name}={_shown(value)} is of the wrong kind", f"{where}(...)", f"give it {kind.words}")


def expect_names(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises FusekitError for the first keyword that the call ``where`` does not know."""
    known = tuple(known)
    for name in given:
        if name not in known:
            raise FusekitError(f"there is no {name!r}", f"{where}(...)", f"it takes {', '.join(known)}")


def expect_function(where: str, fn: object) -> None:
    """Raises FusekitError for what is no function or module to compile."""
    if isinstance(fn, (classmethod, staticmethod)):
        kind = type(fn).__name__
        raise FusekitError(f"{where} of a {kind}", None, f"write @{kind} above @{where}")
    if not callable(fn):
        raise FusekitError(f"{where} of {_shown(fn)}, which cannot be called", None, "give it a function or a module")


def one_of(*words: str) -> Kind:
    """One of these words."""
    return Kind(f"one of {', '.join(map(repr, words))}", lambda value: isinstance(value, str) and value in words)


def maybe(kind: Kind) -> Kind:
    """The kind, or None."""
    return Kind(f"{kind.words}, or None", lambda value: value is None or kind.fits(value))


def a(kind: type, words: str) -> Kind:
    """An object of a class."""
    return Kind(words, lambda value: isinstance(value, kind))


def _shown(value: object) -> str:
    try:
        return f"{value!r:.60}"
    except Exception:  # a stranger's repr: the class says enough
        return f"<{type(value).__name__}>"


def _is_size(value: object) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    number: Any = value
    return bool(0 <= number < math.inf)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


FLAG = a(bool, "True or False")
TEXT = a(str, "a string")
NODE = a(str, 'the id of a node, such as "$0", "^1" or "%a"')
WHOLE = Kind("a whole number", _is_whole)
SIZE = Kind("a number from 0 up", _is_size)
STEP = Kind("the name or the number of a step", lambda value: isinstance(value, str) or _is_whole(value))
PATH = a(str | os.PathLike, "a path")  # pyright: ignore[reportArgumentType]  (isinstance takes a union)
NODES = Kind(
    'the id of a node, or several: "$0", ("^1", "%a")',
    lambda value: (
        isinstance(value, str) or (isinstance(value, tuple | list) and all(isinstance(n, str) for n in value))
    ),
)
