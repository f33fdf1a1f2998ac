"""The race record in the view "memory": every pair that the kernel protects has a row, and its number in the lanes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
import torch

import fusekit as fk
from fusekit.draw.races import rows_of


def shifted(x: torch.Tensor) -> torch.Tensor:
    x[1:] += x[:-1].clone()
    return x


def flipped(x: torch.Tensor) -> torch.Tensor:
    return x.copy_(x.flip(0))


def element(x: torch.Tensor) -> torch.Tensor:
    return x.exp_() * x[0, 0].tanh_()


def unrelated(x: torch.Tensor) -> torch.Tensor:
    return x * 2


CASES = [
    (shifted, "cpu", "across iterations: loop order backward", "memory"),
    (shifted, "cuda", "across iterations: snapshot", "hazard"),
    (flipped, "cpu", "same iteration: pairing of orbits", "memory"),
    (element, "cuda", "across iterations: store left to the last block", "memory"),
    (element, "cpu", "across iterations: read before the loop", "memory"),
]


@pytest.mark.parametrize(("fn", "backend", "said", "token"), CASES)
def test_verdict_and_remedy_are_drawn(fn, backend: str, said: str, token: str) -> None:
    x = fk.explore(fn, torch.randn(33, 64), options=fk.Options(backend=backend))
    kernels = {s.id: s.kernel for s in x.segments if s.kernel is not None}
    rows, left_out = rows_of(x.graph, kernels)
    assert not left_out
    assert (said, token) in {(row.said, row.token) for row in rows}
    picture = x.diagram(view="memory")
    root = ET.fromstring(picture.svg)
    texts = [e.text or "" for e in root.iter() if e.tag.endswith("}text")]
    assert "Race record" in texts and said in texts
    for row in rows:
        assert texts.count(str(row.number)) >= 2, "in the record, and at a store or an arrow"
        assert row.pairs, "a row knows its load and its store"
    for one in root.iter():  # numbers and words stay in the picture
        if one.tag.endswith("}text"):
            assert 0 <= float(one.get("x", "0")) <= float(root.get("width", "0"))
            assert 0 <= float(one.get("y", "0")) <= float(root.get("height", "0"))


def test_no_race_no_record() -> None:
    svg = fk.explore(unrelated, torch.randn(4, 5)).diagram(view="memory").svg
    assert "Race record" not in svg


def test_what_else_was_looked_at_is_in_the_tooltip() -> None:
    x = fk.explore(shifted, torch.randn(300, 70), options=fk.Options(backend="cuda"))
    svg = x.diagram(view="memory").svg
    assert "not block barrier: iterations of several blocks meet" in svg
    assert re.search(r"not store left to the last block: [\d,]+ elements", svg)


def test_arrows_pass_beside_boxes() -> None:
    """From the first load to the store, level with what the second load does not cover."""
    svg = fk.explore(shifted, torch.randn(300, 70)).diagram(view="memory").svg
    root = ET.fromstring(svg)
    lines = [e for e in root.iter() if e.tag.endswith("}path") and e.get("d", "").startswith("M")]
    boxes = [
        [float(r.get(k, "0")) for k in ("x", "y", "width", "height")]
        for g in root.iter() if g.get("class") == "fk-access"
        for r in g if r.tag.endswith("}rect")
    ]  # fmt: skip
    for line in lines:
        numbers = list(map(float, re.findall(r"-?[\d.]+", line.get("d", ""))))
        if len(numbers) != 4:
            continue
        x0, y0, x1, y1 = numbers
        for x, y, w, h in boxes:
            for t in range(1, 20):
                at = x0 + (x1 - x0) * t / 20, y0 + (y1 - y0) * t / 20
                assert not (x + 1 < at[0] < x + w - 1 and y < at[1] < y + h), "an arrow runs through a box"


def test_many_pairs_with_one_remedy_are_one_example_and_a_count() -> None:
    x = fk.explore(lambda a: a.copy_(a.flip(0) + a.t()), torch.rand(65, 65))
    (kernel,) = x.kernels
    words = re.findall(r"<text[^>]*>(.*?)</text>", x.diagram(view="segments").svg)
    assert len(kernel.races) > 60 and sum("load a[" in text for text in words) <= 3
    assert any(re.fullmatch(r"and \d+ pairs more", text.strip()) for text in words), words
