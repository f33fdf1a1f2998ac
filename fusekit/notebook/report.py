"""One HTML file that holds everything: the stepper in a read-only mode, every picture, no kernel and no network."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fusekit.escape import clean, html, json_in_html
from fusekit.notebook.document import Document, document, plain
from fusekit.notebook.explored import Explored
from fusekit.notebook.page import script, stylesheet
from fusekit.notebook.state import Result, State, start, where
from fusekit.progress import progress

# The page may run its own script and show its own pictures, and can reach nothing else.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
MOST_PICTURE_BYTES = 24_000_000

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body class="fk-page">
<h1>{title}</h1>
<main id="fk-root" aria-label="{title}"></main>
<noscript><p>This page steps through its pictures by script. As text, the last step is:</p><pre>{text}</pre></noscript>
<script type="application/json" id="fk-data">{data}</script>
<script type="module">
{script}
showPage(document.getElementById("fk-root"), JSON.parse(document.getElementById("fk-data").textContent));
</script>
</body>
</html>
"""


def report(x: Explored, path: str | Path, check: Result | None = None) -> Path:
    """Write the page of an exploration, in one step: a reader sees the old file or the whole new one."""
    shown = document(x)
    target = Path(path)
    drawn = dict(progress(pictures(x, shown), "drawing", "picture"))
    text = page(shown, drawn, replace(start(shown), check=check or Result()))
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target


def page(shown: Document, svgs: dict[str, str], state: State) -> str:
    """The page's text; ``svgs`` by the key of ``picture_key``. The same text for the same exploration and timings."""
    data = {
        "document": plain(shown),
        "where": where(state),
        "results": {"check": plain(state.check), "run": plain(state.run)},
        "pictures": svgs,
    }
    title = f"fusekit: {shown.program}"
    text = "\n".join(line.text for line in shown.steps[-1].text)
    return PAGE.format(
        policy=POLICY,
        title=html(title),
        style=stylesheet().replace("</", "<\\/"),
        text=html(text),
        data=json_in_html(data),
        script=script().replace("</script", "<\\/script"),
    )


def pictures(x: Explored, shown: Document) -> Iterator[tuple[str, str]]:
    """Every picture of every step: each view, plain and with what changed. Past a size, only the best view is kept."""
    total = 0
    for k, step in enumerate(shown.steps):
        best_first = sorted(step.views, key=lambda view: view != step.best)
        for view in best_first:
            for since in (False, True) if k else (False,):
                if total > MOST_PICTURE_BYTES and (view != step.best or since):
                    continue
                svg = picture(x, k, view, since)
                total += len(svg)
                yield picture_key(k, view, since), svg


def picture(x: Explored, step: int, view: str, since: bool) -> str:
    """The SVG of one picture; where it cannot be drawn, one that says why."""
    try:
        return x.diagram(step, view, step - 1 if since and step else None).svg
    except Exception as error:
        return message_svg(f"{type(error).__name__}: {error}")


def picture_key(step: int, view: str, since: bool) -> str:
    """How a page asks for a picture."""
    return f"{step}|{view}|{int(since)}"


def message_svg(text: str) -> str:
    """A picture that only says something."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="640" height="60" viewBox="0 0 640 60" role="img">'
        f'<text x="16" y="34" font-size="12" fill="#59636e">{html(clean(text[:300]))}</text></svg>'
    )
