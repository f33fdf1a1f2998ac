"""The arguments of one op, read back: ``(%a, [%b, 2], alpha=<n0 3>)``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fusekit.dtypes import BY_NAME
from fusekit.errors import TextSyntaxError
from fusekit.escape import unsymbol
from fusekit.ids import NodeId
from fusekit.index import Form, Var, parse_form
from fusekit.ir.arguments import Arg, Guard, Number, Operand, Symbol
from fusekit.ir.words import ID, MOST_NESTED, NUMBER, STRING, cut, number, size, string

_EXAMPLE = rf"{NUMBER}|True|False|float\('(?:-?inf|nan)'\)"
# Each alternative begins with a character of its own and never reads past its end twice: a text is read in linear time.
_TOKEN = re.compile(
    rf"\s*(?:(?P<tensor>{ID['%']})|<n(?P<index>[0-9]{{1,9}}) (?P<example>{_EXAMPLE})>|`(?P<symbol>[^`]*)`"
    rf"|\{{(?P<form>[^}}]*)\}}|(?P<string>{STRING})|float\('(?P<special>-?inf|nan)'\)"
    rf"|complex\((?P<real>{NUMBER}), (?P<imag>{NUMBER})\)|(?P<number>{NUMBER})(?![\w.])"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<mark>[\[\],=()]))",
    re.ASCII,
)
_PLAIN: dict[str, Arg] = {"True": True, "False": False, "None": None, **BY_NAME}
_GUARD = re.compile(r"0 <= ([^<>]*) < ([0-9]+)")

Read = tuple[tuple[Arg, ...], tuple[tuple[str, Arg], ...], list[NodeId], int]


def read_call(text: str, at: int, variables: Mapping[str, Var]) -> Read:
    """(args, kwargs, operands, position after the closing bracket) of the call that opens at ``at``; ``variables``:
    those in its forms. Raises TextSyntaxError."""
    return _Call(text, at, variables).read()


class _Call:
    def __init__(self, text: str, at: int, variables: Mapping[str, Var]):
        self.text, self.at, self.variables = text, at, variables
        self.token: re.Match[str] | None = None
        self.operands: list[NodeId] = []

    def read(self) -> Read:
        args: list[Arg] = []
        kwargs: dict[str, Arg] = {}
        self.next()
        self.take("(")
        while not self.is_mark(")"):
            name = self.name()
            item = self.item(0)
            if name is None and kwargs:
                raise TextSyntaxError("an argument without a name after one with a name", None, "put it in front")
            if name is None:
                args.append(item)
            elif name in kwargs:
                raise TextSyntaxError(f"the argument {cut(name, 24)} is given twice", None, "give it once")
            else:
                kwargs[name] = item
            if not self.is_mark(")"):
                self.take(",")
        assert self.token is not None
        return tuple(args), tuple(kwargs.items()), self.operands, self.token.end()

    def next(self) -> None:
        """The next token; only ``item`` and ``take`` go on, so none is read past the closing bracket."""
        at = self.at if self.token is None else self.token.end()
        self.token = _TOKEN.match(self.text, at)
        if self.token is None:
            left = self.text[at : at + 20].strip()
            what = f"{left!r} is no argument" if left else "the call never closes"
            raise TextSyntaxError(what, None, "write arguments as docs/text.md has them, in brackets")

    def is_mark(self, mark: str) -> bool:
        return self.token is not None and self.token["mark"] == mark

    def take(self, mark: str) -> None:
        if not self.is_mark(mark):
            found = self.token[0].strip() if self.token is not None else ""
            what = f"{cut(found, 24)!r} stands where {mark!r} is due"
            raise TextSyntaxError(what, None, "write arguments like (%a, [1, 2], alpha=2)")
        self.next()

    def name(self) -> str | None:
        """``alpha`` of ``alpha=2``."""
        assert self.token is not None
        quoted, end = self.token["string"], self.token.end()
        word = string(quoted) if quoted is not None else self.token["name"]
        if word is None or self.text[end : end + 1] != "=":
            return None
        self.next()
        self.take("=")
        return word

    def item(self, depth: int) -> Arg:
        if depth > MOST_NESTED:
            raise TextSyntaxError(f"more than {MOST_NESTED} lists in one another", None, "none is so deep")
        assert self.token is not None
        if not self.is_mark("["):
            found = self.leaf(self.token)
            self.next()
            return found
        items: list[Arg] = []
        self.next()
        while not self.is_mark("]"):
            items.append(self.item(depth + 1))
            if not self.is_mark("]"):
                self.take(",")
        self.next()
        return tuple(items)

    def leaf(self, token: re.Match[str]) -> Arg:
        match token.lastgroup:
            case "tensor":
                self.operands.append(NodeId(token["tensor"]))
                return Operand(len(self.operands) - 1)
            case "example":
                return Number(int(token["index"]), _example(token["example"]))
            case "symbol":
                return Symbol(_symbol(token["symbol"]))
            case "form":
                return self.form(token["form"])
            case "string":
                return string(token["string"])
            case "special":
                return float(token["special"])
            case "imag":
                return complex(number(token["real"]), number(token["imag"]))
            case "number":
                return number(token["number"])
            case "name" if token["name"] in _PLAIN:
                return _PLAIN[token["name"]]
            case _:
                what = f"{cut(token[0].strip(), 24)!r} is no argument"
                raise TextSyntaxError(what, None, "words are True, False, None and element types")

    def form(self, text: str) -> Form | Guard:
        guard = _GUARD.fullmatch(text)
        if guard:
            return Guard(parse_form(guard[1], self.variables), size(guard[2]))
        return parse_form(text, self.variables)


def _example(text: str) -> int | float:
    if text.startswith("float"):
        return float(text[len("float('") : -len("')")])
    return text == "True" if text in ("True", "False") else number(text)


def _symbol(text: str) -> str:
    try:
        return unsymbol(text)
    except (SyntaxError, ValueError) as error:
        raise TextSyntaxError(f"{cut(text, 24)!r} is no symbol: {error}", None, "write it as x.text() does") from None
