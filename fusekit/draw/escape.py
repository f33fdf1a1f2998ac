"""Text from user code made safe for DOT, HTML-like labels and XML. Nothing else in this room escapes."""

from __future__ import annotations

import re
from hashlib import sha256
from html import escape

from fusekit.draw.looks import LONGEST

# Not legal in XML, or able to reorder what stands around them (bidirectional controls).
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_SHOWN = {"\n": "↵", "\t": " ", "\r": ""}
# Stands behind these until the SVG is finished: Graphviz would read "&lt;" in a name as "<", and "\\G" as its graph's.
_JOINER, _SPECIAL = "\u2060", re.compile(r"[&\\]")


def clean(text: str) -> str:
    """One line of legal XML characters; what may not appear is shown as a replacement mark."""
    return _UNSAFE.sub(lambda match: _SHOWN.get(match[0], "\ufffd"), str(text))


def prose(text: str) -> str:
    """The same for a tooltip or a description, which may have lines."""
    return "\n".join(clean(line) for line in str(text).split("\n"))


def shorten(text: str, longest: int = LONGEST) -> str:
    """``text`` with its middle left out when it is longer than a label may be."""
    if len(text) <= longest:
        return text
    tail = longest // 3
    return f"{text[: longest - tail - 1]}…{text[-tail:]}"


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
