"""Passes by users: a function or a small class in the pipeline is drawn, diffed and checked as ours are."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
import torch

import fusekit as fk
from fusekit.errors import FusekitError, InvalidGraph
from fusekit.ir import FUNCTIONAL, Graph, Operand, PassResult, core
from fusekit.why import Reason

AT = next(k for k, one in enumerate(fk.PIPELINE) if one.name == "functionalize") + 1


def squares(graph: Graph) -> PassResult:
    """pow(x, 2) is x * x, which every backend has in one instruction."""
    draft = graph.draft("squares")
    for op in graph.ops():
        payload = graph.op(op)
        if payload.target == "aten.pow.Tensor_Scalar":
            if payload.args[1] == 2:
                product = replace(payload, what=core.Call("aten.mul.Tensor", (Operand(0), Operand(0))))
                draft.replace(op, product, because=Reason.say("x**2 is x*x"))
            else:
                draft.decline((op,), Reason.say(f"no product for the exponent {payload.args[1]}"))
    return draft.finish()


class Doubles:
    """x * 2 is x + x, where ``most`` is not reached."""

    name = "doubles"
    ensures = FUNCTIONAL

    def __init__(self, most: int = 9):
        self.most = most

    def __call__(self, graph: Graph) -> PassResult:
        draft = graph.draft(self.name)
        for op in graph.ops()[: self.most]:
            payload = graph.op(op)
            if payload.target == "aten.mul.Tensor" and payload.args[1:] == (2,):
                total = replace(payload, what=core.Call("aten.add.Tensor", (Operand(0), Operand(0))))
                draft.replace(op, total, because=Reason.say("x*2 is x+x"))
        return draft.finish(self.ensures)


def f(a: torch.Tensor) -> torch.Tensor:
    return (a**2 + a**3).sin() * 2


def explore(*mine: object, at: int = AT) -> fk.Exploration:
    passes = [*fk.PIPELINE[:at], *mine, *fk.PIPELINE[at:]]
    return fk.explore(f, torch.rand(1031), options=fk.Options(passes=passes))


def test_a_function_is_a_pass() -> None:
    x = explore(squares)
    assert x.check().ok and x.check_steps()["squares"].ok
    assert [str(e.reason) for e in x["squares"].explanations] == ["x**2 is x*x", "no product for the exponent 3"]
    (changed,) = x.diff("functionalize", "squares").changed
    assert x["squares"].graph.op(changed).target == "aten.mul.Tensor"
    assert any("x**2 is x*x" in str(e) for e in x.why(changed))
    assert "x**2 is x*x" in x.text("squares")
    assert fk.parse(x.text("squares")) == x["squares"].graph
    assert "x**2 is x*x" in x.diagram(step="squares", since="functionalize").svg
    assert "**" not in x.kernels[0].source.replace("**3", "")


def test_a_class_with_options_is_a_pass() -> None:
    x = explore(squares, Doubles(most=99))
    assert [s.name for s in x.steps][AT + 1 : AT + 3] == ["squares", "doubles"]
    assert x.check().ok and len(x["doubles"].explanations) == 1
    assert not explore(Doubles(most=0))["doubles"].explanations


def test_jit_takes_it_too() -> None:
    passes = [*fk.PIPELINE[:AT], squares, *fk.PIPELINE[AT:]]
    a = torch.rand(7, 13)
    assert torch.allclose(fk.jit(f, passes=passes)(a), f(a))


def test_a_pass_after_segment_keeps_segments() -> None:
    x = explore(squares, at=len(fk.PIPELINE))
    assert x.check().ok and len(x.kernels) == 1


def fails(graph: Graph) -> PassResult:
    return graph.operands(graph.ops()[99])  # pyright: ignore[reportReturnType]


def forgets(graph: Graph) -> PassResult:
    return graph.draft("forgets")  # pyright: ignore[reportReturnType]


def breaks(graph: Graph) -> PassResult:
    draft = graph.draft("breaks")
    draft.remove(next(op for op in graph.ops() if graph.op(op).target == "fk.load"))
    return draft.finish()


@pytest.mark.parametrize(
    ("mine", "error", "says"),
    [
        (fails, FusekitError, r"the pass fails failed: IndexError.* at .*test_user\.py:\d+"),
        (forgets, FusekitError, r"the pass forgets gave <.*Draft.*, not a PassResult at .*test_user\.py:\d+; .*finish"),
        (breaks, InvalidGraph, r"the pass breaks broke defined-before-use: .*nothing makes at .*test_user\.py:\d+"),
    ],
)
def test_an_error_names_the_pass_and_the_line(mine: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        explore(mine)


def test_the_line_is_the_one_that_failed() -> None:
    with pytest.raises(FusekitError) as caught:
        explore(fails)
    line = int(str(caught.value.where).rpartition(":")[2])
    assert line == fails.__code__.co_firstlineno + 1


@pytest.mark.parametrize("mine", [3, "segment", lambda graph: graph, Doubles, None])
def test_what_is_no_pass(mine: object) -> None:
    with pytest.raises(FusekitError, match="is no pass"):
        explore(mine)


def test_collections_go_on_after_a_pass_that_failed() -> None:
    """Garbage is not collected while passes run, and is again afterwards, whatever happens."""
    seen: list[bool] = []

    def fails(graph: object) -> object:
        seen.append(gc.isenabled())
        raise ValueError("no")

    with pytest.raises(fk.FusekitError):
        fk.explore(torch.sin, torch.rand(3), options=fk.Options(passes=[fails]))
    assert seen == [False] and gc.isenabled()


@pytest.mark.parametrize("passes", [None, fk.PIPELINE[0]], ids=["None", "one pass"])
def test_passes_are_a_list(passes: object) -> None:
    with pytest.raises(fk.FusekitError, match="is no list of passes"):
        fk.Options(passes=passes)  # pyright: ignore[reportArgumentType]
