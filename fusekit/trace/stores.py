"""What code may write that was there before it ran, read off its instructions."""

from __future__ import annotations

import dis
import functools
import types
from dataclasses import dataclass

_GLOBAL = ("STORE_GLOBAL", "DELETE_GLOBAL")
_ATTRIBUTE = ("STORE_ATTR", "DELETE_ATTR")
_CELL = ("STORE_DEREF", "DELETE_DEREF")
_ITEM = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
_LOADED = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")


@dataclass(frozen=True, slots=True)
class Stores:
    """``items``: offsets of ``d[k] = v``, ``del d[k]`` and ``x += y``; ``scalings``: of those with a literal for ``y``,
    which no container takes, but an array does. ``mentioned``: all names and literal strings."""

    globals: frozenset[str]
    cells: frozenset[str]
    attributes: frozenset[str]
    items: frozenset[int]
    scalings: frozenset[int]
    mentioned: frozenset[str]


@functools.lru_cache(maxsize=4096)
def stores_of(code: types.CodeType) -> Stores:
    """Of the code itself; functions that it makes are code of their own."""
    found: dict[str, set[str]] = {"global": set(), "cell": set(), "attribute": set()}
    items, scalings, before = set(), set(), None
    for step in dis.get_instructions(code):
        if step.opname in _GLOBAL:
            found["global"].add(step.argval)
        elif step.opname in _CELL:
            found["cell"].add(step.argval)
        elif step.opname in _ATTRIBUTE:
            found["attribute"].add(step.argval)
        elif step.opname in _ITEM:
            items.add(step.offset)
        elif step.opname == "BINARY_OP" and step.argrepr.endswith("="):
            is_literal = before is not None and before.opname.startswith(("LOAD_CONST", "LOAD_SMALL_INT"))
            number = is_literal and before is not None and isinstance(before.argval, (int, float, complex))
            (scalings if number else items).add(step.offset)
        before = step
    own, cells, attributes = (frozenset(found[kind]) for kind in ("global", "cell", "attribute"))
    literals = frozenset(value for value in code.co_consts if isinstance(value, str))
    mentioned = literals.union(code.co_names)
    return Stores(own, cells & set(code.co_freevars), attributes, frozenset(items), frozenset(scalings), mentioned)


@functools.lru_cache(maxsize=4096)
def globals_of(code: types.CodeType) -> frozenset[str]:
    """Names that code looks up as globals or builtins, functions that it makes included."""
    own = {step.argval for step in dis.get_instructions(code) if step.opname in _LOADED}
    nested = (globals_of(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return frozenset(own).union(*nested)


@functools.lru_cache(maxsize=4096)
def globals_set_by(code: types.CodeType) -> frozenset[str]:
    """Names that code binds as globals, functions that it makes included."""
    nested = (globals_set_by(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return stores_of(code).globals.union(*nested)
