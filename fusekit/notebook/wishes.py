"""What if: what a page wishes, as decisions; the exploration that comes of them beside the first; what it changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from fusekit.draw.words import bytes_text
from fusekit.errors import FusekitError
from fusekit.notebook.explored import Explored

SIZES = ("bytes_moved", "bytes_least", "peak_bytes")
COUNTS = {
    "kernels": "kernels", "copies": "copies", "extern_calls": "library calls", "bytes_moved": "bytes moved",
    "bytes_least": "least possible", "peak_bytes": "new memory at most",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a wish. ``decisions``: all that are in force. ``counts``: (name, first, now) where they differ.

    ``is_first``: is the exploration shown that the page began with? A wish that is not legal leaves everything as it
    was, and the last three say what is wrong, where, and how to mend it.
    """

    status: Literal["none", "running", "ok", "failed"] = "none"
    is_first: bool = True
    decisions: tuple[str, ...] = ()
    counts: tuple[tuple[str, str, str], ...] = ()
    what: str = ""
    where: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Branch:
    """The exploration that the page began with, the one that it shows, and what was said of the last wish."""

    first: Explored
    now: Explored
    told: Told = Told()


def decided(message: Mapping[str, object]) -> dict[str, object] | None:
    """Decisions of ``what_if`` for a page's ``{"wish": "merge", "nodes": [...]}``; None where it makes no sense."""
    nodes = message.get("nodes", ())
    if not isinstance(nodes, list | tuple) or not all(isinstance(n, str) for n in cast("list[object]", nodes)):
        return None
    names = tuple(cast("list[str]", nodes))
    match message.get("wish"):
        case "merge" if len(names) > 1:
            return {"merge": names}
        case "split" if len(names) == 1:
            return {"split": names[0]}
        case "without" if len(names) == 1:
            return {"without": names[0]}
        case "conservative" if not names:
            return {"alias": "conservative"}
        case _:
            return None


def wished(branch: Branch, decisions: Mapping[str, object]) -> Branch:
    """The branch with decisions on top of those in force; where they are not legal, the same one with the error."""
    try:
        now = branch.now.what_if(**decisions)
        return Branch(branch.first, now, Told("ok", False, _words(now), counts(branch.first, now)))
    except Exception as error:
        return replace(branch, told=_failed(branch, error))


def back(branch: Branch) -> Branch:
    """To the first exploration."""
    return Branch(branch.first, branch.first)


def counts(first: Explored, now: Explored) -> tuple[tuple[str, str, str], ...]:
    """(name, first, now) of every count and size that differs."""
    one, other = first.summary(), now.summary()
    found = ((name, words, getattr(one, name), getattr(other, name)) for name, words in COUNTS.items())
    return tuple((words, _text(name, a), _text(name, b)) for name, words, a, b in found if a != b)


def _text(name: str, value: int) -> str:
    return bytes_text(value) if name in SIZES else f"{value:,}"


def _words(x: Explored) -> tuple[str, ...]:
    return tuple(getattr(x, "decisions", ()))


def _failed(branch: Branch, error: Exception) -> Told:
    before = branch.first is branch.now, _words(branch.now), branch.told.counts
    if isinstance(error, FusekitError):
        return Told("failed", *before, error.what, str(error.where or ""), error.fix or "")
    return Told("failed", *before, f"{type(error).__name__}: {error}")
