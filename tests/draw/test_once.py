"""What a kernel computes once is framed where the kernel's own source computes it: before its loops, or after them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from fusekit.draw.notes import Notes
from fusekit.draw.parts import Frame, Picture
from fusekit.draw.segments import segments_picture
from fusekit.exploration import Exploration, explore
from fusekit.programs import LARGE, PROGRAMS, PROGRAMS_REAL

BY_NAME = {p.name: p for p in (*PROGRAMS, *PROGRAMS_REAL)}


def explored(name: str) -> Exploration:
    program = BY_NAME[name]
    return explore(program.fn, *program.make(LARGE, torch.float32))


def picture(x: Exploration) -> Picture:
    kernels = {s.id: s.kernel for s in x.segments if s.kernel is not None}
    return segments_picture(x.graph, Notes(), kernels, "title", "")


def phases(x: Exploration) -> Iterator[tuple[str, str, set[str]]]:
    """(segment, "before" or "after", the ops of that frame)."""
    for frame in picture(x).parts:
        for inner in frame.parts if isinstance(frame, Frame) else ():
            if isinstance(inner, Frame):
                yield frame.node, inner.key.rpartition("/")[2], {part.node for part in inner.parts}


def loops_of(source: str) -> tuple[int, int]:
    """The line of the first ``for`` of a kernel, and the last line inside of any; lines count from 1."""
    first = last = 0
    depths: list[int] = []
    for number, line in enumerate(source.splitlines(), 1):
        depth = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        depths = [d for d in depths if d < depth]
        if line.lstrip().startswith("for "):
            first = first or number
            depths.append(depth)
        last = number if depths else last
    return first, last


@pytest.mark.parametrize("name", BY_NAME)
def test_a_frame_holds_what_its_words_say(name):
    x = explored(name)
    for segment, where, ops in phases(x):
        kernel = next(s.kernel for s in x.segments if s.id == segment)
        assert kernel is not None
        first, last = loops_of(kernel.source)
        lines = [line for line, made in dict(kernel.lines).items() if ops.intersection(made)]
        assert lines and (max(lines) < first if where == "before" else min(lines) > last)


def test_a_mean_is_divided_after_the_loops():
    found = {
        where: {x.graph.op(op).target for op in ops} for x in [explored("mse_loss")] for _, where, ops in phases(x)
    }
    assert found == {"after": {"aten.div.Scalar"}}
