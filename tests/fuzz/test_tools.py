"""What the fuzz is made of: diverse programs, accidents, a measured bound, watched memory, resuming, shrinking."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
import torch

import fusekit as fk
from fusekit.testing import fuzz, runners
from fusekit.testing.accidents import overlaps_itself, watched
from fusekit.testing.fuzz_prepare import prepare
from fusekit.testing.fuzz_seed import Job, program_of, run_seed
from fusekit.testing.fuzz_state import Failure, State, ranges
from fusekit.testing.generate import random_program
from fusekit.testing.guarded import OutOfBounds, bytes_of, guarded_kernel
from fusekit.testing.programs import Step
from fusekit.testing.runners import Runner
from fusekit.testing.shrink import shrink
from fusekit.testing.trial import try_calls
from tests.fuzz import dying

Body = Callable[[torch.Tensor], torch.Tensor]
pytestmark = pytest.mark.filterwarnings("ignore")


def test_programs_are_diverse() -> None:
    """Several ways of writing, of sharing memory, and few accidents."""
    found = [random_program(seed) for seed in range(150)]
    kinds = Counter(step.kind for program in found for step in program.steps)
    assert len(kinds) >= 14 and kinds["library"] < 0.05 * kinds.total()
    assert all(3 <= len(program.steps) <= 12 and 1 <= len(program.arguments) <= 4 for program in found)
    assert sum(p.placements[0].arguments != p.placements[1].arguments for p in found) > 100
    assert 0 < sum(program.accident for program in found) <= 30
    relations = Counter(
        fk.overlap(a, b)
        for program in found
        for call in (0, 1)
        for a, b in zip(program.make(call), program.make(call)[1:], strict=False)
    )
    assert len(relations) >= 1
    shared = [len({view.buffer for view in p.arguments}) < len(p.arguments) for p in found if len(p.arguments) > 1]
    assert sum(shared) > 0.6 * len(shared)
    dtypes = {tensor.dtype for program in found for tensor in program.make()}
    assert {torch.float32, torch.bfloat16, torch.int64, torch.bool} <= dtypes


def test_both_calls_have_the_same_looks() -> None:
    for seed in range(60):
        program = random_program(seed)
        for a, b in zip(program.make(0), program.make(1), strict=True):
            assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)


def test_a_script_repeats_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (3, 8):
        exec(compile(random_program(seed).script(), "script", "exec"), {})
        assert capsys.readouterr().out.count("the same as eager") == 2


# ---- accidents


@pytest.mark.parametrize(
    ("line", "accident"),
    [
        (lambda a: a[1:].copy_(a[:-1]), True),
        (lambda a: a[1:].copy_(a[:-1].clone()), False),
        (lambda a: a.copy_(a.flip(0)), False),
        (lambda a: a.view(2, 3).add_(a[:3]), True),
        (lambda a: a.as_strided((3, 2), (1, 1)).fill_(2), False),
        (lambda a: a.as_strided((3, 2), (1, 1)).abs_(), True),
        (lambda a: a.add_(a), False),
        (lambda a: a.index_put_((torch.tensor([1, 1]),), torch.tensor([1.0, 2.0])), True),
        (lambda a: a.index_put_((torch.tensor([1, 2]),), torch.tensor([1.0, 2.0])), False),
        (lambda a: a.unsqueeze_(0), False),
    ],
)
def test_accidents_are_seen(line: Callable[[torch.Tensor], object], accident: bool) -> None:
    a = torch.arange(6.0)
    with watched() as watch:
        try:
            line(a)
        except RuntimeError:  # eager refuses some of them
            accident = False
    assert bool(watch.accidents) == accident


def test_self_overlap_by_brute_force() -> None:
    a = torch.arange(12.0)
    assert overlaps_itself(a.unfold(0, 3, 1)) and overlaps_itself(a[:1].expand(2))
    assert not overlaps_itself(a[::2].view(2, 3).T) and not overlaps_itself(a[:0])


# ---- memory on the watch


def test_accesses_outside_of_a_tensor_are_seen() -> None:
    x = fk.explore(lambda a: a[2:5].mul_(2), torch.arange(8.0))
    (kernel,) = x.kernels
    memory = torch.arange(8.0)
    guarded_kernel(kernel, x.graph)(memory.data_ptr())
    assert memory.tolist() == [0, 1, 4, 6, 8, 5, 6, 7]
    assert len(list(bytes_of(x.graph.layout(x.graph.inputs()[0])))) == 32
    source = kernel.source.replace("range(3)", "range(4)")
    assert source != kernel.source
    with pytest.raises(OutOfBounds):
        guarded_kernel(replace(kernel, source=source), x.graph)(memory.data_ptr())


# ---- the bound


@pytest.mark.parametrize(
    ("body", "exact", "change", "verdict"),
    [
        (lambda a: a * 3, True, lambda out: out, "right"),
        (lambda a: a * 3, True, lambda out: torch.nextafter(out, out + 1), "wrong"),
        (lambda a: a.exp().sum(0) * 1000, False, lambda out: torch.nextafter(out, out + 1), "right"),
        (
            lambda a: (a.exp().sum(0) - a.exp().sum(0).neg().neg() * 0.999) * 1e3,
            False,
            lambda out: out * 1.001,
            "right",
        ),
        (lambda a: a.exp().sum(0) * 1000, False, lambda out: out * 1.001, "wrong"),
        (lambda a: (a * float("nan")).view(torch.int32), True, lambda out: out ^ 5, "right"),
        (lambda a: (a * 2).view(torch.int32), True, lambda out: out ^ 5, "wrong"),
    ],
)
def test_a_bound_is_measured(body: Body, exact: bool, change: Body, verdict: str) -> None:
    """A last place is wrong in an exact program, not in a sum; cancellation allows more, and so are bits of a NaN."""

    class Changed(Runner):
        def callable_of(self, fn: Callable[..., object]) -> Callable[..., object]:
            return lambda a: change(body(a))

    makes = [lambda: [torch.tensor([0.5, 1.25, -3.0])]]
    assert try_calls(body, makes, exact, Changed("plain")).verdict == verdict


def test_on_another_device_a_program_makes_its_tensors_there() -> None:
    program = replace(
        random_program(0), steps=(Step("torch.arange(3) + torch.tensor([1, 2, 3])", "t0"),), outputs=("t0",)
    )
    (found,) = program.function_on("meta")(*program.args())
    assert isinstance(found, torch.Tensor) and found.device.type == "meta"


def test_ptx_is_made_without_a_gpu() -> None:
    made, without = prepare(range(3), Job("cuda", steps=4))
    assert made >= 3 and without <= 1


# ---- a run


def test_a_run_goes_on_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "state.json")
    assert fuzz.main(["--programs", "4", "--runner", "interpreter", "--resume", path]) == 0
    assert fuzz.main(["--programs", "6", "--runner", "interpreter", "--resume", path]) == 0
    assert "6 programs by interpreter" in capsys.readouterr().out
    state = State.load(tmp_path / "state.json", "interpreter")
    assert state.done == set(range(6)) and state.counts["right"] == 6
    with pytest.raises(ValueError, match="another file"):
        State.load(tmp_path / "state.json", "plain")


def test_failures_are_kept_and_tried_again(tmp_path: Path) -> None:
    state = State("plain")
    state.add([1, 2, 4], Counter(programs=3, right=2, wrong=1), [Failure(2, "words", "stage", "script")])
    state.save(tmp_path / "state.json")
    again = State.load(tmp_path / "state.json", "plain")
    assert again.failures == state.failures and again.left(0, 5) == [0, 3]
    again.retry()
    assert again.left(0, 5) == [0, 2, 3] and again.counts["programs"] == 2 and not again.failures
    assert list(ranges([5, 1, 2, 3, 9])) == [(1, 3), (5, 5), (9, 9)]


@pytest.mark.slow
def test_a_process_that_dies_is_a_failure_of_its_seed() -> None:
    done, failures = list[int](), []
    for seeds, _, found in fuzz.results(range(20), Job("plain"), 2, dying.work):
        done += seeds
        failures += found
    assert sorted(done) == list(range(20))
    assert [failure.seed for failure in failures] == [dying.SEED]


def test_a_failure_is_shrunk_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A callable that works on copies loses writes: what remains is one write."""

    class Forgetful(Runner):
        def callable_of(self, fn: Callable[..., object]) -> Callable[..., object]:
            return lambda *args: fn(*[a.clone() for a in args])

    monkeypatch.setattr("fusekit.testing.fuzz_seed.Runner", Forgetful)
    failures = [run_seed(seed, Job("interpreter"))[1] for seed in range(6)]
    found = [failure for failure in failures if failure]
    assert found
    for failure in found:
        body = failure.script.split("def program")[1].split("compiled =")[0]
        assert body.strip().count("\n") <= 3, failure.script


def test_shrinking_keeps_what_fails() -> None:
    program = random_program(12, steps=12)
    wanted = program.steps[2].text
    smaller = shrink(program, lambda p: any(step.text == wanted for step in p.steps))
    assert [step.text for step in smaller.steps] == [wanted]
    assert len(list(chain(*[p.arguments for p in smaller.placements]))) <= 2 * len(program.arguments)


def test_programs_for_compiled_kernels_have_large_tensors() -> None:
    sizes = [max(t.numel() for t in program_of(seed, Job("numba")).make()) for seed in range(0, 40, 4)]
    assert max(sizes) > 128
    assert runners.RUNNERS == ("plain", "numba", "interpreter", "sim", "cuda")
