"""The page in one file: whole, self-contained, and safe whatever the program's names are."""

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from fusekit import cli
from fusekit.errors import UnsupportedError
from fusekit.escape import json_in_html
from fusekit.notebook import document, page
from fusekit.notebook.page import script, stylesheet
from fusekit.notebook.report import pictures
from fusekit.notebook.state import start
from tests.notebook.samples import HOSTILE, aliased, several


class Page(HTMLParser):
    """Tags, ids and script texts of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data

    @property
    def data(self) -> dict:
        return json.loads(self.scripts[0])


@pytest.fixture(scope="module", params=[aliased, several], ids=["aliased", "several"])
def written(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "deep" / "page.html"
    x = request.param()
    assert x.report(path) == path
    return x, path.read_text("utf-8")


def test_it_holds_every_picture(written):
    _, text = written
    found = Page(text).data
    for k, step in enumerate(found["document"]["steps"]):
        for view in step["views"]:
            for since in (0, 1)[: 1 + (k > 0)]:
                ET.fromstring(found["pictures"][f"{k}|{view}|{since}"])
    assert found["results"]["check"]["status"] == "ok"


def test_it_asks_for_nothing(written):
    tags = Page(written[1]).tags
    for tag, attributes in tags:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        assert not {"src", "srcset", "href", "action", "poster"} & set(attributes), (tag, attributes)
    policy = next(a["content"] for t, a in tags if t == "meta" and "http-equiv" in a)
    assert "default-src 'none'" in policy
    code = script() + stylesheet()
    assert not re.search(r"https?://(?!www\.w3\.org)|\bfetch\(|XMLHttpRequest|@import|url\((?!#)|\bimport\s*\(", code)


def test_ids_are_unique(written):
    ids = [a["id"] for _, a in Page(written[1]).tags if "id" in a]
    assert len(ids) == len(set(ids))
    for svg in Page(written[1]).data["pictures"].values():
        inner = [e.get("id") for e in ET.fromstring(svg).iter() if e.get("id")]
        assert len(inner) == len(set(inner))


def test_it_has_two_scripts_and_no_handler(written):
    tags = Page(written[1]).tags
    assert [a.get("type") for t, a in tags if t == "script"] == ["application/json", "module"]
    assert not [name for _, a in tags for name in a if name.startswith("on")]
    assert "window.hacked" not in "".join(Page(written[1]).scripts[1:])


def test_the_pages_script_never_reads_text_as_html():
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script())


def test_embedded_data_ends_no_script():
    data = {"name": HOSTILE, "comment": "<!-- ]]> \u2028 &lt;"}
    text = json_in_html(data)
    assert not set("<>&\u2028") & set(text) and json.loads(text) == data


def test_hostile_names_stay_text():
    x = several()
    shown = document(x)
    hostile = type(shown)(**{**{f: getattr(shown, f) for f in shown.__slots__}, "program": HOSTILE})
    tags = Page(page(hostile, dict(pictures(x, shown)), start(shown))).tags
    assert [t for t, _ in tags].count("script") == 2 and not [t for t, _ in tags if t in ("img", "b")]


def test_the_same_exploration_writes_the_same_page(tmp_path):
    x = aliased()
    one, two = (x.report(tmp_path / name, check=False).read_bytes() for name in ("one.html", "two.html"))
    assert one == two


def test_a_failed_write_leaves_the_old_page(tmp_path, monkeypatch):
    target = tmp_path / "page.html"
    target.write_text("old")

    def _fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("os.replace", _fail)
    with pytest.raises(OSError, match="disk is full"):
        aliased().report(target, check=False)
    assert target.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["page.html"]


MODULE = """
import torch

def with_defaults(a=torch.ones(3), scale=2.0, *, shift=torch.zeros(3)):
    return a * scale + shift

def factory():
    return with_defaults, (torch.ones(2), 3.0), {"shift": torch.ones(2)}

def lacking(a, b=1):
    return a

def wrong():
    return 5
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "a_users_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return "a_users_module"


@pytest.mark.parametrize("name", ["with_defaults", "factory"])
def test_the_command_writes_a_page(module, name, tmp_path, capsys):
    out = tmp_path / f"{name}.html"
    assert cli.main(["report", f"{module}:{name}", "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    assert Page(out.read_text("utf-8")).data["document"]["program"] == "with_defaults"


@pytest.mark.parametrize(
    ("name", "says"), [("lacking", "no default for a"), ("wrong", "returned int"), ("torch", "no function")]
)
def test_the_command_says_what_is_wrong(module, name, says):
    with pytest.raises(UnsupportedError, match=says):
        cli.program_of(f"{module}:{name}")
