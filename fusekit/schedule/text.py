"""The chain that a schedule prints, read back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from fusekit.domains import MergeAxes, Parallelize, ReorderAxes, SplitAligned, SplitBy, TransformBy
from fusekit.errors import IllegalTransform, TextSyntaxError
from fusekit.ids import NodeId
from fusekit.ir import Parallel
from fusekit.schedule.record import Placements, Schedule, Tile

_LINK = re.compile(r"\s*(\w+)\(")
MOST_LINKS = 256  # each makes axes whose names grow, and loops in loops
MOST_CHARACTERS = 1 << 16
MOST_DIGITS = 18
WORDS = "split, split_aligned, merge, reorder, parallelize, persist, loads, share, blocks_per_sm, keep"


def parse_schedule(text: str) -> Schedule:
    """The schedule that prints as ``text``. Raises TextSyntaxError for what is no chain."""
    if len(text) > MOST_CHARACTERS:
        raise TextSyntaxError(f"a chain of {len(text):,} characters", None, f"at most {MOST_CHARACTERS:,} are read")
    transforms: list[TransformBy] = []
    placements = Placements()
    for number, (word, args) in enumerate(_links(text)):
        if number >= MOST_LINKS:
            raise TextSyntaxError(f"a chain of more than {MOST_LINKS} links", _cut(text), "no kernel has so many loops")
        try:
            if (transform := _transform(word, args)) is not None:
                transforms.append(transform)
            elif word != "keep":
                placements = _placed(placements, word, args)
        except (ValueError, KeyError, IndexError) as error:
            what = f"{_link(word, args)} is not understood ({error})"
            raise TextSyntaxError(what, _cut(text), f"words are {WORDS}") from error
    return Schedule(tuple(transforms), placements)


def _transform(word: str, args: list[str]) -> TransformBy | None:
    """A transform; None for a word of the placements."""
    match word, args:
        case "split", [axis, factor]:
            return SplitBy(_int(axis), _int(factor))
        case "split", [axis, factor, "outer" | "inner" as part]:
            return SplitBy(_int(axis), _int(factor), part == "inner")
        case "split_aligned", [axis, factor, *named]:
            facts = _named(named)
            return SplitAligned(_int(axis), _int(factor), _int(facts["row"]), _int(facts["pitch"]))
        case "merge", [axis]:
            return MergeAxes(_int(axis))
        case "reorder", _:
            return ReorderAxes(tuple(map(_int, args)))
        case "parallelize", _:
            return Parallelize(tuple(Parallel[name] for name in args))
        case _:
            return None


def _placed(placements: Placements, word: str, args: list[str]) -> Placements:
    match word, args:
        case "persist", _:
            return replace(placements, persist=tuple(map(NodeId, args)))
        case "loads", [where]:
            return replace(placements, loads=where)
        case "blocks_per_sm", [count]:
            return replace(placements, blocks_per_sm=_int(count))
        case "share", [tensor, *named]:
            return replace(placements, shared=(*placements.shared, _tile(tensor, _named(named))))
        case _:
            raise TextSyntaxError(f"no transform or placement {_link(word, args)}", None, f"words are {WORDS}")


def _tile(tensor: str, facts: dict[str, str]) -> Tile:
    if "share" in facts["loop"]:  # a tile in a tile, and so on, would be read as deep as it is written
        raise IllegalTransform(f"a tile in the loop of the tile {tensor:.40}", None, "write transforms only")
    loop = parse_schedule(facts["loop"])
    if loop.placements != Placements():
        where = _cut(facts["loop"])
        raise IllegalTransform(f"placements in the loop of the tile {tensor}", where, "write transforms only")
    return Tile(NodeId(tensor), _int(facts["after"]), loop.transforms, _row(facts["axes"]), _row(facts["strides"]))


def _int(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"{len(text)} characters are no number of a loop")
    return int(text)


def _link(word: str, args: list[str]) -> str:
    return _cut(f"{word}({', '.join(args)})")


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]} ..."


def _row(text: str) -> tuple[int, ...]:
    return tuple(_int(word) for word in text.strip("[]").split(",") if word.strip())


def _named(args: list[str]) -> dict[str, str]:
    """``["row=0", "pitch=5"]`` as a dict."""
    return {name.strip(): value.strip() for name, _, value in (arg.partition("=") for arg in args)}


def _links(text: str) -> Iterator[tuple[str, list[str]]]:
    """(word, arguments) of every link of a chain."""
    at = 0
    text = text.strip()
    while at < len(text):
        found = _LINK.match(text, at)
        if found is None:
            raise TextSyntaxError(
                f"{_cut(text[at:])!r} is no link of a chain", _cut(text), "write word(arguments).word(arguments)"
            )
        end, args = _arguments(text, found.end())
        yield found[1], args
        at = end
        if at < len(text):
            if text[at] != "." or at + 1 == len(text):
                raise TextSyntaxError(f"{_cut(text[at:])!r} after a link", _cut(text), "links are joined by one dot")
            at += 1


def _arguments(text: str, at: int) -> tuple[int, list[str]]:
    """The position after the closing bracket, and the arguments between commas outside any bracket."""
    depth, args, start = 0, list[str](), at
    for k in range(at, len(text)):
        if text[k] in "([":
            depth += 1
        elif text[k] in ")]" and depth:
            depth -= 1
        elif text[k] in ",)" and not depth:
            args.append(text[start:k].strip())
            start = k + 1
            if text[k] == ")":
                return k + 1, [] if args == [""] else args
    raise TextSyntaxError(f"the bracket of {_cut(text[at:])!r} never closes", _cut(text), "close it with )")
