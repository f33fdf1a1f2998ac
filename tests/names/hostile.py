"""Programs whose every name is a stranger's: files, functions, modules, classes, arguments, keys, strings, passes."""

import unicodedata
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st

import fusekit as fk

NAMES = (
    "x\nimport os; os.system('false')\ndef rest():\n  if 1:\n        pass  #",
    "a\rb = 1", "a\fb", "a\vb", "a\x1cb", "a\x85b = 1", "a\u2028b = 1", "a\u2029b", "nul\0", "lone\ud800",
    "\u202eoverride\u202c", "\u2066isolate\u2069", "\x1b[2J\x1b]0;title\x07", "\x9b31m", "del\x7f", "\u200b\ufeff",
    "'", '"', "'''", '"""', "\\", "\\n", "\\'", "`", "#", "  # ", "  # a.py:1", "a  # b:2 ", "{", "}", "{0}", "{x!r}",
    "</script><script>alert(1)</script>", "<!--", "]]>", "&amp;", "&#x3c;b>", "<b onload='f()'>", "\\G", "\\N", "->",
    "$(touch pwned)", "../../etc/pwned", "/", "..", "", " ", "a b", "class", "None", "1", "µ", "ﬁ", "𝐱", "é", "²",
    "floor_div", "np", "fk", "because {", "graph x {", ";", "%s", "名", "\udc80\udcff", "x" * 300,
)  # fmt: skip
texts = st.one_of(
    st.sampled_from(NAMES),
    st.text(st.characters(), max_size=12),
    st.text("\n\r\"'`\\#{}<>&\x1b \u2028", max_size=8),
)

BODY = "def f(x, y):\n    z = (x + y).relu()\n    x.mul_(z)\n    return z.sum(1), x * 2\n"


def program(file: str = "plain.py", name: str = "f", module: str | None = None) -> Callable[..., Any]:
    """A function out of a file with this name."""
    space: dict[str, Any] = {"__name__": module} if module is not None else {}
    exec(BODY, space)
    found = space["f"]
    found.__code__ = found.__code__.replace(co_filename=file)  # compile() takes no NUL
    found.__name__ = found.__qualname__ = name
    return found


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    """What the program takes."""
    return torch.arange(12.0).reshape(3, 4), torch.ones(3, 4)


def explored(file: str = "plain.py", name: str = "f", backend: str = "cpu") -> fk.Exploration:
    """The program, explored."""
    return fk.explore(program(file, name), *operands(), options=fk.Options(backend=backend))


def is_calm(text: str) -> bool:
    """Nothing in a text but line feeds moves a cursor, ends a line, turns its direction or is no character."""
    return all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in text)
