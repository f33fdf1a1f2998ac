"""Text that others chose (names, files, keys, errors), made data where it meets a language: one function a language.

Who writes such text into a source, a page or a terminal calls the function of that language, and nothing else escapes.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from hashlib import sha256
from html import escape

# ---- a terminal ---------------------------------------------------------------------------------------------------


def line(text: object) -> str:
    """One line for a terminal: what does not print (controls, line ends, bidirectional marks, lone surrogates) as
    Python's escapes."""
    shown = str(text)
    return shown if shown.isprintable() else "".join(map(_printed, shown))


def lines(text: object) -> str:
    """The same for a text of several lines: its line feeds stay."""
    return "\n".join(map(line, str(text).split("\n")))


def _printed(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


# ---- Python -------------------------------------------------------------------------------------------------------


def comment(text: object) -> str:
    """The words of a comment, of Python or of our IR: they end where the line ends, and hold no quote."""
    return line(text).replace("'", "\\x27").replace('"', "\\x22")


def is_name(text: str) -> bool:
    """May a Python source say this name as it is? What is not ASCII may be another name to the parser (NFKC)."""
    return text.isascii() and text.isidentifier() and not keyword.iskeyword(text)


def identifier(text: str) -> str:
    """An identifier of ASCII letters, digits and underscores."""
    stem = re.sub(r"[^A-Za-z0-9_]", "_", text) or "v"
    return f"v_{stem}" if stem[0].isdigit() or keyword.iskeyword(stem) else stem


def literal(text: str) -> str:
    """A string literal, of Python or of our IR, on one line of characters that print."""
    return str.__repr__(text)


def attribute(holder: str, name: str) -> str:
    """The expression that reads an attribute of the object that the expression ``holder`` gives."""
    return f"{holder}.{name}" if is_name(name) else f"getattr({holder}, {literal(name)})"


def arguments(words: dict[str, str]) -> list[str]:
    """Keyword arguments of a call, by name their expressions; names that no source can say go by a dict."""
    plain = [f"{name}={value}" for name, value in words.items() if is_name(name)]
    odd = [f"{literal(name)}: {value}" for name, value in words.items() if not is_name(name)]
    return [*plain, f"**{{{', '.join(odd)}}}"] if odd else plain


# ---- our IR -------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[A-Za-z_][\w.:+/-]*", re.ASCII)
_LITERAL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


def node_name(text: str) -> str:
    """The name in a node's id: letters, digits, underscores and dots."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", text)


def word(text: str) -> str:
    """A name as one word of the IR: as it is, or as a literal without a space; ``unword`` reads it back."""
    return text if _WORD.fullmatch(text) else _quoted(text, " ")


def phrase(text: str) -> str:
    """Words up to the end of a line, as they are where nothing ends them early; ``unword`` reads them back."""
    plain = text.isprintable() and text == text.strip() and text[:1] not in ("'", '"', "") and "#" not in text
    return text if plain else _quoted(text)


def unword(text: str) -> str:
    """The text of a word or of a phrase. Raises ValueError or SyntaxError for a broken literal."""
    if text[:1] not in ("'", '"'):
        return text
    if not _LITERAL.fullmatch(text):
        raise ValueError(f"{text} is no string")
    return ast.literal_eval(text)


def symbol(text: str) -> str:
    """A named constant between back quotes; ``unsymbol`` reads what is between them."""
    return f"`{_quoted(text, '`#')[1:-1]}`"


def unsymbol(text: str) -> str:
    """The name between back quotes. Raises SyntaxError for a broken escape."""
    return ast.literal_eval("'" + text.replace("'", "\\x27") + "'") if "\\" in text else text


def _quoted(text: str, also: str = "") -> str:
    """A literal in single quotes, in which no quote and no character of ``also`` stands as it is."""
    hidden = f"'\"{also}"
    kept = ("\\\\" if c == "\\" else f"\\x{ord(c):02x}" if c in hidden else _printed(c) for c in text)
    return f"'{''.join(kept)}'"


# ---- XML, SVG, HTML -----------------------------------------------------------------------------------------------

# Not legal in XML, or able to reorder what stands around them (bidirectional controls).
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_SHOWN = {"\n": "↵", "\t": " ", "\r": ""}


def clean(text: str) -> str:
    """One line of legal XML characters; what may not appear is shown as a replacement mark."""
    return _UNSAFE.sub(lambda match: _SHOWN.get(match[0], "\ufffd"), str(text))


def prose(text: str) -> str:
    """The same for a tooltip or a description, which may have lines."""
    return "\n".join(clean(line) for line in str(text).split("\n"))


def html(text: str) -> str:
    """Text, or a quoted attribute's value, of HTML or XML; tabs stay, since sources are shown in pages."""
    return escape(shown(text), quote=True)


# ---- JSON ---------------------------------------------------------------------------------------------------------


def shown(text: str) -> str:
    """A string that a page gets: every UTF-8 writer takes it; line feeds and tabs stay."""
    return _UNSAFE.sub(lambda match: match[0] if match[0] in "\n\t" else _SHOWN.get(match[0], "\ufffd"), str(text))


def json_in_html(data: object) -> str:
    """JSON that no HTML parser reads as a tag or a comment, and no script as the end of a line."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)


# ---- DOT ----------------------------------------------------------------------------------------------------------

# Stands behind these until the SVG is finished: Graphviz would read "&lt;" in a name as "<", and "\\G" as its graph's.
_JOINER, _SPECIAL = "\u2060", re.compile(r"[&\\]")


def label(text: str) -> str:
    """``text`` for an HTML-like label of Graphviz; ``unlabel`` undoes what is left in the SVG."""
    return escape(_SPECIAL.sub(lambda match: match[0] + _JOINER, clean(text)), quote=True)


def unlabel(text: str) -> str:
    """The text of a label as it was before ``label``; of several spaces Graphviz makes no-break ones."""
    return re.sub(f"([&\\\\]){_JOINER}", r"\1", text).replace("\u00a0", " ")


def dot_name(key: str) -> str:
    """A name for DOT: keys that differ get names that differ, and no character in it means anything to DOT."""
    name = re.sub(r"[^A-Za-z0-9.%^@$]", lambda match: f"_{ord(match[0]):x}_", key)
    return name if len(name) <= 120 else f"{name[:60]}_{sha256(key.encode(errors='replace')).hexdigest()[:24]}"
