"""Links between the Markdown files lead somewhere."""

import re

import pytest

from tests.conftest import ROOT

PAGES = [
    path for path in sorted(ROOT.rglob("*.md")) if not {".venv", "out", ".git"} & set(path.relative_to(ROOT).parts)
]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def anchors_of(text: str) -> set[str]:
    """The anchors that GitHub makes of the headings: lower case, spaces to hyphens, punctuation dropped."""
    headings = re.findall(r"^#+ +(.+?) *$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page):
    broken = []
    for link in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in anchors_of(target.read_text("utf-8"))
        ):
            broken.append(link)
    assert not broken, f"{page.name}: {broken}"
