"""What ``describe`` says of random views of a matrix is what NumPy's indexing gives for these words."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from fusekit import dtypes
from fusekit.ir import Layout
from fusekit.memory import Overlap, describe, overlap, ranges_meet
from tests.memory.test_layouts import byte_set, random_layout

NUMBERS = re.compile(r"-?\d+")


def view_of(rng: random.Random, whole: np.ndarray) -> np.ndarray:
    """Slices, elements, transposes and flips, sometimes one after the other."""
    view = whole
    for _ in range(rng.randint(1, 2)):
        kind = rng.choice(
            ("row", "column", "element", "rows", "columns", "box", "transpose", "flip", "same", "diagonal")
        )
        if view.ndim != 2:
            break
        r, c = view.shape
        a, b = sorted((rng.randrange(r), rng.randrange(r)))
        d, e = sorted((rng.randrange(c), rng.randrange(c)))
        match kind:
            case "row":
                view = view[a]
            case "column":
                view = view[:, d]
            case "element":
                view = view[a, d]
            case "rows":
                view = view[a : b + 1 : rng.choice((1, 2))]
            case "columns":
                view = view[:, d : e + 1 : rng.choice((1, 3))]
            case "box":
                view = view[a : b + 1, d : e + 1]
            case "transpose":
                view = view.T
            case "flip":
                view = view[::-1] if rng.random() < 0.5 else view[:, ::-1]
            case "diagonal":
                view = view.diagonal()
    return np.asarray(view)


def layout_of(view: np.ndarray, whole: np.ndarray) -> Layout:
    start = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return Layout.of(start, view.shape, view.strides, dtypes.I64)


def meant(text: str, whole: np.ndarray) -> list[np.ndarray]:
    """The views that the words may stand for, as numbers of elements in order; empty for words that only count."""
    text, turned = text.removesuffix(", transposed"), text.endswith(", transposed")
    numbers = list(map(int, NUMBERS.findall(text)))
    if text.startswith("element ["):
        return [whole[tuple(numbers)]]
    if text in ("same elements", "same elements, another shape"):
        return [whole]
    if text == "transpose":
        return [whole.T]
    if text in ("flip", "flip, transpose"):
        flips = [whole[::-1], whole[:, ::-1], whole[::-1, ::-1]]
        return flips if text == "flip" else [flip.T for flip in flips]
    if text == "diagonal":
        return [whole.diagonal()]
    found = re.fullmatch(r"(row|column)s? (.+)", text)
    if found is None:
        parts = re.fullmatch(r"\[(.+), (.+)\]", text)
        picked = (
            [] if parts is None else [whole[np.ix_(_places(parts[1], len(whole)), _places(parts[2], whole.shape[1]))]]
        )
    else:
        axis = 0 if found[1] == "row" else 1
        picked = [np.take(whole, _places(found[2], whole.shape[axis]), axis=axis)]
    return [view.T for view in picked] if turned else picked


def _places(words: str, n: int) -> list[int]:
    """``3``, ``1 to 4``, ``1..4``, ``1::2``, ``:``, ``1..4 by 2``."""
    numbers = list(map(int, NUMBERS.findall(words)))
    if re.fullmatch(r"\d+", words):
        return numbers
    if re.fullmatch(r"\d+ to \d+|\d+\.\.\d+", words):
        return list(range(numbers[0], numbers[1] + 1))
    if re.fullmatch(r"\d*:(\d*)(:\d+)?", words):
        return list(range(n))[slice(*(int(part) if part else None for part in words.split(":")))]
    return []


@pytest.mark.parametrize("seed", range(6))
def test_words_mean_what_they_say(seed: int) -> None:
    rng, told = random.Random(seed), 0
    for _ in range(150):
        rows, columns = rng.randint(2, 5), rng.randint(2, 6)
        whole = np.arange(rows * columns).reshape(rows, columns)
        view = view_of(rng, whole)
        text = describe(layout_of(view, whole), Layout.contiguous(whole.shape, dtypes.I64))
        for options in [meant(text, whole)]:
            if options and all(option.size for option in options):
                told += 1
                wanted = sorted(view.ravel().tolist())
                assert any(sorted(o.ravel().tolist()) == wanted for o in options), (text, view, whole)
                if view.ndim == 2:
                    same_shape = [o for o in options if o.shape == view.shape]
                    exact = any(np.array_equal(o, view) for o in same_shape)
                    assert exact or not same_shape or "same elements" in text or 1 in view.shape, (text, view)
    assert told > 50


@pytest.mark.parametrize("seed", range(3))
def test_ranges_meet_where_bytes_lie_between_one_another(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(500):
        a, b = random_layout(rng), random_layout(rng)
        bytes_a, bytes_b = byte_set(a, {}), byte_set(b, {})
        crossing = bool(bytes_a and bytes_b) and min(bytes_a) <= max(bytes_b) and min(bytes_b) <= max(bytes_a)
        assert ranges_meet(a, b) == crossing
        assert crossing or overlap(a, b) is Overlap.DISJOINT
