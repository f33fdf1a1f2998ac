"""Texts of many programs at many steps, and changes of them: what tests of the reader start from."""

from __future__ import annotations

import random
import re
from functools import cache

import torch

import fusekit as fk
from fusekit.ir import print_graph
from fusekit.programs import PROGRAMS

WORD = re.compile(r"[%^@$#!]?[\w.]+|\s+|.")
ODD_WORDS = (
    "-1", "0", "1", "7", "1000000000", "4611686018427387905", "(", ")", "[", "]", "{", "}", ",", "=", ":", "->", "%a",
    "^0", "@0", "$0", "#0.i0", "f32", "i64", "True", "'", "`", '"', "\\", "9" * 30, "<n0 3>", "{i0}", "in", "same",
    "writes", "\u2028", "\x00", "é", "",
)  # fmt: skip


def looked_up(a: torch.Tensor) -> torch.Tensor:
    return a.softmax(-1)[torch.tensor([1, -1, 0])] * 2


@cache
def texts() -> tuple[str, ...]:
    """Steps of small programs, of every stage."""
    found: dict[str, None] = {}
    programs = [(p.fn, p.make((6, 5), torch.float32)) for p in PROGRAMS[::4]]
    for fn, args in [*programs, (looked_up, (torch.rand(4, 5),))]:
        x = fk.explore(fn, *args)
        found |= {print_graph(x[name].graph): None for name in ("trace", "functionalize", "schedule")}
    return tuple(found)


def changed(text: str, rng: random.Random, times: int = 1) -> str:
    """The text with lines or words left out, doubled, exchanged, or replaced."""
    for _ in range(times):
        if rng.random() < 0.3:
            text = "\n".join(_edited(text.split("\n"), rng, ("}", "graph f {", "")))
        else:
            text = "".join(_edited(WORD.findall(text), rng, ODD_WORDS))
    return text


def _edited(parts: list[str], rng: random.Random, odd: tuple[str, ...]) -> list[str]:
    at, other = rng.randrange(len(parts)), rng.randrange(len(parts))
    match rng.randrange(5):
        case 0:
            del parts[at]
        case 1:
            parts.insert(other, parts[at])
        case 2:
            parts[at], parts[other] = parts[other], parts[at]
        case 3:
            parts[at] = parts[other]
        case _:
            parts[at] = rng.choice(odd)
    return parts
