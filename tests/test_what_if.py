"""``what_if``: decisions that run, add up and can be diffed; illegal ones say what they break and how to mend it."""

from __future__ import annotations

import pytest
import torch

import fusekit as fk
from fusekit.errors import FusekitError, IllegalTransform
from fusekit.notebook.document import document

ARGS = torch.rand(30, 1031), torch.rand(30, 20), torch.rand(20, 13), torch.rand(6, 41)


def three(a: torch.Tensor, b: torch.Tensor, w: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
    p = (a * 2).sin()
    m = b @ w
    return p, m.softmax(1), c.cos(), a.view(-1)


def mutates(a: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    a.mul_(2)
    row.add_(1)
    return a.sum(0) * row


@pytest.fixture(scope="module")
def x() -> fk.Exploration:
    return fk.explore(three, *ARGS)


@pytest.mark.parametrize(
    "decision",
    [
        {"merge": ("$1", "$3")},
        {"split": "%mul"},
        {"split": "^1"},
        {"order": ("$3", "$1")},
        {"order": ("$1", "$0")},
        {"without": "schedule"},
        {"without": "alias-groups"},
        {"without": ("schedule", "alias-groups")},
        {"schedule": {"$1": ""}},
        {"schedule": {"$1": "merge(0).split(0, 128)"}},
        {"precision": "fast"},
        {"alias": "conservative"},
        {"allocation": {"%c": "split(0, 2).reorder(1, 0, 2)"}},
    ],
    ids=str,
)
def test_a_decision_runs_and_can_be_diffed(x: fk.Exploration, decision: dict[str, object]) -> None:
    y = x.what_if(**decision)
    assert y.check(atol=1e-5).ok, y.check(atol=1e-5)
    assert y.decisions == tuple(f"{name}={value!r}" for name, value in decision.items())
    assert f"what if {next(iter(decision))}=" in repr(y) and "what if" not in repr(x)
    assert repr(fk.diff(x, y)) and y.recording is x.recording
    assert repr(fk.diff(x, x)) == "no difference"


def test_merge_and_split_change_the_kernels(x: fk.Exploration) -> None:
    kernels = x.summary().kernels
    merged = x.what_if(merge=("$1", "$3"))
    assert merged.summary().kernels == kernels - 1
    assert any("what_if(merge=...) puts them together" in str(e.reason) for e in merged.why("$1"))
    (both,) = [s.id for s in merged.segments if len([op for op in s.ops if "store" in op]) == 2]
    again = merged.what_if(split=both)
    assert again.summary().kernels == kernels and len(again.decisions) == 2
    assert x.what_if(split="%mul").summary().kernels == kernels + 1


def test_a_pass_left_out_is_no_step(x: fk.Exploration) -> None:
    for one in x.options.passes:
        if one.name != "segment":
            y = x.what_if(without=one.name)
            assert one.name not in [step.name for step in y.steps]
            assert y.check(atol=1e-5).ok, one.name


def test_decisions_add_up(x: fk.Exploration) -> None:
    y = x.what_if(order=("$1", "$0")).what_if(split="%mul").what_if(without="schedule")
    assert len(y.decisions) == 3 and all(f"what if {said}" in repr(y) for said in y.decisions)
    assert y.check(atol=1e-5).ok
    first = y.graph.segments()[0]
    assert y.graph.segment(first).scheduler == "pointwise", "the order asked for first still holds"


def test_the_callers_tensors_are_not_touched() -> None:
    a = torch.rand(7, 13)
    before = a.clone()
    x = fk.explore(mutates, a, a[3])
    for y in (x.what_if(split="%a.1"), x.what_if(without="schedule")):
        assert y.check().ok
        y.run()
        assert torch.equal(a, before) and a._version == 0
    mine, theirs = a.clone(), a.clone()
    assert torch.allclose(y.run(mine, mine[3]), mutates(theirs, theirs[3]))
    assert torch.equal(mine, theirs)


def cycle(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (a * 2).exp() @ w + a


def ordered(a: torch.Tensor) -> torch.Tensor:
    return fk.cut(a + 1) * 2


@pytest.mark.parametrize(
    ("fn", "args", "decision", "says"),
    [
        (cycle, (torch.rand(7, 7), torch.rand(7, 7)), {"merge": ("$0", "$1")}, "mm is a library call.*merge kernels"),
        (cycle, (torch.rand(7, 7), torch.rand(7, 7)), {"merge": ("$0", "$2")}, "must run after.*segments-are-ordered"),
        (cycle, (torch.rand(7, 7), torch.rand(7, 7)), {"order": ("$2", "$0")}, "must run before.*segments-are-ordered"),
        (ordered, (torch.rand(7),), {"merge": ("$0", "$1")}, r"must be written before it is read.*fk\.cut"),
        (ordered, (torch.rand(7),), {"order": ("$1", "$0")}, r"segments-are-ordered\); leave these two"),
        (ordered, (torch.rand(7),), {"split": "$0"}, "one store.*name a tensor"),
        (ordered, (torch.rand(7),), {"split": "%a"}, "in memory already"),
        (ordered, (torch.rand(7),), {"merge": "$0"}, "is not enough"),
        (ordered, (torch.rand(7),), {"merge": ("$0", "$9")}, r"no '\$9'.*segments are \$0, \$1"),
        (ordered, (torch.rand(7),), {"without": "segment"}, r"without segment nothing runs.*split"),
        (ordered, (torch.rand(7),), {"without": "nothing"}, "the passes are alias-groups, functionalize"),
        (ordered, (torch.rand(7),), {"allocation": {"%q": "split(0, 7)"}}, "no input.*inputs are %a"),
        (ordered, (torch.rand(7),), {}, "forces nothing.*merge, split"),
        (ordered, (torch.rand(7),), {"fuse": True}, "knows no 'fuse'.*merge, split"),
    ],
)
def test_what_is_not_legal(fn: object, args: tuple[torch.Tensor, ...], decision: dict[str, object], says: str) -> None:
    x = fk.explore(fn, *args)  # pyright: ignore[reportArgumentType]
    with pytest.raises(FusekitError, match=says):
        x.what_if(**decision)
    assert x.check().ok


def mean_needed_later(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    mean = x.mean(1, keepdim=True)
    z = (x - mean) @ w
    return z * mean + z


def test_decisions_about_what_the_segmenter_stores() -> None:
    """A segment with a value that is stored for a later kernel can be named like any other."""
    x = fk.explore(mean_needed_later, torch.rand(37, 129), torch.rand(129, 129))
    assert any(e.reason.name == "stored-once" for s in x.steps for e in s.explanations)
    with pytest.raises(FusekitError, match=r"must run after.*the call must stay between"):
        x.what_if(merge=("$0", "$2"))
    with pytest.raises(FusekitError, match="must run before"):
        x.what_if(order=("$2", "$0"))
    for decision in ({"order": ("$0", "$2")}, {"schedule": {"$0": "split(0, 4)"}}, {"split": "$0"}):
        assert x.what_if(**decision).check(atol=1e-4).ok, decision
    apart = x.what_if(split="$0")
    assert apart.summary().kernels == x.summary().kernels + 1
    assert apart.what_if(without="forward").what_if(merge=("$0", "$1")).summary().kernels == x.summary().kernels


@pytest.mark.parametrize(
    ("decision", "says"),
    [
        ({"merge": ("$1", "$1")}, r"names one segment, \$1"),
        ({"merge": ("%mul", "%sin")}, r"names one segment, \$1"),
        ({"order": ("$0", "$1", "$0")}, "names one launch twice"),
        ({"split": "^load"}, "in memory already"),
        ({"split": ("%mul", "%mul")}, "a boundary after %mul already"),
        ({"schedule": {"$0": "split(0, 2)"}}, r"\$0 is a library call, and has no loops"),
        ({"schedule": {}}, "names no segment"),
        ({"allocation": {}}, "names no input"),
    ],
    ids=str,
)
def test_what_makes_no_sense(x: fk.Exploration, decision: dict[str, object], says: str) -> None:
    with pytest.raises(FusekitError, match=says):
        x.what_if(**decision)


def test_loops_that_do_not_go_together() -> None:
    x = fk.explore(lambda a, b: (a.softmax(1), b.softmax(0)), torch.rand(7, 13), torch.rand(5, 11))
    with pytest.raises(FusekitError, match=r"no nest of loops holds both.*folds dims"):
        x.what_if(merge=("$0", "$1"))
    with pytest.raises(IllegalTransform, match=r"what_if\(schedule=.*is not legal"):
        x.what_if(schedule={"$0": "merge(0)"})


def test_the_page_says_what_was_decided(x: fk.Exploration) -> None:
    y = x.what_if(without="schedule")
    assert "what if without='schedule'" in document(y).signature


@pytest.mark.parametrize("chain", ["reorder(5, 0)", "reorder(0, 0)", "reorder()", "reorder(-1, 0)", "split(9, 2)"])
def test_an_allocation_that_is_no_order(chain: str) -> None:
    x = fk.explore(lambda a: a.sin(), torch.rand(4, 6))
    with pytest.raises(IllegalTransform, match=r"permutation|no axis 9"):
        x.what_if(allocation={"%a": chain})


@pytest.mark.parametrize(
    ("chain", "says"),
    [
        (".".join(["split(0, 2)"] * 20_000), "characters"),
        (".".join(["split(0, 2)"] * 300), "more than 256 links"),
        (f"split(0, {'9' * 40})", "not understood"),
        ("share(%a, after=0, loop=" * 2000, "never closes"),
        ("split(0, 2)" + "x" * 30_000, "after a link"),
    ],
    ids=["long", "links", "digits", "nested", "rest"],
)
def test_a_chain_has_bounds(chain: str, says: str) -> None:
    x = fk.explore(lambda a: a.sin(), torch.rand(4, 6))
    with pytest.raises(fk.FusekitError, match=says) as caught:
        x.what_if(schedule={"$0": chain})
    assert len(str(caught.value)) < 2000
