"""Each language's function: what it gives is one token of that language, and says what was given."""

import ast
import json
import xml.etree.ElementTree as ET
from html import unescape
from types import SimpleNamespace

import pytest
from hypothesis import given

from fusekit import escape
from tests.names.hostile import NAMES, is_calm, texts


@given(texts)
def test_terminal(text: str) -> None:
    assert escape.line(text).isprintable() and is_calm(escape.lines(text))
    assert escape.line(text) == text or not text.isprintable()


@given(texts)
def test_python(text: str) -> None:
    assert ast.literal_eval(escape.literal(text)) == text and escape.literal(text).isprintable()
    assert ast.dump(ast.parse(f"x = 1  # {escape.comment(text)}\n")) == ast.dump(ast.parse("x = 1\n"))
    assert escape.identifier(text).isidentifier() and escape.is_name(escape.identifier(text))
    assert eval(escape.attribute("it", text), {"it": SimpleNamespace(**{text: 5})}) == 5
    assert eval(f"dict({', '.join(escape.arguments({text: '3', 'a': '4'}))})") == {text: 3} | {"a": 4}


@given(texts)
def test_ir(text: str) -> None:
    word, phrase = escape.word(text), escape.phrase(text)
    assert escape.unword(word) == text and len(word.split()) == 1 and is_calm(word)
    assert escape.unword(phrase) == text and phrase.splitlines() == [phrase] and phrase.strip() == phrase
    assert escape.unsymbol(escape.symbol(text)[1:-1]) == text and escape.symbol(text).count("`") == 2
    assert escape.node_name(text).isascii() and not set(escape.node_name(text)) & set(" %^@$#!\n")


@pytest.mark.parametrize("text", ["'a', 'b'", "'", '"a', "'a' + f()", "'a' 'b'", "'a'.b"])
def test_a_word_that_is_no_single_string_is_refused(text: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        escape.unword(text)


@given(texts)
def test_xml_and_html(text: str) -> None:
    shown = escape.html(text)
    assert unescape(shown) == escape.shown(text)
    (child,) = [*ET.fromstring(f'<a b="{shown}"><c>{shown}</c></a>'.encode())]
    assert child.text is None or child.text == escape.shown(text)
    assert "\n" not in escape.clean(text) and escape.prose(text).count("\n") == text.count("\n")
    ET.fromstring(f"<a>{escape.label(text)}</a>".encode())
    assert escape.unlabel(unescape(escape.label(text))) == escape.clean(text).replace("\u00a0", " ")


@given(texts)
def test_json(text: str) -> None:
    data = escape.json_in_html({text: [text]})
    assert json.loads(data) == {text: [text]} and not set(data) & set("<>&\u2028\u2029")
    data.encode()
    escape.shown(text).encode()


def test_names_that_differ_are_nodes_that_differ_in_dot() -> None:
    assert len({escape.dot_name(name) for name in NAMES}) == len(NAMES)
