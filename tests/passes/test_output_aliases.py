"""Outputs that are views: stored once in their base, rebuilt as eager has them, with the pass and without it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

import fusekit as fk
from fusekit.passes import PIPELINE
from fusekit.passes.alias_roots import alias_root
from fusekit.testing import differential
from fusekit.testing.stages import interpreted
from fusekit.trace import record
from fusekit.why import Reason

LATE = ("output-aliases", "tidy", "sink-reshapes", "forward")


def without(*names: str) -> tuple[object, ...]:
    """The passes up to the segmenter, less some."""
    before = [p for p in PIPELINE if p.name not in ("segment", "schedule")]
    return tuple(p for p in before if p.name not in names)


def stores(fn: Callable[..., object], *args: object, left_out: tuple[str, ...] = ()) -> int:
    graph = record(fn, args).graph
    for one in without(*left_out):
        graph = one(graph).graph  # type: ignore[operator]
    return sum(graph.op(op).target == "fk.store" for op in graph.ops())


def three_views(x):
    y = x + 1
    return y.view(-1), y.t(), y[1:, ::2]


def base_and_view(x):
    y = x.sin()
    return y, y.t().unsqueeze(1)


def needed(x):
    v = (x + 1).view(-1)
    return v, v.cumsum(0), v * 2


def twice(x):
    y = x + 1
    return y, y, y.view(-1)


def argument(x):
    return x.t(), x[1:], x


def in_place(x):
    x.add_(1)
    return x.view(-1), x.t()


def out_of_order(x):
    v = (x + 1).t()
    return v.unsqueeze(0), v


def other_dtype(x):
    return (x + 1).view(torch.int32).t()


def demanded(x):
    return (
        (x + 1).t().contiguous(),
        (x + 1).t().clone(),
        (x[None, None] + 1).contiguous(memory_format=torch.channels_last),
    )


def expanded(x):
    return (x + 1)[None].expand(3, -1, -1), (x + 2)[:, :1].expand(-1, 5)


PROGRAMS = [
    *(three_views, base_and_view, needed, twice, argument, in_place, out_of_order, other_dtype, demanded, expanded)
]


@pytest.mark.parametrize("left_out", [(), ("output-aliases",), LATE], ids=("all", "off", "none"))
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_values_aliases_and_strides_are_eagers(fn: Callable[..., object], left_out: tuple[str, ...]) -> None:
    report = differential(fn, interpreted(fn, without(*left_out)), (torch.randn(33, 65),), title=fn.__name__)
    assert report.ok, report


@pytest.mark.parametrize(("fn", "on", "off"), [(three_views, 1, 4), (base_and_view, 1, 2), (out_of_order, 1, 2)])
def test_a_base_is_stored_once(fn: Callable[..., object], on: int, off: int) -> None:
    x = torch.randn(6, 8)
    assert stores(fn, x) == on
    assert stores(fn, x, left_out=LATE) >= min(off, 2) > on


def test_left_out_it_costs_bytes_and_still_runs() -> None:
    x = fk.explore(three_views, torch.randn(64, 66))
    y = x.what_if(without="output-aliases")
    assert y.check().ok
    assert x.summary().bytes_moved == x.summary().bytes_least < y.summary().bytes_moved


def test_a_view_that_a_computation_needs_stays_in_its_shape() -> None:
    x = fk.explore(lambda x: (lambda v: (v, v.sum()))((x + 1).view(-1)), torch.randn(6, 8))
    said = [e.reason.name for e in x["output-aliases"].explanations if e.verdict == "declined"]
    assert said == ["needed-through-view"]


def test_roots() -> None:
    def f(x):
        y = x.sin()
        return x.t().unsqueeze(0), y.view(-1)[1:], x[:, :3].reshape(-1), y

    graph = record(f, (torch.randn(4, 6),)).graph
    view, part, copied, made = graph.outputs()
    found = [alias_root(graph, t) for t in (view, part)]
    assert [r[0] for r in found if not isinstance(r, Reason)] == ["%x", graph.outputs()[3]]
    for tensor, name in ((copied, "merge-gap"), (made, "is-computed")):
        reason = alias_root(graph, tensor)
        assert isinstance(reason, Reason) and reason.name == name


# ---- random programs ----------------------------------------------------------------------------------------------


def random_program(seed: int) -> Callable[..., object]:
    """Pointwise ops, reductions, views and writes, with several views of what is computed among the outputs."""

    def program(x, w):
        rng = random.Random(seed)
        live = [x, w, x + 1]
        for _ in range(rng.randint(2, 7)):
            live.append(step(rng, live))
        outs = [rng.choice(live) for _ in range(rng.randint(1, 3))]
        return [view(rng, t) for t in outs]

    return program


def step(rng: random.Random, live: list[torch.Tensor]) -> torch.Tensor:
    t = rng.choice(live)
    match rng.randrange(7):
        case 0:
            return rng.choice((torch.sin, torch.neg, torch.relu, lambda v: v * 2))(t)
        case 1 if t.dim():
            d = rng.randrange(t.dim())
            return t - t.mean(d, keepdim=True)
        case 2 if t.dim() and t.numel():
            return t.sum(rng.randrange(t.dim()))
        case 3:
            other = rng.choice(live)
            fits = len(t.shape) == len(other.shape) and all(
                n in (m, 1) or m == 1 for n, m in zip(t.shape, other.shape, strict=False)
            )
            return t + other if fits else t.cos()
        case 4 if t._base is not None and t.numel() == t._base.numel():
            return t.add_(1)
        case _:
            return view(rng, t)


def view(rng: random.Random, t: torch.Tensor) -> torch.Tensor:
    match rng.randrange(6):
        case 0 if t.dim() > 1:
            return t.transpose(rng.randrange(t.dim()), rng.randrange(t.dim()))
        case 1 if t.dim() > 1:
            return t.flatten(0, 1)
        case 2 if t.dim() and t.shape[-1] % 2 == 0:
            return t.unflatten(-1, (t.shape[-1] // 2, 2))
        case 3:
            return t.unsqueeze(rng.randint(0, t.dim()))
        case 4 if t.dim() and t.shape[0] > 1:
            return t[1:]
        case 5 if t.dim() and t.shape[0] == 1:
            return t.expand(3, *t.shape[1:])
        case _:
            return t


@pytest.mark.parametrize("seed", range(150))
def test_random_programs(seed: int) -> None:
    fn, args = random_program(seed), (torch.randn(4, 6), torch.randn(6, 4).t())
    for left_out in ((), ("output-aliases",), ("sink-reshapes", "tidy")):
        report = differential(fn, interpreted(fn, without(*left_out)), args, title=f"seed {seed} less {left_out}")
        assert report.ok, report
