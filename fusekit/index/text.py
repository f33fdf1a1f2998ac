"""Forms as text that a person reads and that parses back to the very same form."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from fusekit.errors import TextSyntaxError
from fusekit.index.form import Atom, Div, Form, Mod, Var


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
    """The form that ``print_form`` printed; ``variables``: what each name stands for. No rule is applied anew."""
    try:
        return _form(ast.parse(text.strip(), mode="eval").body, variables)
    except (SyntaxError, ValueError, KeyError) as error:
        raise TextSyntaxError(f"{text!r} is no index form: {error}") from error


def _form(node: ast.expr, variables: Mapping[str, Var]) -> Form:
    match node:
        case ast.Constant(value=int(value)):
            return Form((), value)
        case ast.Name(id=name):
            return Form.of(variables[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _form(operand, variables) * -1
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            a, b = _form(left, variables), _form(right, variables)
            return Form.make(a.terms + b.terms, a.const + b.const)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            a, b = _form(left, variables), _form(right, variables) * -1
            return Form.make(a.terms + b.terms, a.const + b.const)
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if (k := _form(left, variables)).is_constant:
            return _form(right, variables) * k.const
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=ast.Constant(value=int(by))) if by > 0:
            return Form.of(Div(_form(left, variables), by))
        case ast.BinOp(left=left, op=ast.Mod(), right=ast.Constant(value=int(by))) if by > 0:
            return Form.of(Mod(_form(left, variables), by))
    raise ValueError(ast.dump(node))
