"""The words that lines of a graph are made of, with bounds: a text of any kind is read in linear time, or refused with
TextSyntaxError."""

from __future__ import annotations

import ast
import re

from fusekit.errors import TextSyntaxError

LONGEST_TEXT = 1 << 28  # characters
LONGEST_LINE = 1 << 20  # characters: 100,000 operands
MOST_NESTED = 64  # lists in lists, in an argument
MOST_DIGITS = 4000  # of a number that is an argument: Python itself reads no more than 4,300
LARGEST = (1 << 62) - 1  # of sizes, bytes and extents: sums of two still fit into 64 bits, in which kernels compute

ID = {sigil: rf"{re.escape(sigil)}[A-Za-z0-9_.]+" for sigil in "%^@$#!"}
NUMBER = r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|-?inf|nan"
_ESCAPE = r"\\(?:[\\'\"abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
STRING = rf"'(?:[^'\\]|{_ESCAPE})*'|\"(?:[^\"\\]|{_ESCAPE})*\""


def cut(text: str, most: int = 80) -> str:
    """The text, or its head with three dots: errors quote no line of a megabyte."""
    return text if len(text) <= most else f"{text[:most]} ... ({len(text):,} characters)"


def size(text: str) -> int:
    """A number of elements or bytes."""
    if len(text) > 20 or not 0 <= (found := int(text)) <= LARGEST:
        raise TextSyntaxError(f"{cut(text, 24)} is too large", None, f"sizes are at most {LARGEST:,}")
    return found


def sizes(text: str) -> tuple[int, ...]:
    """``4,3``; a minus sign is for strides."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        if not re.fullmatch(r"-?[0-9]+", part):
            raise TextSyntaxError(f"{cut(part, 24)!r} is no whole number", None, "write a list of numbers like 4,3")
        found.append(-size(part[1:]) if part[0] == "-" else size(part))
    return tuple(found)


def number(text: str) -> int | float:
    """A number that matches NUMBER."""
    if len(text) > MOST_DIGITS:
        raise TextSyntaxError(f"a number of {len(text):,} characters", None, f"at most {MOST_DIGITS:,} are read")
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else float(text)


def string(text: str) -> str:
    """A Python string literal that matches STRING."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError) as error:  # \Uffffffff, or a character that no source may have
        raise TextSyntaxError(f"{cut(text, 24)} is no string: {error}", None, "write it as repr() does") from None
