"""The page in a real Chromium: as one file from disk without a network, and as a widget in a real JupyterLab."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from fusekit.draw import LIGHT
from fusekit.notebook import document
from fusekit.notebook import page as page_of
from fusekit.notebook.report import pictures
from fusekit.notebook.state import start
from tests.notebook.browser import chromium, jupyterlab, lacks, run_all, write_notebook
from tests.notebook.samples import HOSTILE, aliased, several

pytestmark = pytest.mark.notebook
CANNOT, CANNOT_LAB = lacks(), lacks("jupyterlab")

UNIQUE_IDS = """(() => {
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  return ids.length - new Set(ids).size;
})()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def open_page(browser, tmp_path) -> Iterator[object]:
    """A function that writes an exploration's page and opens it without a network; ``log`` has what went wrong."""
    contexts = []

    def opened(x, place="", scheme="light", size=(1280, 860)):
        path = x.report(tmp_path / "page.html", check=False)
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, offline=True)
        contexts.append(context)
        page, log = context.new_page(), []
        page.on("console", lambda m: log.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: log.append(str(e)))
        page.on("request", lambda r: log.append(r.url) if not r.url.startswith("file:") else None)
        page.goto(path.as_uri() + place)
        page.wait_for_selector("[data-ready]")
        return SimpleNamespace(page=page, log=log)

    yield opened
    for context in contexts:
        context.close()


def step_of(page) -> str:
    return page.locator(".fk-step[aria-current]").get_attribute("data-step")


@pytest.mark.skipif(CANNOT is not None, reason=str(CANNOT))
class TestPage:
    def test_it_steps_by_click_and_by_key_and_says_so(self, open_page):
        opened = open_page(aliased())
        page, last = opened.page, len(aliased().steps) - 1
        assert step_of(page) == str(last)
        page.locator("[data-step='0']").click()
        assert step_of(page) == "0" and page.locator("[data-ready]").get_attribute("data-ready") == "0|program|0"
        page.keyboard.press("ArrowRight")
        assert step_of(page) == "1"
        assert page.locator("[role=status]").inner_text().startswith(f"step 2 of {last + 1}: alias-groups")
        page.keyboard.press("End")
        assert step_of(page) == str(last) and not opened.log

    def test_a_selected_op_is_lit_everywhere(self, open_page):
        page = open_page(aliased()).page
        page.locator(".fk-picture g.node[data-op='^2']").click()
        assert page.locator(".fk-picture g.node.fk-lit").get_attribute("data-op") == "^2"
        for pane in (".fk-source", ".fk-kernel"):
            assert page.locator(f"{pane} li.fk-lit").count() >= 1
        page.keyboard.press("t")
        assert page.locator(".fk-kernel li.fk-lit").all_inner_texts()[0].lstrip("0123456789 \n").startswith("^2")
        assert page.locator(".fk-card h3").inner_text().startswith("tanh")
        page.keyboard.press("Escape")
        assert page.locator(".fk-lit").count() == 0

    def test_a_kernel_line_lights_its_ops_and_one_without_says_so(self, open_page):
        page = open_page(aliased()).page
        page.locator(".fk-kernel li", has_text="tanh(").first.click()
        assert page.locator(".fk-picture g.node.fk-lit").get_attribute("data-op") == "^2"
        page.locator(".fk-kernel li", has_text="def ").first.click()
        page.mouse.move(1, 1)
        assert page.locator(".fk-lit").count() == 0
        assert page.locator(".fk-kernel .fk-note").inner_text() == "no mapped op"

    def test_an_address_leads_back(self, open_page):
        first = open_page(aliased(), f"#step=functionalize&since&node={quote('^1')}").page
        assert step_of(first) == "2" and first.locator("[data-ready]").get_attribute("data-ready") == "2|program|1"
        assert first.locator(".fk-picture .fk-lit[data-op='^1']").count() == 1
        first.keyboard.press("ArrowLeft")
        assert "step=2" in first.url and quote("^1") in first.url

    def test_the_last_of_many_keys_wins(self, open_page):
        page = open_page(aliased()).page
        for key in ("Home", *["ArrowRight"] * 9, *["ArrowLeft"] * 2):
            page.keyboard.press(key) if key != "Home" else page.locator(".fk-stage").press(key)
        at = step_of(page)
        assert at == str(len(aliased().steps) - 3)
        assert page.locator("[data-ready]").get_attribute("data-ready").startswith(f"{at}|")

    def test_changes_are_listed_and_marked(self, open_page):
        page = open_page(aliased(), "#step=functionalize").page
        page.locator(".fk-stage").press("d")
        assert page.locator(".fk-head [aria-pressed=true]").inner_text() == "changes since alias-groups"
        assert page.locator(".fk-picture .fk-added").count() > 0
        page.get_by_role("button", name="Changes", exact=False).last.click()
        nodes = aliased().diff("alias-groups", "functionalize")
        assert page.locator(".fk-change.fk-removed i", has_text="→").count() + len(nodes.removed) == (
            page.locator(".fk-change.fk-removed").count()
        )

    def test_a_row_of_the_merge_log_selects_both_and_stays_in_sight(self, open_page):
        page = open_page(several(), "#step=segment").page
        page.locator("[data-tab=merges]").click()
        rows = next(step.merges for step in document(several()).steps if step.name == "segment")
        assert page.locator(".fk-merge").count() == len(rows)
        place = next(k for k, row in enumerate(rows) if row.nodes == ("$0", "$1"))
        page.locator(".fk-merge").nth(place).click()
        lit = {e.get_attribute("data-op") for e in page.locator(".fk-picture g.cluster.fk-lit").all()}
        assert lit == {"$0", "$1"} and page.locator(".fk-merge.fk-lit").count() == 1
        page.locator("[data-tab=why]").click()
        assert page.locator(".fk-apart h3").inner_text() == "Why S0 and S1 are two"
        assert "in place of that library call" in page.locator(".fk-apart").inner_text()

    def test_two_segments_say_why_they_are_two(self, open_page):
        page = open_page(several(), "#step=segment").page
        page.locator(".fk-picture [id$='$0-tab']").click()
        assert page.locator(".fk-apart").count() == 0
        page.locator(".fk-picture [id$='$1-tab']").click(modifiers=["Shift"])
        assert page.locator(".fk-apart h3").inner_text() == "Why S0 and S1 are two"
        assert page.locator(".fk-wish").is_hidden(), "a page has no kernel to ask"

    def test_the_race_record_has_the_hazards_bar(self, open_page):
        page = open_page(aliased()).page
        row = page.locator(".fk-kernel .fk-races button").first
        assert "is loaded by" in row.inner_text()
        color = row.evaluate("(e) => getComputedStyle(e).borderLeftColor")
        assert color == "rgb({}, {}, {})".format(*bytes.fromhex(LIGHT["hazard"].removeprefix("#")))

    def test_search_walks_the_hits(self, open_page):
        page = open_page(aliased(), "#step=trace").page
        page.locator("input[type=search]").fill("op:aten")
        assert page.locator(".fk-count").inner_text() == "3 found"
        for node in ("^1", "^2", "^3", "^1"):
            page.keyboard.press("Enter")
            assert page.locator(".fk-picture g.node.fk-lit").get_attribute("data-op") == node

    def test_a_picture_can_be_saved(self, open_page):
        page = open_page(aliased()).page
        with page.expect_download() as saved:
            page.get_by_role("button", name="svg", exact=True).click()
        assert saved.value.suggested_filename == f"in_place.{aliased().steps[-1].name}.svg"
        assert saved.value.path().read_text("utf-8").startswith("<svg")

    def test_fit_brings_everything_into_view(self, open_page):
        page = open_page(aliased(), size=(1100, 460)).page
        drawing, stage = page.locator(".fk-picture svg"), page.locator(".fk-stage")
        assert drawing.bounding_box()["height"] > stage.bounding_box()["height"], "it begins at a size that can be read"
        page.get_by_role("button", name="fit", exact=True).click()
        assert drawing.bounding_box()["height"] <= stage.bounding_box()["height"]

    def test_ids_are_unique_and_two_pictures_do_not_meet(self, open_page):
        page = open_page(aliased()).page
        for _ in aliased().steps:
            assert page.evaluate(UNIQUE_IDS) == 0
            page.locator(".fk-stage").press("ArrowLeft")

    def test_a_users_text_stays_text(self, open_page):
        opened = open_page(several())
        assert opened.page.evaluate("typeof window.hacked") == "undefined"
        assert opened.page.locator(".fk-source").inner_text().count("</script>") == 1
        assert opened.page.locator(".fk-stepper b[onclick], .fk-stepper script").count() == 0
        assert not opened.log

    def test_words_that_mean_harm_are_shown_as_they_are(self, browser, tmp_path):
        x = several()
        shown = document(x)
        *before, last = shown.steps
        said = tuple(replace(one, title=HOSTILE, sentence=HOSTILE) for one in last.said)
        steps = (*before, replace(last, name=HOSTILE, said=said, delta=HOSTILE))
        hostile = replace(shown, program=HOSTILE, signature=HOSTILE, steps=steps, problem=HOSTILE)
        path = tmp_path / "page.html"
        path.write_text(page_of(hostile, dict(pictures(x, shown)), start(shown)), "utf-8")
        page = browser.new_page()
        page.goto(path.as_uri())
        page.wait_for_selector("[data-ready]")
        assert page.evaluate("typeof window.hacked") == "undefined" and page.title().endswith(HOSTILE)
        for part in (".fk-signature", ".fk-why", ".fk-rail", ".fk-problem"):
            assert HOSTILE in page.locator(part).inner_text()
        page.close()

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_words_stand_out_in_both_themes(self, open_page, scheme):
        page = open_page(aliased(), scheme=scheme).page
        assert page.locator(".fk-stepper").get_attribute("data-theme") == scheme
        faint = page.evaluate(CONTRAST)
        assert not faint, json.dumps(faint)

    def test_a_picture_that_was_asked_for_and_left_is_not_waited_for(self, open_page):
        page = open_page(aliased(), "#step=functionalize").page
        page.evaluate("document.querySelector('.fk-wait').hidden = false")  # as if another one were on its way
        page.locator(".fk-stage").press("d")
        page.locator(".fk-stage").press("d")
        assert page.locator(".fk-wait").is_hidden()

    def test_what_is_wider_than_the_window_begins_at_its_left_edge(self, open_page):
        page = open_page(aliased(), "#step=functionalize&view=memory", size=(600, 900)).page
        page.evaluate("document.querySelector('.fk-stage').style.width = '200px'")
        page.wait_for_timeout(200)
        stage, picture = (page.locator(at).bounding_box() for at in (".fk-stage", ".fk-picture svg"))
        assert picture["width"] > stage["width"] and picture["x"] >= stage["x"]

    def test_all_of_one_picture_is_not_all_of_the_next(self, open_page):
        page = open_page(aliased(), "#step=trace", size=(600, 900)).page
        page.evaluate("document.querySelector('.fk-stage').style.width = '160px'")
        page.wait_for_timeout(200)
        page.locator(".fk-stage").press("0")
        assert page.locator(".fk-picture svg").bounding_box()["width"] <= 160
        page.locator(".fk-stage").press("End")
        assert page.locator(".fk-picture svg").bounding_box()["width"] > 160

    def test_on_paper_the_picture_is_whole(self, open_page):
        page = open_page(aliased()).page
        page.emulate_media(media="print")
        picture, why = (page.locator(at).bounding_box() for at in (".fk-picture svg", ".fk-side"))
        assert picture["width"] > 100 and picture["height"] > 100
        assert page.locator(".fk-tools").first.is_hidden()
        assert why["y"] >= picture["y"] + picture["height"] or why["x"] >= picture["x"] + picture["width"]

    @pytest.mark.parametrize("width", [320, 800, 1600])
    def test_nothing_sticks_out_of_any_width(self, open_page, width):
        page = open_page(aliased(), size=(width, 900)).page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator(".fk-picture svg").bounding_box()["width"] > 40


# Every visible run of words against what is painted behind it; 4.5 to 1 or it is listed.
CONTRAST = """() => {
  const rgb = (c) => c.match(/[\\d.]+/g).map(Number), part = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0.9) return c; } return [255, 255, 255]; };
  const found = [];
  for (const e of document.querySelectorAll('.fk-stepper *')) {
    if (e.closest('svg, :disabled, [hidden]') || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))], ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push([e.className, e.textContent.slice(0, 20), ratio.toFixed(2)]);
  }
  return found;
}"""  # noqa: E501

FIRST = """import torch, fusekit as fk
def f(a, b):
    return a.exp_() * b.tanh_()
a = torch.linspace(-1, 1, 20).reshape(4, 5)
x = fk.explore(f, a, a[0, 0])
x"""
SECOND = "x.stepper(step='trace')"
STILLS = "[...document.querySelectorAll('[data-fk-still] img')].filter((e) => e.offsetParent !== null).length"


@pytest.mark.skipif(CANNOT_LAB is not None, reason=str(CANNOT_LAB))
def test_two_widgets_in_jupyterlab(browser, tmp_path, root):
    write_notebook(tmp_path / "page.ipynb", FIRST, SECOND)
    with jupyterlab(tmp_path, root) as address:
        context = browser.new_context(viewport={"width": 1500, "height": 1000})
        page, wrong = context.new_page(), []
        page.on("pageerror", lambda e: wrong.append(str(e)))
        run_all(page, address, "page.ipynb")
        page.wait_for_function("document.querySelectorAll('.fk-stepper [data-ready]').length === 2", timeout=90_000)
        first, second = page.locator(".fk-stepper").nth(0), page.locator(".fk-stepper").nth(1)
        _steps_alone(page, first, second)
        _asks_python(page, first)
        _wishes(first)
        _follows_the_theme(page, first)
        assert page.evaluate(UNIQUE_IDS.replace("'[id]'", "'.fk-stepper [id]'")) == 0
        assert not wrong
        context.close()


@pytest.mark.skipif(CANNOT_LAB is not None, reason=str(CANNOT_LAB))
def test_a_saved_notebook_keeps_its_pictures_and_its_names(browser, tmp_path, root):
    """Live, the widget alone; opened again without a kernel, the picture; two segments are no formula."""
    write_notebook(tmp_path / "page.ipynb", FIRST, "fk.explore(lambda a: (a.softmax(1), a.sum(0)), a).merges()")
    with jupyterlab(tmp_path, root) as address:
        page = browser.new_page(viewport={"width": 1500, "height": 2400})
        run_all(page, address, "page.ipynb")
        page.wait_for_selector(".fk-stepper [data-ready]", timeout=90_000)
        assert page.evaluate(STILLS) == 0
        page.locator(".jp-RenderedHTMLCommon table").wait_for(timeout=60_000)
        assert page.locator("mjx-container").count() == 0
        page.keyboard.press("Control+s")
        saved = f"fetch('{address}/api/contents/page.ipynb').then(r => r.text()).then(t => t.includes('data-fk-still'))"
        page.wait_for_function(saved)
        page.close()
        (tmp_path / "again.ipynb").write_bytes((tmp_path / "page.ipynb").read_bytes())  # whose kernel knows no widget
        page = browser.new_page(viewport={"width": 1500, "height": 2400})
        page.goto(f"{address}/lab/tree/again.ipynb?reset")
        page.wait_for_selector(".jp-Notebook [data-fk-still] img", timeout=60_000)
        page.wait_for_function(f"{STILLS} === 1")
        page.close()


def _steps_alone(page, first, second) -> None:
    """Keys move the widget with the focus, neither the other one nor the notebook's cells."""
    cell = "[...document.querySelectorAll('.jp-Cell')].findIndex((c) => c.classList.contains('jp-mod-active'))"
    first.locator(".fk-stage").click(position={"x": 4, "y": 4})
    before = page.evaluate(cell)
    for key in ("Home", "ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    first.locator("[data-ready='1|program|0']").wait_for()
    assert step_of(first) == "1" and step_of(second) == "0"
    assert first.locator(".fk-picture .fk-lit").count() > 0 and page.evaluate(cell) == before


def _asks_python(page, first) -> None:
    for what in ("check", "run"):
        first.locator(f"[data-ask={what}]").click()
        first.locator(f"[data-result={what}][data-status=ok]").wait_for(timeout=60_000)
    first.locator("[data-open=check]").click()
    assert first.locator(".fk-details tbody tr").count() > 3


def _wishes(first) -> None:
    """A wish shows another exploration in the same place, an illegal one its error, and back is the first again."""
    kernels = first.locator(".fk-strip b").first
    assert kernels.inner_text() == "1"
    first.locator(".fk-stage").press("End")
    first.locator(".fk-picture [id$='$0-tab']").click()
    first.locator("[data-wish=split]").click()
    first.locator("[data-wish=back]").wait_for(timeout=60_000)
    assert "kernels 1 → 2" in first.locator(".fk-counts").inner_text() and kernels.inner_text() == "2"
    assert "what if split='$0'" in first.locator(".fk-signature").inner_text()
    first.locator(".fk-picture [id$='$0-tab']").click()
    first.locator("[data-wish=split]").click()
    first.locator(".fk-error").wait_for(timeout=60_000)
    assert first.locator(".fk-error dt").all_inner_texts() == ["what", "where", "how to mend"]
    first.locator("[data-wish=back]").click()
    first.locator("[data-wish=back]").wait_for(state="detached", timeout=60_000)
    assert kernels.inner_text() == "1"


def _follows_the_theme(page, first) -> None:
    assert first.get_attribute("data-theme") == "light"
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    page.wait_for_function("document.querySelector('.fk-stepper').dataset.theme === 'dark'")
