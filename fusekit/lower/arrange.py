"""The order of statements that stand in the same loops: those that matter at the same time share one ``if``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fusekit.lower.expressions import Apply
from fusekit.lower.items import Item
from fusekit.lower.program import ALWAYS, Assign, Cases, Load, Statement, Test
from fusekit.ops import REGISTER

_CALL = re.compile(r"([\w.]+)\(")
# Calls that are as cheap as an operator: their values are computed everywhere rather than under an ``if``.
_CHEAP = {"abs", "to_bf16", "to_f16", "maximum", "minimum", "clamp_min", "clamp_max", *REGISTER.values()}


def arrange(items: Sequence[Item], cases: dict[str, Cases]) -> list[tuple[Cases, list[Item]]]:
    """Groups of statements in an order that keeps operands first; a group is as long as it can be.

    Tests lead, but those of a position that data decide, which follow what loads it.
    """
    names = {item.name for item in items if not isinstance(item.statement, Test)}
    tests = [item for item in items if isinstance(item.statement, Test) and not _operands(item) & names]
    first = {test.name for test in tests}
    rest = [item for item in items if item.name not in first]
    own = {item.name for item in rest}
    waits = {item.name: (_operands(item) | _tests(cases[item.name])) & own for item in rest}
    users: dict[str, list[str]] = {}
    for item in rest:
        for operand in waits[item.name]:
            users.setdefault(operand, []).append(item.name)
    by_name = {item.name: item for item in rest}
    place = {item.name: k for k, item in enumerate(rest)}
    ready: dict[Cases, list[str]] = {}

    def release(name: str) -> None:
        ready.setdefault(cases[name], []).append(name)

    for name, needed in waits.items():
        if not needed:
            release(name)
    groups: list[tuple[Cases, list[Item]]] = [(ALWAYS, tests)] if tests else []
    while ready:
        current = min(ready, key=lambda c: min(place[name] for name in ready[c]))
        group: list[Item] = []
        while names := ready.get(current):
            name = min(names, key=place.__getitem__)
            names.remove(name)
            group.append(by_name[name])
            for user in users.get(name, ()):
                waits[user].discard(name)
                if not waits[user]:
                    release(user)
        del ready[current]
        groups.append((current, group))
    return groups


def _operands(item: Item) -> set[str]:
    """Names that a statement needs: values, and the tests that choose among them."""
    return {operand for operand, _ in item.uses} | {test for _, case in item.uses for test, _ in case}


def _tests(cases: Cases) -> set[str]:
    return {test for case in cases for test, _ in case}


def is_costly(item: Item) -> bool:
    """Is it worth an ``if``? A load always is: outside its conditions its address may lie outside its tensor."""
    return is_costly_statement(item.statement)


def is_costly_statement(statement: Statement) -> bool:
    match statement:
        case Load():
            return True
        case Assign(value=Apply(scalar=scalar)):
            called = set(_CALL.findall(scalar.body))
            return not called <= _CHEAP or "//" in scalar.body or "%" in scalar.body
        case _:
            return False
