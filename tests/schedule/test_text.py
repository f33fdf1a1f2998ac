"""Schedules print as chains, and the chains read back."""

import pytest

from fusekit.domains import MergeAxes, Parallelize, Reference, ReorderAxes, SplitAligned, SplitBy
from fusekit.errors import IllegalTransform, TextSyntaxError
from fusekit.ir import Parallel
from fusekit.schedule import Placements, Schedule, Tile, parse_schedule

TILE = Tile("%a.1", 3, (ReorderAxes((0, 1, 3, 2)), MergeAxes(2)), (3, 2), (65, 1))  # type: ignore[arg-type]

CHAINS = (
    (Schedule(), "keep()"),
    (
        Schedule((MergeAxes(0), SplitBy(0, 1024), Parallelize((Parallel.BIDx, Parallel.SERIAL)))),
        "merge(0).split(0, 1024).parallelize(BIDx, SERIAL)",
    ),
    (Schedule((SplitBy(1, 4, inner=False),)), "split(1, 4, outer)"),
    (Schedule((SplitAligned(1, 4, 0, 4095),)), "split_aligned(1, 4, row=0, pitch=4095)"),
    (Schedule((), Placements(persist=())), "persist()"),
    (
        Schedule((ReorderAxes((1, 0)),), Placements(("%x", "%y.2"), "top", (TILE,), 2)),  # type: ignore[arg-type]
        (
            "reorder(1, 0).persist(%x, %y.2).loads(top).share(%a.1, after=3, loop=reorder(0, 1, 3, 2).merge(2),"
            " axes=[3, 2], strides=[65, 1]).blocks_per_sm(2)"
        ),
    ),
)


@pytest.mark.parametrize(("schedule", "text"), CHAINS)
def test_a_schedule_prints_as_a_chain_and_reads_back(schedule: Schedule, text: str) -> None:
    assert str(schedule) == text
    assert parse_schedule(text) == schedule


def test_spaces_and_nothing_are_fine() -> None:
    assert parse_schedule("") == Schedule()
    assert parse_schedule(" merge( 0 ) ") == Schedule((MergeAxes(0),))


@pytest.mark.parametrize(
    "text",
    ["merge", "merge(0", "merge(0).", "merge(0)split(0, 2)", "merge(x)", "fold(1)", "split(1)", "split_aligned(1, 4)",
     "parallelize(WARP)", "split(0, 2, middle)"],
)  # fmt: skip
def test_what_is_no_chain_is_refused(text: str) -> None:
    with pytest.raises(TextSyntaxError):
        parse_schedule(text)


def test_illegal_placements_say_so() -> None:
    with pytest.raises(IllegalTransform, match="loads"):
        parse_schedule("loads(never)")
    with pytest.raises(IllegalTransform, match="blocks_per_sm"):
        Placements(blocks_per_sm=-1)
    with pytest.raises(IllegalTransform, match="placements in the loop"):
        parse_schedule("share(%a, after=0, loop=loads(top), axes=[], strides=[])")


def test_a_schedule_is_checked_against_its_reference() -> None:
    reference = Reference("^s", (64, 32), frozenset())  # type: ignore[arg-type]
    assert parse_schedule("split(1, 8).parallelize(BIDx, SERIAL, VECTORIZE)").check(reference).extents == (64, 4, 8)
    for text, what in (
        ("merge(1)", "the last one"),
        ("parallelize(BIDx, SERIAL).merge(0)", "before other transforms"),
        ("share(%a, after=5, loop=keep(), axes=[0], strides=[1])", "starts after 0 to 0"),
        ("share(%a, after=0, loop=keep(), axes=[2], strides=[1])", "name axes of this domain"),
    ):
        with pytest.raises(IllegalTransform, match=what):
            parse_schedule(text).check(reference)
