"""What tidy takes out, bit for bit, and what it must leave."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fusekit as fk
from fusekit import dtypes
from fusekit.passes.simpler import holds
from fusekit.torch_types import TO_TORCH


def there_and_back(x):
    return x.double().float() + 1


def wide_first(x):
    return x.double().half()


def narrow(x):
    return x.int().float()


def negated(x):
    return x.sin().neg().neg(), (x > 0).bitwise_not().bitwise_not()


def joined(x):
    a, b, c = x.split((2, 3, x.shape[1] - 5), 1)
    return torch.cat((a, b, c), 1).sin()


def swapped(x):
    a, b = x.split((3, x.shape[1] - 3), 1)
    return torch.cat((b, a), 1).sin()


def of_a_value(x):
    a, b = (x + 1).chunk(2, 1)
    return torch.cat((a, b), 1).sin()


def repeated(x):
    return x.repeat(3, 1).sin(), (x + 1)[:, None].expand(-1, 4, -1).cos()


def squeezed(x):
    y = (x.unsqueeze(0) + 1).squeeze(0)
    x.copy_(y)
    return y.unsqueeze(1).squeeze(1)


def turned(x):
    return (x.t() * 2).t().sum(0)


def half_and_back(x):
    return x.bfloat16().float().bfloat16()


SAID = {
    there_and_back: "cast-and-back",
    wide_first: "casts-joined",
    negated: "undone-twice",
    joined: "parts-of-one",
    of_a_value: "parts-of-one",
    repeated: "before-repeat",
    turned: "view-undone",
}
LEFT = [narrow, swapped, half_and_back]


@pytest.mark.parametrize("fn", [*SAID, *LEFT, squeezed], ids=lambda f: f.__name__)
def test_bits_stay(fn: Callable[..., object]) -> None:
    odd = torch.tensor([0.0, -0.0, float("nan"), -float("nan"), float("inf"), -float("inf"), 1e-42, 3e38])
    x = fk.explore(fn, torch.cat([odd, torch.randn(26) * 100]).repeat(6, 1)[:, :34].contiguous())
    assert all(report.ok for report in x.check_steps().values()), fn.__name__
    assert x.check().ok and x.what_if(without="tidy").check().ok


@pytest.mark.parametrize(("fn", "name"), SAID.items(), ids=lambda f: getattr(f, "__name__", f))
def test_it_says_what_it_did(fn: Callable[..., object], name: str) -> None:
    x = fk.explore(fn, torch.randn(7, 34))
    said = [e.reason.name for e in x["tidy"].explanations]
    assert name in said
    assert len(x["tidy"].graph.ops()) <= len(x["functionalize"].graph.ops())


@pytest.mark.parametrize("fn", LEFT, ids=lambda f: f.__name__)
def test_it_leaves_what_has_other_bits(fn: Callable[..., object]) -> None:
    assert not fk.explore(fn, torch.randn(7, 34))["tidy"].explanations


def test_a_sine_sees_the_small_size() -> None:
    graph = fk.explore(repeated, torch.randn(7, 34))["tidy"].graph
    sizes = {graph.op(op).target: graph.tensor(graph.results(op)[0]).shape for op in graph.ops() if graph.results(op)}
    assert sizes["aten.sin.default"] == (7, 34) and sizes["aten.cos.default"] in ((7, 34), (7, 1, 34))


NUMBERS = [d for d in TO_TORCH if not d.name.startswith("c")]


@pytest.mark.parametrize("wide", NUMBERS, ids=str)
@pytest.mark.parametrize("narrow", NUMBERS, ids=str)
def test_holds(wide: dtypes.DType, narrow: dtypes.DType) -> None:
    """Said of two types only where every extreme value of the one survives the other."""
    if not holds(wide, narrow):
        return
    kind = TO_TORCH[narrow]
    if kind is torch.bool:
        values = torch.tensor([False, True])
    elif kind.is_floating_point:
        info = torch.finfo(kind)
        values = torch.tensor([info.max, info.min, info.tiny, info.smallest_normal, 1 + info.eps], dtype=kind)
    else:
        info = torch.iinfo(kind)
        values = torch.tensor([info.min, info.max, info.max - 1, 0, 1], dtype=kind)
    assert torch.equal(values.to(TO_TORCH[wide]).to(kind), values)
