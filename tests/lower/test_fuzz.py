"""Random kernels on overlapping memory: in order, in random order, and lowered for a machine without an order."""

import random
from itertools import product
from math import prod

import pytest

from fusekit.dtypes import I32
from fusekit.ids import NodeId
from fusekit.index import Form
from fusekit.ir import Graph
from tests.lower.sketch import Sketch, at, check

ELEMENTS = 60


def _strides(shape: tuple[int, ...], choose: random.Random) -> tuple[int, ...]:
    """Nested, in any order of dimensions, with gaps."""
    order, strides, step = list(range(len(shape))), [0] * len(shape), choose.choice([1, 1, 1, 2])
    if choose.random() < 0.3:
        choose.shuffle(order)
    for k in reversed(order):
        strides[k] = step
        step = step * shape[k] + choose.choice([0, 0, 0, 1])
    return tuple(strides)


def _place(s: Sketch, block: NodeId, shape: tuple[int, ...], choose: random.Random) -> tuple[NodeId, set[int]] | None:
    strides = _strides(shape, choose)
    span = sum(st * (n - 1) for st, n in zip(strides, shape, strict=True))
    if span >= ELEMENTS:
        return None
    offset = choose.randrange(ELEMENTS - span)
    touched = {offset + sum(i * st for i, st in zip(at, strides, strict=True)) for at in product(*map(range, shape))}
    return s.place(block, shape, strides, offset, I32, choose.choice("abc")), touched


def _window(s: Sketch, value: NodeId, shape: tuple[int, ...], choose: random.Random) -> NodeId:
    """A view of a value with another shape: flipped, permuted, sliced, repeated or reshaped to fit."""
    source, index = s.payloads[value].shape, at(*shape)
    flat = Form()
    for i, n in zip(index, shape, strict=True):
        flat = flat * n + i
    if choose.random() < 0.5 and prod(source) >= prod(shape):  # as one dimension, from somewhere
        flat = flat + choose.randrange(prod(source) - prod(shape) + 1)
        forms = [flat // prod(source[k + 1 :]) % n for k, n in enumerate(source)]
    else:
        forms = []
        for n in source:
            fitting = [i for i, m in zip(index, shape, strict=True) if 1 < m <= n]
            form = choose.choice(fitting) if fitting and choose.random() < 0.8 else Form.of(choose.randrange(n))
            high = form.bounds[1]
            form = -form + high if choose.random() < 0.3 else form
            forms.append(form + choose.randrange(n - high))
    return s.window(value, shape, *forms)


def _overlay(s: Sketch, base: NodeId, value: NodeId, choose: random.Random) -> NodeId:
    shape, inner = s.payloads[base].shape, s.payloads[value].shape
    if len(shape) != len(inner):
        return base
    forms = [i - choose.randrange(-1, 3) for i in at(*shape)]
    return s.overlay(base, value, forms, list(zip(forms, inner, strict=True)))


def _shape(choose: random.Random) -> tuple[int, ...]:
    return choose.choice([(5,), (12,), (3, 4), (4, 3), (2, 3, 2), (6, 5), (1, 4), (3, 1), (), (2, 2), (20,)])


def program(seed: int) -> Graph:
    """Loads first, then values, then stores that share no byte with one another."""
    choose, s = random.Random(seed), Sketch()
    block = s.block(4 * ELEMENTS)
    places = [found for _ in range(5) if (found := _place(s, block, _shape(choose), choose))]
    values = [s.load(place) for place, _ in places]
    for _ in range(choose.randrange(2, 8)):
        value, other = choose.choice(values), choose.choice(values)
        match choose.randrange(4):
            case 0:
                values.append(_window(s, value, _shape(choose), choose))
            case 1:
                values.append(_overlay(s, value, other, choose))
            case _:
                fitted = _window(s, other, s.payloads[value].shape, choose)
                values.append(s.apply("aten.add.Tensor", value, fitted, alpha=choose.choice([1, 3])))
    written: set[int] = set()
    for place, touched in choose.sample(places, len(places)):
        if touched.isdisjoint(written):
            written |= touched
            s.store(_window(s, choose.choice(values[-3:]), s.payloads[place].shape, choose), place)
    return s.finish()


@pytest.mark.parametrize("batch", range(4))
def test_plain(batch: int) -> None:
    import torch

    for seed in range(batch * 25, batch * 25 + 25):
        check(program(seed), how=("plain",), dtype=torch.int32)


def test_compiled() -> None:
    import torch

    for seed in range(1000, 1012):
        check(program(seed), how=("compiled",), dtype=torch.int32)
