"""Forms as text that a person reads and that parses back to the very same form."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fusekit.errors import TextSyntaxError
from fusekit.index.form import Atom, Div, Form, Mod, Var

MOST_NESTED = 100  # brackets in brackets: each costs a few frames of Python's stack, here and in all that walks forms
MOST_DIGITS = 19  # as many as a 64-bit number has: positions are computed in such
_WORD = re.compile(r"\s*(?:(?P<number>[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<mark>//|[-+*%()]))")


def print_form(form: Form) -> str:
    """Python text of a form: ``i0 + 4*(i1//2) - 1``."""
    out = ""
    for atom, c in form.terms:
        text = _print_atom(atom)
        part = text if abs(c) == 1 else f"{abs(c)}*{text}"
        out += (" - " if c < 0 else " + ") + part if out else ("-" if c < 0 else "") + part
    if not out:
        return str(form.const)
    if form.const:
        out += f" {'-' if form.const < 0 else '+'} {abs(form.const)}"
    return out


def _print_atom(atom: Atom) -> str:
    if isinstance(atom, Var):
        return atom.name
    inner = print_form(atom.of)
    simple = len(atom.of.terms) == 1 and atom.of.const == 0 and atom.of.terms[0][1] == 1  # one atom brings its brackets
    text = inner if simple else f"({inner})"
    return f"({text}{'//' if isinstance(atom, Div) else '%'}{atom.by})"


def parse_form(text: str, variables: Mapping[str, Var]) -> Form:
    """The form that ``print_form`` printed; ``variables``: what each name stands for. No rule is applied anew.

    Linear in the text. Raises TextSyntaxError.
    """
    return _Reader(text, variables).read()


class _Reader:
    """Sums of products of variables, numbers, and brackets; ``*``, ``//`` and ``%`` bind as in Python."""

    def __init__(self, text: str, variables: Mapping[str, Var]):
        self.text, self.variables = text, variables
        self.words = _words(text)
        self.at, self.depth = 0, 0

    def read(self) -> Form:
        form = self.sum()
        if self.at < len(self.words):
            raise self.wrong(f"{self.words[self.at][1]!r} is one too many")
        return form

    def wrong(self, why: str) -> TextSyntaxError:
        return TextSyntaxError(
            f"{self.text.strip()!r:.60} is no index form: {why}", None, "write one like 4*i0 + i1//8"
        )

    def skip(self, *marks: str) -> str:
        """The next word, if it is one of these marks; else nothing is read."""
        kind, word = self.words[self.at] if self.at < len(self.words) else ("", "")
        if kind != "mark" or word not in marks:
            return ""
        self.at += 1
        return word

    def sum(self) -> Form:
        terms: list[tuple[Atom, int]] = []
        const, sign = 0, 1
        while True:
            part = self.product()
            terms += [(atom, sign * c) for atom, c in part.terms]
            const += sign * part.const
            mark = self.skip("+", "-")
            if not mark:
                return Form.make(terms, const)
            sign = 1 if mark == "+" else -1

    def product(self) -> Form:
        sign = 1
        while mark := self.skip("-", "+"):
            sign = -sign if mark == "-" else sign
        form = self.atom()
        while mark := self.skip("*", "//", "%"):
            other = self.atom()
            if mark == "*":
                if not (form.is_constant or other.is_constant):
                    raise self.wrong("it multiplies two variables")
                form = other * form.const if form.is_constant else form * other.const
            elif not other.is_constant or other.const < 1:
                raise self.wrong(f"{mark} takes a number from 1 on")
            else:
                form = Form.of((Div if mark == "//" else Mod)(form, other.const))
        return form * sign

    def atom(self) -> Form:
        kind, word = self.words[self.at] if self.at < len(self.words) else ("", "")
        self.at += 1
        if kind == "number":
            return Form((), int(word))
        if kind == "name":
            if word not in self.variables:
                known = ", ".join([*self.variables][:8]) or "none"
                raise self.wrong(f"there is no variable {word:.20}, known are {known}")
            return Form.of(self.variables[word])
        if word != "(":
            raise self.wrong(f"{word!r} stands where a variable or a number is due" if word else "it ends too early")
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise self.wrong(f"more than {MOST_NESTED} brackets are open")
        form = self.sum()
        if not self.skip(")"):
            raise self.wrong("a bracket never closes")
        self.depth -= 1
        return form


def _words(text: str) -> list[tuple[str, str]]:
    """(kind, word) of all words."""
    found: list[tuple[str, str]] = []
    at, text = 0, text.rstrip()
    while at < len(text):
        one = _WORD.match(text, at)
        if one is None:
            raise TextSyntaxError(f"{text[at : at + 20]!r} is no part of an index form", None, "write 4*i0 + i1//8")
        word = one[one.lastgroup or 0]
        if one.lastgroup == "number" and len(word) > MOST_DIGITS:
            raise TextSyntaxError(f"a number of {len(word)} digits in a form", None, f"give at most {MOST_DIGITS}")
        found.append((one.lastgroup or "", word))
        at = one.end()
    return found
