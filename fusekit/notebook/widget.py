"""The stepper as a widget. It holds no logic: the page asks, ``state`` answers, pictures are drawn on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

import anywidget
import traitlets
from IPython.display import publish_display_data

from fusekit.draw import VIEWS
from fusekit.errors import FusekitError
from fusekit.kinds import FLAG, NODES, STEP, TEXT, WHOLE, expect, expect_names, maybe, one_of
from fusekit.notebook import actions
from fusekit.notebook.document import Document, document, plain
from fusekit.notebook.explored import Explored
from fusekit.notebook.page import script, stylesheet
from fusekit.notebook.report import picture, picture_key
from fusekit.notebook.state import PANES, Result, State, arrived, moved, picture_of, start, where
from fusekit.notebook.wishes import Branch, Told, back, decided, wished


class Stepper(anywidget.AnyWidget):
    """Steps through an exploration. ``stepper.state`` says where it stands; ``stepper.show(...)`` moves it.

    ``document``, ``first`` (the first picture), ``results`` and ``told`` (what came of the last what-if) are written
    here, ``where`` by both sides. Messages of the page are ``{"ask": "picture", "step", "view", "since"}``,
    ``{"ask": "check"}``, ``{"ask": "run"}``, ``{"ask": "what if", "wish", "nodes"}`` and ``{"ask": "back"}``.
    """

    _esm = script()
    _css = stylesheet()
    document = traitlets.Dict().tag(sync=True)
    first = traitlets.Dict().tag(sync=True)
    where = traitlets.Dict().tag(sync=True)
    results = traitlets.Dict().tag(sync=True)
    told = traitlets.Dict().tag(sync=True)
    still = traitlets.Unicode().tag(sync=True)  # names the picture that stands before it in a notebook

    def __init__(self, x: Explored, **wanted: object) -> None:
        self._x = x
        self._branch = Branch(x, x)
        self._shown = document(x)
        self._drawn: dict[str, str] = {}
        self._state = moved(start(self._shown), self._shown, _named(self._shown, wanted))
        super().__init__(
            document=plain(self._shown),
            first=self._first(),
            where=where(self._state),
            results=_results(self._state),
            told=plain(self._branch.told),
            still=uuid4().hex,
        )
        self.observe(self._page_moved, "where")
        self.on_msg(self._answer)

    @property
    def state(self) -> State:
        """Where the stepper stands."""
        return self._state

    @property
    def exploration(self) -> Explored:
        """What is shown now: the first one, or what a what-if made of it."""
        return self._x

    def show(self, step: str | int | None = None, **wanted: object) -> None:
        """Move to a step by name or number and set ``view``, ``since``, ``selected``, ``query``, ``pane`` …"""
        asked = wanted if step is None else {"step": step, **wanted}
        self._set(moved(self._state, self._shown, {**where(self._state), **_named(self._shown, asked)}))

    def check(self) -> Result:
        """Check against eager, and show what came of it."""
        return self._act("check")

    def run(self) -> Result:
        """Run the kernels on clones, and show what came of it."""
        return self._act("run")

    def what_if(self, **decisions: object) -> Told:
        """Show the exploration with decisions forced, on top of those in force; an error is told, not raised."""
        self.told = plain(replace(self._branch.told, status="running"))
        return self._show_branch(wished(self._branch, decisions))

    def back(self) -> Told:
        """Show the first exploration again."""
        return self._show_branch(back(self._branch))

    def svg(self, step: int, view: str, since: bool) -> str:
        """A picture, drawn the first time that it is asked for."""
        key = picture_key(step, view, since)
        if key not in self._drawn:
            self._drawn[key] = picture(self._x, step, view, since)
        return self._drawn[key]

    # ---- what the page says

    def set_state(self, sync_data: Mapping[str, Any]) -> None:
        """What a page may set is where it stands; of everything else it is told again what is true."""
        told = {name: value for name, value in sync_data.items() if name == "where" and isinstance(value, dict)}
        super().set_state(told)
        if others := [name for name in sync_data if name not in told and name in self.keys]:
            self.send_state(others)

    def _page_moved(self, change: Mapping[str, Any]) -> None:
        self._set(moved(self._state, self._shown, change["new"]))

    def _answer(self, _: object, content: object, buffers: object) -> None:
        """Answer a message; what makes no sense is left alone."""
        if not isinstance(content, dict):
            return
        match content:
            case {"ask": "picture", "step": int(step), "view": str(view), "since": bool(since)}:
                if 0 <= step < len(self._shown.steps) and view in self._shown.steps[step].views:
                    self.send({"picture": picture_key(step, view, since), "svg": self.svg(step, view, since)})
            case {"ask": "check" | "run" as what}:
                self._act(what)
            case {"ask": "what if"} if (decisions := decided(content)) is not None:
                self.what_if(**decisions)
            case {"ask": "back"}:
                self.back()

    def _act(self, what: str) -> Result:
        self._set(arrived(self._state, what, Result("running")))
        result = actions.check(self._x) if what == "check" else actions.run(self._x)
        self._set(arrived(self._state, what, result))
        return result

    def _show_branch(self, branch: Branch) -> Told:
        """Another exploration in the same place: the step of that name, else the one before; nothing selected."""
        is_other, self._branch = branch.now is not self._x, branch
        if is_other:
            name, at = self._shown.steps[self._state.step].name, self._state
            self._x, self._shown, self._drawn = branch.now, document(branch.now), {}
            names = [step.name for step in self._shown.steps]
            asked = {"step": names.index(name) if name in names else at.step - 1, "view": at.view, "pane": at.pane}
            self._state = moved(start(self._shown), self._shown, asked | {"quiet": at.quiet})
        with self.hold_sync():
            if is_other:
                self.document, self.first = plain(self._shown), self._first()
            self.told = plain(branch.told)
            self._set(self._state)
        return branch.told

    def _set(self, state: State) -> None:
        self._state = state
        self.where = where(state)
        self.results = _results(state)

    def _first(self) -> dict[str, str]:
        step, view, since = picture_of(self._state, self._shown)
        return {picture_key(step, view, since): self.svg(step, view, since)}

    # ---- how it looks where it cannot live

    def _ipython_display_(self) -> None:
        """A picture, then the widget, which hides the picture while it lives: a notebook that is opened again without a
        kernel, or made into a page, shows the picture, where one output of both shows the widget's error."""
        bundle = self._repr_mimebundle_()
        if bundle is None:
            raise NotImplementedError  # IPython then asks for another form
        data, metadata = bundle
        still = {kind: data.pop(kind) for kind in ("text/html", "text/plain") if kind in data}
        if "text/html" in still:
            still["text/html"] = f'<div data-fk-still="{self.still}">{still["text/html"]}</div>'
        publish_display_data(still)
        publish_display_data(data, metadata)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The widget, with a static picture beside it that a viewer without widgets shows."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        try:
            step, view, since = picture_of(self._state, self._shown)
            still = self._x.diagram(step, view, step - 1 if since else None)._repr_mimebundle_()
        except Exception:  # the widget itself says what went wrong
            still = {}
        still.pop("image/svg+xml", None)  # an untrusted notebook shows it as text; the HTML beside it holds the picture
        return {**still, **data, "text/plain": repr(self._x)}, metadata

    def __repr__(self) -> str:
        return f"<stepper of {self._shown.program}, step {self._state.step + 1} of {len(self._shown.steps)}>"


_WANTED = {
    "step": maybe(STEP), "view": one_of("", *VIEWS), "since": FLAG, "node": maybe(NODES), "selected": NODES,
    "event": WHOLE, "query": TEXT, "segment": WHOLE, "pane": one_of(*PANES), "quiet": FLAG,
}  # fmt: skip


def _results(state: State) -> dict[str, object]:
    return {"check": plain(state.check), "run": plain(state.run)}


def _named(shown: Document, wanted: Mapping[str, object]) -> dict[str, object]:
    """Steps by name as numbers, one node as a selection. Raises FusekitError for a step that there is not, and for what
    is no place in the stepper."""
    expect_names("stepper", wanted, _WANTED)
    expect("stepper", **{name: (value, _WANTED[name]) for name, value in wanted.items()})
    asked = dict(wanted)
    if isinstance(asked.get("step"), str):
        names = [step.name for step in shown.steps]
        if asked["step"] not in names:
            raise FusekitError(f"no step is called {asked['step']!r}", None, f"the steps are {', '.join(names)}")
        asked["step"] = names.index(str(asked["step"]))
    for name in ("node", "selected"):
        if (nodes := asked.pop(name, None)) is not None:
            asked["selected"] = (nodes,) if isinstance(nodes, str) else nodes
    return asked
