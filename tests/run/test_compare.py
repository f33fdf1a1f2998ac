"""``compare`` notices each way in which a result can be wrong, and nothing else."""

from collections.abc import Callable

import pytest
import torch

from fusekit.run.closeness import Tolerance, ulps
from fusekit.testing.differential import differential


def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.add_(1)
    z = x * 2
    return x, z, z[1:], y.view(-1)


def kept(x, y):
    return program(x, y)


def wrong_value(x, y):
    a, z, _, v = program(x, y)
    z[0] += 0.01
    return a, z, z[1:], v


def wrong_dtype(x, y):
    a, z, w, v = program(x, y)
    return a, z, w, v.double()


def wrong_strides(x, y):
    x.add_(1)
    z = (x * 2).as_strided((3, 3), (1, 3))
    return x, z, z[1:], y.view(-1)


def not_mutated(x, y):
    _, *rest = program(x.clone(), y)
    return (x + 1, *rest)


def mutates_too_much(x, y):
    out = program(x, y)
    y.as_strided((1,), (1,), 5).zero_()
    return out


def not_the_object(x, y):
    a, *rest = program(x, y)
    return (a.view(3, 3), *rest)


def unshared(x, y):
    a, z, w, v = program(x, y)
    return a, z, w.clone(), v


def shares_too_much(x, y):
    a, _, w, v = program(x, y)
    return a, x.as_strided((3, 3), (3, 1)).mul_(1), w, v


def other_offset(x, y):
    a, z, _, v = program(x, y)
    z2 = torch.cat([z[:1], z]).narrow(0, 1, 3)
    return a, z2, z2[1:], v


def other_structure(x, y):
    return list(program(x, y))


def raises(x, y):
    raise RuntimeError("no")


CANDIDATES: list[tuple[Callable[..., object], str | None]] = [
    (kept, None),
    (wrong_value, "out[1]"),
    (wrong_dtype, "out[3]"),
    (wrong_strides, "out[1]"),
    (not_mutated, "bytes of args[0]"),
    (mutates_too_much, "bytes of args[1]"),
    (not_the_object, "identity"),
    (unshared, "sharing"),
    (shares_too_much, "out[1]"),
    (other_offset, "offset of out[1]"),
    (other_structure, "structure"),
    (raises, "raises"),
]


@pytest.mark.parametrize(("candidate", "what"), CANDIDATES, ids=lambda x: getattr(x, "__name__", ""))
def test_each_difference_is_seen(candidate: Callable[..., object], what: str | None) -> None:
    args = torch.arange(9.0).reshape(3, 3).clone(), torch.arange(8.0).as_strided((2, 2), (2, 1))
    report = differential(program, candidate, args)
    assert [row.what for row in report.failures][:1] == ([] if what is None else [what]) or (
        what in [row.what for row in report.failures]
    ), report
    assert report.ok == (what is None)
    assert args[0][0, 1] == 1  # the caller's tensors stay as they are


def test_versions_count() -> None:
    def eager(x):
        x.add_(0)

    report = differential(eager, lambda x: None, (torch.ones(3),))
    assert [row.what for row in report.failures] == ["version of args[0]"]


def test_errors_compare_by_type_and_by_what_they_left_behind() -> None:
    def eager(x):
        x[0] = 5
        raise IndexError("far")

    def other_type(x):
        raise ValueError("far")

    def half(x):
        x[1] = 6
        raise IndexError("elsewhere")

    def untouched(x):
        raise IndexError("early")

    x = torch.ones(3)
    assert differential(eager, eager, (x,)).ok and differential(eager, untouched, (x,)).ok
    assert not differential(eager, other_type, (x,)).ok
    assert [row.what for row in differential(eager, half, (x,)).failures] == ["args[0] after the error"]


def test_captures_are_put_back() -> None:
    state = torch.zeros(2)

    def step(x):
        return state.add_(x)

    report = differential(step, step, (torch.ones(2),), captures=[("state", state)])
    assert report.ok and state.tolist() == [0, 0] and state._version == 0
    assert any(row.what == "bytes of state" for row in report.rows)


def test_ulps_and_tolerance() -> None:
    one = torch.tensor([1.0, -0.0, float("nan")])
    next_one = torch.nextafter(one, torch.tensor([2.0, 0.0, 0.0]))
    assert ulps(one, next_one) == 1
    eager, ours = (lambda x: x), (lambda x: torch.nextafter(x, x + 1))
    x = torch.tensor([1.0])
    assert differential(lambda x: eager(x) * 1, ours, (x,)).ok
    assert not differential(lambda x: eager(x) * 1, ours, (x,), tolerance=Tolerance(bitwise=True)).ok


def test_table_and_script() -> None:
    report = differential(program, wrong_value, (torch.ones(3, 3), torch.ones(2, 2)), title="program")
    text = repr(report)
    assert text.startswith("program: ") and "eager" in text and "! out[1]" in text
    script = report.repro()
    assert "def program(x" in script and "fk.testing.check(program, x0, x1)" in script
    space: dict[str, object] = {}
    exec(script.split("print(")[0].replace("import fusekit as fk", ""), space)
    assert torch.equal(space["x0"], torch.ones(3, 3))  # type: ignore[arg-type]
