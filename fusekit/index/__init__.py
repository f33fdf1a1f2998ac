"""Index forms: linear in loop variables, with floor division and modulo, simplified by ranges."""

from fusekit.index.form import ZERO, Div, Form, Mod, Var, loop_vars, number_var, put, substitute
from fusekit.index.text import parse_form, print_form

__all__ = [
    "ZERO",
    "Div",
    "Form",
    "Mod",
    "Var",
    "loop_vars",
    "number_var",
    "parse_form",
    "print_form",
    "put",
    "substitute",
]
