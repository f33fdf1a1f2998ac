"""When a statement's value matters: an "or" of "and"s of tests, met over all uses of the value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from fusekit.index import Form
from fusekit.ir import Guard
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


def contexts(
    uses: Sequence[tuple[str, Sequence[Use]]],
    roots: Iterable[tuple[str, Cases]],
    clean: Callable[[Case], Case | None],
) -> dict[str, Cases]:
    """For every name the condition under which it matters.

    ``uses``: each value with what it uses, operands before users; ``roots``: values stored, and when they are;
    ``clean``: a case without what its other tests imply, None where they contradict one another.
    """
    found: dict[str, Cases] = {}

    def meet(name: str, cases: Iterable[Case]) -> None:
        cleaned = (clean(case) for case in cases)
        found[name] = simplify(found.get(name, NEVER).union(case for case in cleaned if case is not None))

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


class Ranges:
    """What tests say about one another: each test is a set of guards that all must hold."""

    def __init__(self, guards: Mapping[str, tuple[Guard, ...]]):
        self._spans = {name: _spans(tested) for name, tested in guards.items()}
        self._known: dict[Case, Case | None] = {}

    def clean(self, case: Case) -> Case | None:
        """The case without atoms that others imply; None when two contradict each other."""
        if len(case) > 1 and case not in self._known:
            self._known[case] = self._clean(case)
        return self._known.get(case, case)

    def absorb(self, cases: Cases) -> Cases:
        """The cases without those that another one covers."""
        kept = sorted(cases, key=sorted)
        for case in list(kept):
            if any(other != case and all(self._follows(case, atom) for atom in other) for other in kept):
                kept.remove(case)
        return frozenset(kept)

    def _follows(self, case: Case, atom: tuple[str, bool]) -> bool:
        return atom in case or any(self._implies(other, atom) for other in case)

    def _clean(self, case: Case) -> Case | None:
        kept = sorted(case)
        for atom in sorted(case):
            for other in [other for other in kept if other != atom]:
                if self._implies(other, (atom[0], not atom[1])):
                    return None
                if atom in kept and self._implies(other, atom):
                    kept.remove(atom)
        return frozenset(kept)

    def _implies(self, a: tuple[str, bool], b: tuple[str, bool]) -> bool:
        (test, holds), (other, wanted) = a, b
        if not holds:  # a contrapositive
            return not wanted and self._is_inside(other, test)
        return self._is_inside(test, other) if wanted else self._is_outside(test, other)

    def _is_inside(self, a: str, b: str) -> bool:
        """Does test ``a`` imply test ``b``?"""
        spans = self._spans[a]
        return all(
            form in spans and low <= spans[form][0] and spans[form][1] <= high
            for form, (low, high) in self._spans[b].items()
        )

    def _is_outside(self, a: str, b: str) -> bool:
        """Can ``a`` and ``b`` never hold together?"""
        spans = self._spans[a]
        return any(
            form in spans and (high <= spans[form][0] or spans[form][1] <= low)
            for form, (low, high) in self._spans[b].items()
        )


def _spans(guards: Iterable[Guard]) -> dict[Form, tuple[int, int]]:
    """Moving part -> (least, one past the greatest) that the guards allow."""
    spans: dict[Form, tuple[int, int]] = {}
    for guard in guards:
        moving, first = guard.form - guard.form.const, -guard.form.const
        bottom, top = moving.bounds
        low, high = max(first, bottom), min(first + guard.extent, top + 1)
        if moving in spans:
            low, high = max(low, spans[moving][0]), min(high, spans[moving][1])
        spans[moving] = (low, high)
    return spans
