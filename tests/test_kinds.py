"""Public calls say what they take: an argument of another kind is an error that names it, the call and the cure."""

from pathlib import Path
from typing import Any

import pytest
import torch

import fusekit as fk
from fusekit.kinds import FLAG, NODES, SIZE, STEP, WHOLE, expect, expect_names, maybe, one_of


def f(x: torch.Tensor) -> torch.Tensor:
    return x.relu() * 2


@pytest.fixture(scope="module")
def x() -> fk.Exploration:
    return fk.explore(f, torch.ones(3))


CALLS: tuple[Any, ...] = (
    lambda x: fk.jit(f, options={"backend": "cpu"}), lambda x: fk.jit(f, options="cpu"), lambda x: fk.jit("f"),
    lambda x: fk.jit(f, nonsense=1), lambda x: fk.jit(f, strict="yes"), lambda x: fk.jit(f, backend=None),
    lambda x: fk.jit(options=3), lambda x: fk.jit(None, nonsense=1),
    lambda x: fk.explore("f"), lambda x: fk.explore(None), lambda x: fk.explore(f, options={"backend": "cpu"}),
    lambda x: fk.explore(classmethod(f)), lambda x: fk.Options(strict=1), lambda x: fk.Options(passes="schedule"),
    lambda x: fk.Options(precision=[]), lambda x: fk.Options(alias=None), lambda x: fk.Options(tune=3),
    lambda x: fk.diff(x, 3), lambda x: fk.diff(None, x), lambda x: fk.parse(3), lambda x: fk.parse(None),
    lambda x: fk.parse(b"graph f {}"), lambda x: fk.cut(3), lambda x: fk.overlap(3, torch.ones(2)),
    lambda x: x.why(None), lambda x: x.why(3), lambda x: x.why("$0", 3), lambda x: x.why(["$0"]),
    lambda x: x[None], lambda x: x[True], lambda x: x[1.5], lambda x: x[99], lambda x: x[["trace"]],
    lambda x: x.text([]), lambda x: x.diff("trace", None), lambda x: x.diff({}, 0),
    lambda x: x.diagram(3.5), lambda x: x.diagram(view=3), lambda x: x.diagram(since=[]),
    lambda x: x.diagram(view="domains", segment=3), lambda x: x.diagram().save(3),
    lambda x: x.check(rtol=float("nan")), lambda x: x.check(atol=-1), lambda x: x.check(rtol="x"),
    lambda x: x.check(atol=True), lambda x: x.check(rtol=float("inf")),
    lambda x: x.profile("x"), lambda x: x.profile(-1), lambda x: x.profile(float("nan")), lambda x: x.profile(None),
    lambda x: x.report(3), lambda x: x.report(None), lambda x: x.report("page.html", check="no"),
    lambda x: x.what_if(), lambda x: x.what_if(nonsense=1), lambda x: x.what_if(merge=3),
    lambda x: x.what_if(split=None), lambda x: x.what_if(schedule=3), lambda x: x.what_if(without=3),
    lambda x: x.what_if(alias=3), lambda x: x.what_if(precision=None), lambda x: x.what_if(allocation="a"),
    lambda x: x.what_if(order=[3, 4]),
    lambda x: fk.testing.check("f", 3), lambda x: fk.testing.check(f, torch.ones(2), rtol=float("nan")),
    lambda x: fk.testing.check(f, torch.ones(2), backend=3), lambda x: fk.testing.check(f, torch.ones(2), bitwise="x"),
    lambda x: fk.testing.check(f, torch.ones(2), every_step=0), lambda x: fk.testing.differential(f, 3),
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_a_wrong_kind_is_told(x: fk.Exploration, call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fk.FusekitError) as told:
        call(x)
    assert told.value.what and told.value.fix, told.value
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (FLAG, (True, False), (1, "yes", None)),
        (SIZE, (0, 1, 2.5, torch.tensor(2.5).item()), (-1, True, float("nan"), float("inf"), "1", None, 1j)),
        (WHOLE, (0, -3), (True, 1.0, "1")),
        (STEP, ("trace", 0, -1), (None, True, 1.5)),
        (maybe(STEP), ("trace", None), (1.5,)),
        (one_of("a", "b"), ("a",), ("c", 1, [])),
        (NODES, ("$0", ("$0", "^1"), []), (3, [3], None)),
    ],
)
def test_kinds(kind: Any, right: Any, wrong: Any) -> None:
    for value in right:
        expect("call", value=(value, kind))
    for value in wrong:
        with pytest.raises(fk.FusekitError, match=r"value=.* at call\(\.\.\.\); give it"):
            expect("call", value=(value, kind))


def test_a_value_whose_repr_fails_is_told_by_its_class() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    with pytest.raises(fk.FusekitError, match="value=<Shy>"):
        expect("call", value=(Shy(), FLAG))
    with pytest.raises(fk.FusekitError, match="it takes a, b"):
        expect_names("call", ["c"], ["a", "b"])
