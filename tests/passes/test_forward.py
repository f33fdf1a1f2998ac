"""Which chains travel into their consumers, which stop, and why."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fusekit as fk


def two_sums(x):
    y = x.float()
    return y.sum(0), y.sum(1)


def chain(x):
    y = x.relu().neg().t()
    return y.sum(0), y.exp().sum(1)


def merged(x):
    y = x.view(2, -1, x.shape[1]).sin().flatten(0, 1)
    return y.sum(0), y * 2


def sliced(x):
    y = x.sin()[1:].cos()
    return y.sum(0), y * 2


def expanded(x):
    y = x[:, None].expand(-1, 5, -1)
    return y.sum(0), y * 2, y.sum(2)


def overwritten(x):
    y = x.exp()
    x.add_(1)
    return y.sum(0), y.sum(1)


def for_a_call(x):
    y = x.relu()
    return torch.cumsum(y, 0), y + 1


def stored(x):
    y = x.relu()
    return y, y.sum(0)


STOPS = {
    sliced: "may-not-travel",
    overwritten: "written-later",
    for_a_call: "taken-from-memory",
    stored: "is-stored",
}
TRAVELS = [two_sums, chain, merged]


def forwarded(x: fk.Exploration) -> list[str]:
    graph = x["forward"].graph
    return [op for op in graph.ops() if graph.op(op).forward]


@pytest.mark.parametrize("fn", [*TRAVELS, *STOPS, expanded], ids=lambda f: f.__name__)
def test_right_with_the_pass_and_without(fn: Callable[..., object]) -> None:
    x = fk.explore(fn, torch.randn(34, 65))
    assert all(report.ok for report in x.check_steps().values()) and x.check().ok
    assert x.what_if(without="forward").check().ok
    assert fk.parse(x.text("forward")) == x["forward"].graph


@pytest.mark.parametrize("fn", TRAVELS, ids=lambda f: f.__name__)
def test_chains_travel(fn: Callable[..., object]) -> None:
    x = fk.explore(fn, torch.randn(34, 65, dtype=torch.bfloat16))
    said = [e for e in x["forward"].explanations if e.reason.name == "forwarded"]
    assert said and all(e.reason["again"] <= e.reason["stored"] for e in said)
    assert {e.subject[0] for e in said} <= set(forwarded(x))


@pytest.mark.parametrize(("fn", "name"), STOPS.items(), ids=lambda f: getattr(f, "__name__", f))
def test_chains_stop(fn: Callable[..., object], name: str) -> None:
    x = fk.explore(fn, torch.randn(34, 65))
    refused = [e for e in x["forward"].explanations if e.verdict == "declined"]
    assert name in [e.reason.name for e in refused]
    assert not {op for e in refused for op in e.subject} & set(forwarded(x))


def test_what_is_not_forwarded_crosses_in_memory() -> None:
    x = fk.explore(two_sums, torch.randn(34, 65, dtype=torch.bfloat16))
    y = x.what_if(without="forward")
    assert not any(y.graph.op(op).forward for op in y.graph.ops())
    assert y.summary().bytes_moved >= x.summary().bytes_moved
