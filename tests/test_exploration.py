"""``explore``: what run and check refuse, pipelines in part, names that do not exist yet, errors of a caller's slip."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import fusekit as fk
from fusekit import pipeline
from fusekit.errors import CannotLower, FusekitError, TextSyntaxError, UnsupportedError
from fusekit.run.plan import LastRun

P = fk.PIPELINE
NAMED = {one.name: one for one in P}


def passes_of(*names: str) -> tuple[object, ...]:
    return tuple(NAMED[name] for name in names)


def before(name: str) -> tuple[object, ...]:
    """The pipeline up to a pass, without it."""
    return P[: [one.name for one in P].index(name)]


def two(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a * 2 + b


def mixed(a: torch.Tensor) -> torch.Tensor:
    half = a[1:].t()
    half.mul_(3)
    return torch.cumsum(a, 0) + (a * 2).sum()


# ---- what was explored may have changed


@pytest.fixture
def weights() -> list[torch.Tensor]:
    return [torch.ones(1000)]


@pytest.fixture
def weighted(weights: list[torch.Tensor]) -> fk.Exploration:
    return fk.explore(lambda x: x * 0 + weights[0], torch.ones(1000))


@pytest.mark.parametrize("other", [torch.ones(1), torch.ones(1000, dtype=torch.float64), torch.ones(2000)[::2]])
@pytest.mark.parametrize("act", ["run", "check", "check_steps", "profile"])
def test_a_capture_of_another_layout(
    weights: list[torch.Tensor], weighted: fk.Exploration, other: torch.Tensor, act: str
) -> None:
    weights[0] = other
    with pytest.raises(FusekitError, match=r"\[0\] is torch\.float.*explored was"):
        getattr(weighted, act)()


def test_a_capture_that_is_gone(weights: list[torch.Tensor], weighted: fk.Exploration) -> None:
    weights.clear()
    with pytest.raises(FusekitError, match="not like the explored one"):
        weighted.run()


def test_new_values_of_a_capture_are_read(weights: list[torch.Tensor], weighted: fk.Exploration) -> None:
    weights[0] = torch.full((1000,), 7.0)
    assert torch.equal(weighted.run(), weights[0])
    assert weighted.check().ok


def test_an_explored_argument_that_was_resized() -> None:
    a = torch.ones(100)
    x = fk.explore(lambda a: a + 1, a)
    a.resize_(3)
    for act in (x.run, x.check):
        with pytest.raises(FusekitError, match=r"a is torch\.float32 \[3\]"):
            act()


def test_a_guarded_value_that_changed() -> None:
    setting = {"k": 2.0}
    x = fk.explore(lambda a: a * setting["k"], torch.ones(3))
    setting["k"] = 3.0
    for act in (x.run, x.check, lambda: x.run(torch.ones(3))):
        with pytest.raises(FusekitError, match=r"'k'\] has another value"):
            act()


def test_a_capture_that_shares_with_an_argument() -> None:
    whole = torch.arange(8.0)

    def f(a: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        return whole + 1

    x = fk.explore(f, whole[2:6])
    assert x.check().ok
    assert x.run().tolist() == [1, 2, 5, 7, 9, 11, 7, 8]
    assert whole.tolist() == list(range(8))


# ---- other arguments than the explored ones


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((torch.ones(3),), r"\(tensor\), not \(tensor, tensor\)"),
        ((torch.ones(3),) * 3, "arranged in another way"),
        ((torch.ones(3), 3), "is 3, explored was a tensor"),
        ((torch.ones(3), None), "is None, explored was a tensor"),
        ((torch.ones(3), torch.ones(4)), r"b is torch\.float32 \[4\]"),
        ((torch.ones(3), torch.ones(3, dtype=torch.int64)), "b is torch.int64"),
        ((3,), r"\(3\), not"),
    ],
)
def test_arguments_that_do_not_fit(args: tuple[object, ...], says: str) -> None:
    x = fk.explore(two, torch.ones(3), torch.ones(3))
    with pytest.raises(FusekitError, match=says):
        x.run(*args)


def test_arguments_of_a_callables_exploration() -> None:
    compiled = fk.jit(two)
    compiled(torch.ones(3), torch.ones(3))
    (x,) = compiled.explorations()
    with pytest.raises(FusekitError, match="is missing"):
        x.run(torch.ones(3))
    with pytest.raises(FusekitError, match="is 3, explored"):
        x.run(3, torch.ones(3))
    for act in ("run", "check", "check_steps", "profile"):
        with pytest.raises(FusekitError, match="without arguments"):
            getattr(x, act)()
    assert x.summary().kernels == 1 and x.segments and x.kernels


def test_names_in_any_order() -> None:
    x = fk.explore(two, a=torch.ones(3), b=torch.zeros(3))
    assert x.run(b=torch.ones(3), a=torch.zeros(3)).tolist() == [1, 1, 1]


def test_a_flag_among_the_arguments() -> None:
    x = fk.explore(lambda a, flag: a + 1 if flag else a - 1, torch.ones(3), True)
    assert x.run(torch.ones(3), True).tolist() == [2, 2, 2]
    with pytest.raises(FusekitError, match="another program"):
        x.run(torch.ones(3), False)


@pytest.mark.parametrize("step", [99, -99, "nothing", 1.5])
def test_a_step_that_is_not_there(step: object) -> None:
    with pytest.raises(FusekitError, match="the steps are 0 trace, 1 alias-groups"):
        fk.explore(two, torch.ones(3), torch.ones(3))[step]  # pyright: ignore[reportArgumentType]


# ---- pipelines in part


@pytest.mark.parametrize("passes", [(), P[:1], P[:2], before("segment")])
def test_without_segments_there_is_nothing_to_run(passes: tuple[object, ...]) -> None:
    options = fk.Options(passes=passes)
    x = fk.explore(mixed, torch.rand(4, 4), options=options)
    assert all(report.ok for report in x.check_steps().values())
    assert x.text() and repr(x) and x.diagram().svg
    for act in (x.run, x.check, x.summary, lambda: fk.jit(mixed, options=options)(torch.rand(4, 4))):
        with pytest.raises(FusekitError, match=r"a plan needs segments, and in none is .*PIPELINE"):
            act()


@pytest.mark.parametrize(
    "passes",
    [
        before("schedule"),
        passes_of("functionalize", "segment"),
        passes_of("alias-groups", "segment"),
        passes_of("segment", "schedule"),
    ],
)
def test_shorter_pipelines_that_run(passes: tuple[object, ...]) -> None:
    options = fk.Options(passes=passes)
    assert fk.explore(mixed, torch.rand(4, 4), options=options).check().ok


@pytest.mark.parametrize(
    ("passes", "says"),
    [
        (P[::-1], "the pass schedule does not take this graph"),
        ((*P[:2], P[1]), "functionalize .*only-places"),
        ((*before("schedule"), NAMED["segment"]), "segment .*no-segment-yet"),
        (passes_of("schedule"), "schedule .*every-op-has-a-segment"),
        ((*P[:2], P[0]), "alias-groups .*only-places"),
    ],
)
def test_passes_out_of_place(passes: tuple[object, ...], says: str) -> None:
    with pytest.raises(FusekitError, match=says):
        fk.explore(mixed, torch.rand(4, 4), options=fk.Options(passes=passes))


def test_what_is_no_pass() -> None:
    with pytest.raises(FusekitError, match="is no pass"):
        fk.Options(passes=(3,))  # pyright: ignore[reportArgumentType]


def test_a_refused_kernel_is_counted_as_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise CannotLower("a test says no")

    monkeypatch.setattr(pipeline, "lower_segment", refuse)
    compiled = fk.jit(lambda a: (a * 2).sin() + 1)
    assert torch.equal(compiled(torch.zeros(5)), torch.ones(5))
    (x,) = compiled.explorations()
    assert compiled.last_run == LastRun(0, 3, 2)  # mul, sin and add; a load and a store
    assert (x.summary().kernels, x.summary().extern_calls, x.summary().copies) == (0, 3, 2)
    assert x.segments[0].refused == "a test says no" and "a test says no" in repr(x)


# ---- names that have no meaning yet


@pytest.mark.parametrize("field", [{"alias": "byte ranges"}, {"random": "own"}, {"tune": True}, {"cuda_graph": True}])
def test_options_of_later(field: dict[str, object]) -> None:
    with pytest.raises(UnsupportedError, match=next(iter(field))):
        fk.Options(**field)  # pyright: ignore[reportArgumentType]
    fk.Options(alias="exact", random="eager", tune=False, cuda_graph=False)


def test_a_kernel_is_short_to_print_and_can_be_saved(tmp_path: Path) -> None:
    (kernel,) = fk.explore(two, torch.ones(3), torch.ones(3)).kernels
    assert repr(kernel).startswith("<kernel fk_mul_add(") and len(repr(kernel)) < 160
    assert kernel.export(tmp_path / "k.py").read_text() == kernel.source


# ---- slips


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (lambda: 3, "the second is 3 of type int"),
        (lambda: None, "NoneType"),
        (lambda: torch.ones(3).to_sparse(), "sparse_coo"),
        (lambda: torch.ones(3, device="meta"), "without memory"),
        (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "qint8"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_overlap_of_what_has_no_bytes(other: Callable[[], object], says: str) -> None:
    with pytest.raises(FusekitError, match=says):
        fk.overlap(torch.ones(3), other())  # pyright: ignore[reportArgumentType]


def test_text_with_an_unknown_dtype() -> None:
    text = fk.explore(two, torch.ones(3), torch.ones(3)).text("trace").replace("f32", "f33", 1)
    with pytest.raises(TextSyntaxError, match=r"no dtype 'f33' at line \d+.*f32"):
        fk.parse(text)


@pytest.mark.filterwarnings("ignore")
def test_quantized_tensors_are_named() -> None:
    q = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)
    for act in (fk.explore, lambda f, q: fk.jit(f)(q)):
        with pytest.raises(UnsupportedError, match="quantized tensor at argument q"):
            act(lambda q: q.dequantize(), q)
    with pytest.raises(UnsupportedError, match=r"a quantized tensor, of quantize_per_tensor\(\) at .*test_exploration"):
        fk.explore(lambda a: torch.quantize_per_tensor(a, 0.1, 0, torch.qint8).dequantize(), torch.ones(4))
    assert fk.explore(lambda a: torch.fake_quantize_per_tensor_affine(a, 0.1, 0, 0, 255), torch.rand(4)).check().ok


def test_a_segment_tells_its_schedule_and_takes_it_back() -> None:
    x = fk.explore(lambda a: a.exp() + 1, torch.randn(37, 33))
    (segment,) = x.segments
    assert segment.schedule and segment.reads and segment.writes
    again = x.what_if(schedule={segment.id: segment.schedule})
    assert again.segments[0].schedule == segment.schedule and again.check().ok


def test_every_name_of_a_scheduler_is_the_one_that_took_the_segment() -> None:
    """Text, segment, tooltip, card and picture agree: a reduction is nowhere said to be pointwise."""
    x = fk.explore(lambda a: a.softmax(1), torch.rand(64, 32))
    names = {x.graph.segment(s).by for s in x.graph.segments()}
    assert names == {"persistent"}
    cards = [x.stepper().document["nodes"][s.id][-1]["card"] for s in x.segments]
    assert {s.scheduler for s in x.segments} == names == {dict(c["facts"])["scheduler"] for c in cards}
    told = (repr(x), repr(x.segments[0]), x.stepper().document["segments"][0]["note"])
    assert all("persistent" in text and "pointwise" not in text for text in told)
    assert "$0 persistent" in x.diagram(view="segments").svg  # its tooltip, which also says who refused it


def test_the_table_of_merges_is_no_formula() -> None:
    html = fk.explore(lambda a: (a.softmax(1), a.sum(0)), torch.rand(64, 32)).merges()._repr_html_()
    assert html.startswith('<table class="mathjax_ignore">')
