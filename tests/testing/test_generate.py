"""Random programs: data with a readable source, the same for a seed, shrinkable, and eager runs them."""

import hypothesis
import pytest
import torch
from hypothesis import given, settings

from fusekit.testing.differential import clone_arguments, differential
from fusekit.testing.generate import programs, random_program
from fusekit.testing.programs import RandomProgram
from fusekit.testing.stages import interpreted, stages

pytestmark = pytest.mark.filterwarnings("ignore:Use of index:UserWarning")


def test_a_seed_gives_one_program() -> None:
    for seed in range(30):
        one, other = random_program(seed), random_program(seed)
        assert one == other and one.source == other.source
        for a, b in zip(one.make(), other.make(), strict=True):
            assert torch.equal(a.nan_to_num(), b.nan_to_num())


def test_the_source_is_python_that_eager_runs() -> None:
    used: set[str] = set()
    for seed in range(120):
        program = random_program(seed)
        with torch.no_grad():
            result = program.function(*program.args())
        assert len(result) == len(program.outputs)
        used |= {step.text.split("(")[0].split(".")[-1] for step in program.steps}
    assert {"copy_", "add_", "expand", "as_strided", "where", "fill_", "cat"} <= used


def test_interpreter_is_eager_at_every_stage() -> None:
    for seed in range(30):
        program = random_program(seed, errors=seed % 4 == 0)
        for name, candidate in stages(program.function):
            report = differential(program.function, candidate, program.args(), title=f"seed {seed} after {name}")
            assert report.ok, f"{program}\n{report}"


@settings(
    max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(hypothesis.HealthCheck)
)
@given(programs(steps=6))
def test_interpreter_is_eager_on_the_program_as_written(program: RandomProgram) -> None:
    report = differential(program.function, interpreted(program.function), program.args())
    assert report.ok, f"{program}\n{report}"


def test_hypothesis_shrinks_to_a_short_program() -> None:
    def mutates(program: RandomProgram) -> bool:
        return any(".add_(" in step.text for step in program.steps)

    settings_ = settings(
        max_examples=300,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    found = hypothesis.find(programs(), mutates, settings=settings_)
    assert len(found.steps) <= 2


def test_a_candidate_that_works_on_copies_is_caught() -> None:
    """The test of the test: arguments that eager mutates, or shares with outputs, are another matter on copies."""
    caught = written = 0
    for program in map(random_program, range(40)):
        args = program.args()
        with torch.no_grad():
            program.function(*args)
        args = [arg for arg in args if isinstance(arg, torch.Tensor)]
        if not any(tensor._version != fresh._version for tensor, fresh in zip(args, program.make(), strict=True)):
            continue
        written += 1

        def broken(*args: object, program: RandomProgram = program) -> object:
            return program.function(*clone_arguments(args, {})[0])

        caught += not differential(program.function, broken, program.args()).ok
    assert written > 10 and caught == written


@pytest.mark.parametrize("joined", [False, True])
def test_arguments_lie_in_their_buffers(joined: bool) -> None:
    found = [p for p in map(random_program, range(300)) if any(b.joined == joined for b in p.buffers)]
    assert found
    for program in found[:20]:
        for view, tensor in zip(program.arguments, program.make(), strict=True):
            assert tuple(tensor.shape) == view.shape
