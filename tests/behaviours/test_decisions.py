"""Decisions forced on random programs: each gives an exploration that is right, or a named refusal."""

from __future__ import annotations

import random

import pytest

import fusekit as fk
from fusekit.errors import FusekitError
from tests.behaviours.test_random import arguments, out_of_order, program

PASSES = ("tidy", "output-aliases", "sink-reshapes", "forward", "schedule")


def decisions(x: fk.Exploration, seed: int) -> list[dict[str, object]]:
    """One of every kind, on segments and values of this program."""
    choose = random.Random(seed)
    launched = [s.id for s in x.segments if s.scheduler != "alias"]
    values = [t for t in x.graph.tensors() if x.graph.is_value(t) and x.graph.users(t)]
    found: list[dict[str, object]] = [{"without": name} for name in PASSES if any(s.name == name for s in x.steps)]
    found.append({"without": choose.sample(PASSES, 2)})
    found += [{"alias": "conservative"}, {"split": choose.choice(launched)}]
    if values:
        found.append({"split": choose.choice(values)})
    if len(launched) > 1:
        pair = choose.sample(launched, 2)
        found += [{"merge": pair}, {"order": pair}, {"order": pair[::-1]}]
    return found


@pytest.mark.parametrize("seed", range(100, 112))
def test_a_decision_is_right_or_refused(seed: int) -> None:
    x = fk.explore(program(seed), *arguments())
    done = 0
    for decision in decisions(x, seed):
        try:
            made = x.what_if(**decision)
        except FusekitError:
            continue
        done += 1
        assert out_of_order(made.graph) == [], decision
        report = made.check_steps()[made.steps[-1].name]
        assert report.ok, f"{decision}\n{report}"
        assert fk.diff(x, made) == fk.diff(x, x.what_if(**decision))
    assert done >= len(PASSES)


def test_merged_again_what_was_split() -> None:
    """The kernels of the first exploration come back, launch by launch."""

    def f(a, b):
        return a + 1, b * 2, (a * b).sum(1)

    x = fk.explore(f, *arguments()[:2])
    assert len(x.kernels) == 1
    apart = x.what_if(split="$0")
    assert len(apart.kernels) > 1 and apart.check().ok
    together = apart.what_if(merge=[s.id for s in apart.segments])
    assert len(together.kernels) == 1 and together.check().ok
