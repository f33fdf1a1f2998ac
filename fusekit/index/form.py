"""Linear index forms: ``const + sum(coefficient * atom)``, where an atom is a variable, or the floor quotient or the
remainder of another form.

Forms are frozen, hashable and kept canonical by five rules, all proven by intervals:

1. terms whose coefficient the divisor divides leave a division or a remainder;
2. what is left vanishes (or stays as it is) when it is known to lie in ``[0, divisor)``;
3. *low part*: when ``g`` divides the divisor and every other coefficient, and the low terms fit in ``[0, g)``,
   everything is divided through by ``g``;
4. nested floor divisions flatten;
5. *fold*: ``k*(y % c) + k*c*(y // c)`` is ``k*y``; whichever side is lighter is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import Literal

VarKind = Literal["loop", "number", "found"]


@dataclass(frozen=True, slots=True)
class Var:
    """A variable of index forms: ``0 <= var < extent``.

    ``kind``: "loop", which runs over a dimension; "number", which the caller passes, the same in all iterations;
    "found", a position that an index tensor holds. Names are for people and tell nothing.
    """

    name: str
    extent: int
    kind: VarKind = "loop"


@dataclass(frozen=True, slots=True)
class Div:
    """Floor of ``of / by``."""

    of: Form
    by: int


@dataclass(frozen=True, slots=True)
class Mod:
    """Remainder of ``of / by``, in ``[0, by)``."""

    of: Form
    by: int


Atom = Var | Div | Mod


@dataclass(frozen=True, slots=True)
class Form:
    """``const + sum(coefficient * atom for atom, coefficient in terms)``."""

    terms: tuple[tuple[Atom, int], ...] = ()
    const: int = 0
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Forms nest and are keys of every cache below: hashing from the leaves up each time would cost the most.
        object.__setattr__(self, "_hash", hash((self.terms, self.const)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Form], tuple[object, ...]]:
        return Form, (self.terms, self.const)  # hashes of strings differ from process to process

    @staticmethod
    def of(x: Form | Atom | int) -> Form:
        """A form from an int, an atom, or a form."""
        if isinstance(x, Form):
            return x
        return Form((), x) if isinstance(x, int) else Form(((x, 1),))

    @staticmethod
    def make(pairs: Iterable[tuple[Atom, int]], const: int = 0) -> Form:
        """Equal atoms joined, zero terms dropped, terms in a fixed order; no other rule is applied."""
        joined: dict[Atom, int] = {}
        for atom, coefficient in pairs:
            joined[atom] = joined.get(atom, 0) + coefficient
        kept = [(atom, c) for atom, c in joined.items() if c]
        if len(kept) > 1:
            kept.sort(key=lambda term: _order(term[0]))
        return Form(tuple(kept), const)

    def __add__(self, other: Form | int) -> Form:
        if isinstance(other, int):
            return Form(self.terms, self.const + other)
        if not other.terms:
            return Form(self.terms, self.const + other.const)
        if not self.terms:
            return Form(other.terms, self.const + other.const)
        joined = Form.make(self.terms + other.terms, self.const + other.const)
        return _fold(joined) if any(isinstance(atom, Mod) for atom, _ in joined.terms) else joined

    def __mul__(self, k: int) -> Form:
        if k == 0:
            return ZERO
        return Form(tuple((atom, c * k) for atom, c in self.terms), self.const * k)

    def __neg__(self) -> Form:
        return self * -1

    def __sub__(self, other: Form | int) -> Form:
        return self + (-other if isinstance(other, int) else other * -1)

    def __floordiv__(self, k: int) -> Form:
        return _floordiv(self, k)

    def __mod__(self, k: int) -> Form:
        return _modulo(self, k)

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def free(self) -> frozenset[Var]:
        """The variables in it, also those inside divisions."""
        return _free(self)

    @property
    def bounds(self) -> tuple[int, int]:
        """Least and greatest value by interval arithmetic: never too narrow, sometimes too wide."""
        return _bounds(self)

    def coefficient(self, var: Var) -> int | None:
        """Coefficient of ``var``, or None where it sits inside a division."""
        if any(not isinstance(atom, Var) and var in atom.of.free for atom, _ in self.terms):
            return None
        return dict(self.terms).get(var, 0)

    def is_divisible(self, k: int) -> bool:
        """Is every coefficient and the constant a multiple of ``k``? (Sufficient for the value to be one.)"""
        return self.const % k == 0 and all(c % k == 0 for _, c in self.terms)

    def exact_quotient(self, k: int) -> Form:
        """The form divided by ``k``, which divides every coefficient."""
        if not self.is_divisible(k):
            raise ValueError(f"{self} is not divisible by {k}")
        return Form(tuple((atom, c // k) for atom, c in self.terms), self.const // k)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value where every variable, by name, has a value."""
        total = self.const
        for atom, c in self.terms:
            if isinstance(atom, Var):
                total += c * values[atom.name]
            elif isinstance(atom, Div):
                total += c * (atom.of.evaluate(values) // atom.by)
            else:
                total += c * (atom.of.evaluate(values) % atom.by)
        return total


ZERO = Form()


def substitute(form: Form, env: Mapping[Var, Form]) -> Form:
    """``form`` with variables replaced by forms; the result is simplified again."""
    if not form.terms or form.free.isdisjoint(env):
        return form
    out = Form((), form.const)
    for atom, c in form.terms:
        if isinstance(atom, Var):
            value = env[atom] if atom in env else Form.of(atom)
        else:
            inner = substitute(atom.of, env)
            value = inner // atom.by if isinstance(atom, Div) else inner % atom.by
        out = out + value * c
    return out


def number_var(index: int, extent: int) -> Var:
    """The variable of the graph's parameter ``index``: n0, n1, ..."""
    return Var(f"n{index}", extent, "number")


@lru_cache(maxsize=4096)
def loop_vars(shape: Sequence[int]) -> tuple[Form, ...]:
    """The index of an element of a tensor of this shape: i0, i1, ...; a dimension of one element is the constant 0."""
    return tuple(ZERO if n == 1 else Form.of(Var(f"i{k}", n)) for k, n in enumerate(shape))


def put(forms: Iterable[Form], index: Sequence[Form], shape: Sequence[int]) -> tuple[Form, ...]:
    """Forms over ``loop_vars(shape)`` with ``index`` put in."""
    at, own = tuple(index), tuple(shape)
    return tuple(_put(form, at, own) for form in forms)


@lru_cache(maxsize=1 << 16)
def _put(form: Form, index: tuple[Form, ...], shape: tuple[int, ...]) -> Form:
    if not form.terms:
        return form
    return substitute(form, {Var(f"i{k}", n): index[k] for k, n in enumerate(shape) if n != 1})


def _order(atom: Atom) -> tuple[int, str, int, object]:
    if isinstance(atom, Var):
        return 0, atom.name, atom.extent, atom.kind
    kind = 1 if isinstance(atom, Div) else 2
    return kind, _spelled(atom.of), atom.by, ()


@lru_cache(maxsize=1 << 16)
def _spelled(form: Form) -> str:
    return repr(form)


@lru_cache(maxsize=1 << 16)
def _free(form: Form) -> frozenset[Var]:
    return frozenset().union(*({atom} if isinstance(atom, Var) else atom.of.free for atom, _ in form.terms))


@lru_cache(maxsize=1 << 16)
def _bounds(form: Form) -> tuple[int, int]:
    low = high = form.const
    for atom, c in form.terms:
        a, b = _atom_bounds(atom)
        low, high = low + min(a * c, b * c), high + max(a * c, b * c)
    return low, high


def _atom_bounds(atom: Atom) -> tuple[int, int]:
    if isinstance(atom, Var):
        return 0, max(atom.extent - 1, 0)
    low, high = atom.of.bounds
    if isinstance(atom, Div):
        return low // atom.by, high // atom.by
    return (low, high) if low >= 0 and high < atom.by else (0, atom.by - 1)


def _is_within(form: Form, k: int) -> bool:
    low, high = form.bounds
    return low >= 0 and high < k


def _low_part(form: Form, k: int) -> tuple[int, Form, Form] | None:
    """(g, low, high) with form == high * g + low and 0 <= low < g, where g > 1 divides k and is as large as it can."""
    candidates = {gcd(k, c) for _, c in form.terms} | {gcd(k, form.const) if form.const else 1}
    for g in sorted(candidates, reverse=True):
        if g == 1:
            break
        low = Form.make(((a, c) for a, c in form.terms if c % g), form.const % g)
        if _is_within(low, g):
            high = Form.make(((a, c // g) for a, c in form.terms if c % g == 0), form.const // g)
            return g, low, high
    return None


@lru_cache(maxsize=1 << 16)
def _floordiv(form: Form, k: int) -> Form:
    if k == 1:
        return form
    whole = Form.make(((a, c // k) for a, c in form.terms if c % k == 0), form.const // k)
    rest = Form.make(((a, c) for a, c in form.terms if c % k), form.const % k)
    if _is_within(rest, k):
        return whole
    if cut := _low_part(rest, k):
        return whole + cut[2] // (k // cut[0])
    if len(rest.terms) == 1 and rest.const == 0 and rest.terms[0][1] == 1 and isinstance(rest.terms[0][0], Div):
        inner = rest.terms[0][0]
        return whole + inner.of // (inner.by * k)
    low, high = rest.bounds
    if low // k == high // k:
        return whole + low // k
    return whole + Form.of(Div(rest, k))


@lru_cache(maxsize=1 << 16)
def _modulo(form: Form, k: int) -> Form:
    if k == 1:
        return ZERO
    rest = Form.make(((a, c) for a, c in form.terms if c % k), form.const % k)
    if _is_within(rest, k):
        return rest
    if cut := _low_part(rest, k):
        return (cut[2] % (k // cut[0])) * cut[0] + cut[1]
    low, high = rest.bounds
    if low // k == high // k:
        return rest - k * (low // k)
    return Form.of(Mod(rest, k))


def _weight(form: Form) -> int:
    return sum(1 if isinstance(atom, Var) else 4 for atom, _ in form.terms)


@lru_cache(maxsize=1 << 16)
def _fold(form: Form) -> Form:
    for atom, k in form.terms:
        if isinstance(atom, Mod):
            y, c = atom.of, atom.by
            swapped = [(atom, -k)] + [(a, k * q) for a, q in y.terms] + [(a, -k * c * q) for a, q in (y // c).terms]
            other = Form.make(form.terms + tuple(swapped), form.const + k * y.const - k * c * (y // c).const)
            if _weight(other) < _weight(form):
                return _fold(other)
    return form
