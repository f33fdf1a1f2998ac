"""When a statement's value matters: an "or" of "and"s of tests, met over all uses of the value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from fusekit.lower.program import ALWAYS, Case, Cases

MOST_CASES = 12
NEVER: Cases = frozenset()
# (name of the value that is used, the tests that must hold for the use to matter)
Use = tuple[str, Case]


def simplify(cases: Iterable[Case], most: int = MOST_CASES) -> Cases:
    """The same condition, or a weaker one past ``most`` cases.

    Contradictions and cases that another implies are dropped; ``a and c or a and not c`` becomes ``a``.
    """
    found = {case for case in cases if not any((test, not holds) in case for test, holds in case)}
    while step := _step(found):
        found = step
    return frozenset(found) if len(found) <= most else frozenset([frozenset.intersection(*found)])


def _step(cases: set[Case]) -> set[Case] | None:
    """One simplification, or None when there is none."""
    for case in sorted(cases, key=lambda c: (len(c), sorted(c))):
        if any(other < case for other in cases):
            return cases - {case}
        for test, holds in sorted(case):
            rest = case - {(test, holds)}
            if rest | {(test, not holds)} in cases:
                return {other for other in cases if not rest <= other} | {rest}
    return None


def contexts(uses: Sequence[tuple[str, Sequence[Use]]], roots: Iterable[tuple[str, Cases]]) -> dict[str, Cases]:
    """For every name the condition under which it matters.

    ``uses``: each value with what it uses, operands before users; ``roots``: values stored, and when they are.
    """
    found: dict[str, Cases] = {}

    def meet(name: str, cases: Iterable[Case]) -> None:
        found[name] = simplify(found.get(name, NEVER) | frozenset(cases))

    for name, cases in roots:
        meet(name, cases)
    for name, operands in reversed(uses):
        for operand, tests in operands:
            meet(operand, (case | tests for case in found.get(name, NEVER)))
    return found


def visible(cases: Cases, is_known: Callable[[str], bool]) -> Cases:
    """The condition weakened to tests that are known where it is asked."""
    if cases == ALWAYS:
        return cases
    return simplify(frozenset(atom for atom in case if is_known(atom[0])) for case in cases)


def rename(cases: Cases, names: Mapping[str, str]) -> Cases:
    """The condition with tests renamed."""
    return frozenset(frozenset((names[test], holds) for test, holds in case) for case in cases)
