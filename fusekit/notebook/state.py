"""Where a page stands, and how it moves: frozen values and pure functions. ``static/moves.js`` says the same in the
page's language, so that stepping works without a kernel; a test holds the two against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from fusekit.escape import shown
from fusekit.ids import NodeId
from fusekit.notebook.document import Document, StepShown

Status = Literal["none", "running", "ok", "differs", "failed"]
PANES = ("kernel", "text")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of run or check: a sentence, and rows (mark, what, eager, fusekit) or lines of an error."""

    status: Status = "none"
    sentence: str = ""
    rows: tuple[tuple[str, ...], ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """``view``: "" is the step's best. ``event``: which explanation of the step is stood at, -1 for none.

    ``since``: is the change since the step before marked? ``quiet``: are steps that changed nothing left out?
    """

    step: int = 0
    view: str = ""
    since: bool = False
    selected: tuple[NodeId, ...] = ()
    event: int = -1
    query: str = ""
    segment: int = 0
    pane: str = "kernel"
    quiet: bool = False
    check: Result = field(default=Result())
    run: Result = field(default=Result())


WHERE = ("step", "view", "since", "selected", "event", "query", "segment", "pane", "quiet")


def start(document: Document) -> State:
    """The last step, as a diagram of the exploration shows it, and the first kernel."""
    first = next((k for k, segment in enumerate(document.segments) if segment.lines), 0)
    return State(step=len(document.steps) - 1, segment=first)


# ---- what is shown ------------------------------------------------------------------------------------------------


def current(state: State, document: Document) -> StepShown:
    """The step that the state stands at."""
    return document.steps[state.step]


def view_of(state: State, document: Document) -> str:
    """The chosen view where the step has it, else the step's best."""
    step = current(state, document)
    return state.view if state.view in step.views else step.best


def picture_of(state: State, document: Document) -> tuple[int, str, bool]:
    """(step, view, since): which picture is shown."""
    return state.step, view_of(state, document), state.since and state.step > 0


def rail(state: State, document: Document) -> tuple[int, ...]:
    """The steps that are listed, in order; the current one always is."""
    return tuple(k for k in range(len(document.steps)) if not state.quiet or k == state.step or changes(document, k))


def changes(document: Document, step: int) -> bool:
    """Did this step change anything? The first one, which recorded, did."""
    return step == 0 or document.steps[step].delta != "no change"


# ---- moves --------------------------------------------------------------------------------------------------------


def go(state: State, document: Document, step: int) -> State:
    """To a step by number, kept within the ends; the selection stays, an event doesn't."""
    step = max(0, min(len(document.steps) - 1, step))
    return state if step == state.step else replace(state, step=step, event=-1)


def forward(state: State, document: Document) -> State:
    """To the next listed step."""
    later = [k for k in rail(state, document) if k > state.step]
    return go(state, document, later[0]) if later else state


def back(state: State, document: Document) -> State:
    """To the listed step before."""
    earlier = [k for k in rail(state, document) if k < state.step]
    return go(state, document, earlier[-1]) if earlier else state


def event(state: State, document: Document, by: int) -> State:
    """To the explanation ``by`` further in this step, whose subject is then selected."""
    said = current(state, document).said
    if not said:
        return state
    place = max(0, min(len(said) - 1, state.event + by))
    return replace(select(state, document, said[place].subject), event=place)


def select(state: State, document: Document, nodes: Iterable[str]) -> State:
    """Select nodes that any step has; their segment's kernel is shown where all lie in one."""
    chosen = tuple(NodeId(n) for n in nodes if NodeId(n) in document.nodes)
    holders = [k for k, s in enumerate(document.segments) if set(chosen) & {s.id, *s.nodes}]
    segment = holders[0] if len(holders) == 1 else state.segment
    return replace(state, selected=chosen, event=-1, segment=segment)


def toggle(state: State, document: Document, node: str) -> State:
    """One node more selected, or one less."""
    chosen = tuple(n for n in state.selected if n != node)
    return select(state, document, chosen if node in state.selected else (*chosen, node))


def pair(state: State, document: Document) -> tuple[NodeId, NodeId] | None:
    """The two segments, in launch order, that a selection of several nodes lies in; None: one, or more than two."""
    if len(state.selected) < 2:
        return None
    found = tuple(s.id for s in document.segments if any(n == s.id or n in s.nodes for n in state.selected))
    return (found[0], found[1]) if len(found) == 2 else None


def walk(state: State, document: Document, by: int) -> State:
    """Select the op ``by`` further in program order; from nothing, the first or the last."""
    ops = current(state, document).ops
    if not ops:
        return state
    at = next((k for k, op in enumerate(ops) if op in state.selected), -1 if by > 0 else 0)
    return select(state, document, (ops[(at + by) % len(ops)],))


def clear(state: State, document: Document) -> State:
    """Select nothing."""
    return replace(state, selected=(), event=-1)


def mark_changes(state: State, document: Document, on: bool) -> State:
    """Mark what changed since the step before, or stop marking it."""
    return replace(state, since=on)


def choose_view(state: State, document: Document, view: str) -> State:
    """A view that this step has; another is not chosen."""
    return replace(state, view=view) if view in current(state, document).views else state


def choose_segment(state: State, document: Document, segment: int) -> State:
    """Whose kernel is shown, by number in launch order."""
    return replace(state, segment=max(0, min(max(0, len(document.segments) - 1), segment)))


def choose_pane(state: State, document: Document, pane: str) -> State:
    """Kernel source, or the step as text."""
    return replace(state, pane=pane) if pane in PANES else state


def hide_unchanged(state: State, document: Document, on: bool) -> State:
    """Leave steps that changed nothing out of the rail, or bring them back."""
    return replace(state, quiet=on)


def search(state: State, document: Document, query: str) -> State:
    """What to look for; ``hits`` has the answer."""
    return replace(state, query=query)


def hits(state: State, document: Document) -> tuple[NodeId, ...]:
    """Nodes of this step with every word of the query: in the id, title, kind or facts; ``changed:`` those that differ.

    A word ``op:exp`` or ``type:f32`` looks at that kind or fact alone.
    """
    words = state.query.lower().split()
    if not words:
        return ()
    marks = {change.nodes[0]: change.mark for change in current(state, document).changes if len(change.nodes) == 1}
    found = []
    for node, seen in document.nodes.items():
        card = next((s.card for s in reversed(seen) if s.since <= state.step), None)
        if card is None:
            continue
        texts = [("id", node), (card.kind, card.title), *card.facts, ("changed", marks.get(node, ""))]
        if all(_matches(word, [(name, text.lower()) for name, text in texts]) for word in words):
            found.append(node)
    return tuple(found)


def _matches(word: str, texts: list[tuple[str, str]]) -> bool:
    name, colon, rest = word.partition(":")
    if colon and any(name == known for known, _ in texts):
        return any(known == name and text and rest in text for known, text in texts)
    return any(word in text for known, text in texts if known != "changed")


# ---- what arrives from Python -------------------------------------------------------------------------------------


def arrived(state: State, what: str, result: Result) -> State:
    """The result of ``run`` or ``check``."""
    return replace(state, check=result) if what == "check" else replace(state, run=result)


# ---- as JSON ------------------------------------------------------------------------------------------------------


def where(state: State) -> dict[str, object]:
    """What the page may set, as JSON holds it."""
    return {name: list(v) if isinstance(v := getattr(state, name), tuple) else v for name in WHERE}


def moved(state: State, document: Document, asked: Mapping[str, object]) -> State:
    """The state that a page asks for, each field only where it makes sense; results stay as they are."""
    state = go(state, document, _int(asked.get("step"), state.step))
    state = select(state, document, _strings(asked.get("selected", state.selected)))
    state = choose_segment(state, document, _int(asked.get("segment"), state.segment))
    state = choose_pane(state, document, _str(asked.get("pane"), state.pane))
    state = hide_unchanged(state, document, bool(asked.get("quiet", state.quiet)))
    last = len(current(state, document).said) - 1
    return replace(
        state,
        view=_str(asked.get("view"), state.view),
        since=bool(asked.get("since", state.since)),
        query=shown(_str(asked.get("query"), state.query)[:200]),
        event=max(-1, min(last, _int(asked.get("event"), state.event))),
    )


def _strings(value: object) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list | tuple) else ()


def _str(value: object, default: str) -> str:
    return value if isinstance(value, str) else default


def _int(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


MOVES: dict[str, Callable[..., State]] = {
    "go": go, "forward": forward, "back": back, "event": event, "select": select, "toggle": toggle, "walk": walk,
    "clear": clear, "markChanges": mark_changes, "chooseView": choose_view, "chooseSegment": choose_segment,
    "choosePane": choose_pane, "hideUnchanged": hide_unchanged, "search": search,
}  # fmt: skip
