"""Calls after the first: numbers without recordings, predicates, threads, many overlaps, odd library calls."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable

import pytest
import torch

import fusekit as fk
from fusekit.dynamo_backend import backend
from fusekit.errors import FusekitError
from fusekit.run import decode, plan
from fusekit.run.plan import LastRun
from fusekit.testing import differential


def cell() -> dict[str, float]:
    return {"k": 2.0}


SETTING = cell()


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * SETTING["k"]


# ---- numbers


def test_a_moving_number_is_recorded_once() -> None:
    compiled = fk.jit(lambda x, n: (x * n).neg() + n)
    x = torch.rand(5)
    for n in (1.5, 2.5, -3.0, 0.0, -0.0):
        assert torch.equal(compiled(x, n), (x * n).neg() + n)
    info = compiled.cache_info()
    assert info.recordings == 1 and info.plans == 2


def test_integers_and_floats_have_plans_of_their_own() -> None:
    compiled = fk.jit(lambda x, n: x * n + n)
    x, whole = torch.rand(5), torch.arange(5)
    for n in (1, 2, 2.5, 3.0, 3, 1 << 40, 4.5, True):
        for t in (x, whole):
            want, got = t * n + n, compiled(t, n)
            assert got.dtype == want.dtype and torch.equal(got, want), n


def test_numbers_that_eager_refuses() -> None:
    def f(x: torch.Tensor, y: torch.Tensor, n: float) -> torch.Tensor:
        x.add_(1)
        return y.fill_(n)

    compiled = fk.jit(f)
    x, y = torch.zeros(2), torch.zeros(2)
    for n in (1.0, 2.0, 3.0):
        compiled(x, y, n)
    with pytest.raises(RuntimeError, match="overflow"):
        compiled(x, y, 1e39)
    with pytest.raises(RuntimeError, match="overflow"):
        fk.jit(lambda x, n: x.clamp(-1, n))(x, 1e39)
    assert torch.equal(x, torch.full((2,), 3.0)) and torch.equal(y, torch.full((2,), 3.0))
    with pytest.raises(OverflowError):
        fk.jit(lambda x, n: x + n)(x, 1 << 70)


def test_a_number_may_lead_to_code_that_reads_more() -> None:
    def f(x: torch.Tensor, n: float) -> torch.Tensor:
        return x * 1.0 + n if n < 3 else scaled(x) + n

    compiled, x = fk.jit(f), torch.rand(3)
    try:
        SETTING["k"] = 1.0
        for n in (1.0, 2.0, 5.0, 6.0):
            assert torch.equal(compiled(x, n), f(x, n))
        SETTING["k"] = 4.0
        for n in (1.0, 5.0, 6.0, 7.0):
            assert torch.equal(compiled(x, n), f(x, n))
    finally:
        SETTING["k"] = 2.0


def test_a_moving_number_and_captures_that_move() -> None:
    held = {"w": torch.rand(4)}

    def f(x: torch.Tensor, n: float) -> torch.Tensor:
        held["w"].mul_(n)
        return x + held["w"]

    compiled, x = fk.jit(f), torch.rand(4)
    for n in (1.0, 2.0, 3.0, 4.0):
        want = x + held["w"] * n
        assert torch.equal(compiled(x, n), want)
        if n == 2.0:
            held["w"] = torch.rand(4)
    before = held["w"].clone()
    held["w"] = x
    assert torch.equal(compiled(x, 2.0), x + x) and not torch.equal(x, before)


def test_python_effects_behind_a_number_are_refused() -> None:
    log: list[float] = []

    def f(x: torch.Tensor, n: float) -> torch.Tensor:
        if n > 2:
            log.append(n)
        return x * n

    compiled, x = fk.jit(f), torch.rand(3)
    for n in (0.5, 1.5):
        assert torch.equal(compiled(x, n), x * n)
    with pytest.raises(FusekitError, match="log"):
        compiled(x, 3.0)
    assert not log


def test_plans_that_were_dropped_are_made_for_the_numbers_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["fusekit.jit"], "PLANS", 1)
    compiled = fk.jit(lambda x, n: x * n)
    x, y = torch.rand(3), torch.rand(4)
    for t, n in ((x, 2.0), (y, 3.0), (x, 5.0), (y, 6.0), (x, 7.0)):
        assert torch.equal(compiled(t, n), t * n)


def test_a_compiled_function_inside_another() -> None:
    inner = fk.jit(lambda x: x.add_(1))
    outer = fk.jit(lambda x: inner(x) * 2)
    x = torch.zeros(3)
    for k in (1, 2, 3):
        assert torch.equal(outer(x), torch.full((3,), 2.0 * k))
    assert outer.last_run == fk.last_run() and inner.last_run is None


# ---- predicates


def test_two_shapes_in_turn_both_have_a_predicate() -> None:
    compiled = fk.jit(lambda x, y: x.mul_(2) + y)
    pairs = [(torch.ones(n), torch.ones(n)) for n in (3, 4)]
    for _ in range(4):
        for x, y in pairs:
            want = x * 2 + y
            assert torch.equal(compiled(x, y), want)
    held = compiled._fast
    for x, y in pairs:
        compiled(x, y)
    assert len(held) == 2 and compiled._fast is held


def test_views_of_new_storages_keep_their_predicate() -> None:
    compiled = fk.jit(lambda a, b: a.exp_() * b.tanh_())
    for _ in range(6):
        mine, theirs = (torch.linspace(-1, 1, 12).view(3, 4) for _ in range(2))
        assert torch.equal(compiled(mine, mine[0, 0]), theirs.exp_() * theirs[0, 0].tanh_())
    held = compiled._fast
    mine = torch.rand(3, 4)
    compiled(mine, mine[0, 0])
    assert compiled._fast is held and held[0][0]((mine, mine[0, 0])) is not None
    assert held[0][0]((mine, mine[0, 1])) is None
    assert held[0][0]((mine, torch.rand(()))) is None


# ---- threads and failures


def test_last_run_belongs_to_a_thread() -> None:
    one, two = fk.jit(lambda x: x + 1), fk.jit(lambda x: x.cumsum(0))
    one(torch.ones(2))
    seen: list[object] = []

    def work() -> None:
        seen.extend((one.last_run, fk.last_run()))
        two(torch.ones(2))
        seen.extend((one.last_run, two.last_run, fk.last_run()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    called = LastRun(extern_calls=1)
    assert seen == [None, None, None, called, called]
    assert one.last_run == fk.last_run() == LastRun(kernels=1) and two.last_run is None


def test_a_call_that_raises_leaves_no_counts() -> None:
    compiled = fk.jit(lambda x, i: x.mul_(2)[i])
    x = torch.ones(3)
    compiled(x, torch.tensor([0]))
    assert compiled.last_run is not None
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([7]))
    assert compiled.last_run is None and fk.last_run() is None


def test_threads_with_moving_numbers() -> None:
    compiled, wrong = fk.jit(lambda x, n: x * n + 1), []

    def work(seed: int) -> None:
        for k in range(25):
            x, n = torch.full((4 + k % 2,), float(seed)), float(seed + k)
            if not torch.equal(compiled(x, n), x * n + 1):
                wrong.append((seed, k))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and compiled.cache_info().plans <= 4


@pytest.mark.parametrize("front", ["jit", "compile"])
def test_threads_with_overlapping_arguments(front: str) -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.mul_(2) + b.add_(1)

    torch._dynamo.reset()
    compiled = fk.jit(fn) if front == "jit" else torch.compile(fn, backend=backend)
    wrong: list[tuple[int, int]] = []

    def work(seed: int) -> None:
        for k in range(20):
            mine, theirs = (torch.arange(5000.0) * (seed + 1) for _ in range(2))
            got, want = (call(a, a[1 + k % 3]) for call, a in ((compiled, mine), (fn, theirs)))
            if not (torch.equal(got, want) and torch.equal(mine, theirs)):
                wrong.append((seed, k))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- overlaps


def write_all(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    a.add_(b)
    b.mul_(c).sub_(0.5)
    c.copy_(a)
    return a + b * c


def views_back(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a[1:].mul_(b[:-1])
    b.add_(1)
    return a[1:], b, c.view(2, -1), c + a


def chain(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    a.mul_(2).add_(c).clamp_(-4, 4)
    b.add_(a).neg_()
    return b.sin_().mul_(c)


@pytest.mark.parametrize("fn", [write_all, views_back, chain])
def test_random_overlaps_of_three(fn: Callable[..., object]) -> None:
    """Places drawn at random: nothing in common, shifted by some elements, the same, strided."""
    compiled, draw = fk.jit(fn), random.Random(fn.__name__)

    def one(base: torch.Tensor, start: int, step: int) -> torch.Tensor:
        return base[start : start + 6 * step : step]

    for _ in range(67):
        places = [(draw.choice((0, 1, 3, 6, 12, 14)), draw.choice((1, 1, 1, 2))) for _ in range(3)]
        twins = draw.random() < 0.2

        def make(places: list[tuple[int, int]] = places, twins: bool = twins) -> tuple[torch.Tensor, ...]:
            base = torch.linspace(-1, 1, 40)
            found = [one(base, *place) for place in places]
            return (found[0], found[0], found[2]) if twins else tuple(found)

        report = differential(fn, compiled, make())
        assert report.ok, (places, twins, report)
    assert compiled.cache_info().plans <= 64


# ---- library calls that answer otherwise than recorded


@pytest.fixture
def odd_cumsum(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, plans that are made find a cumsum whose result lies column by column."""
    real = decode.overload("aten.cumsum.default")

    def answer(x: torch.Tensor, dim: int) -> torch.Tensor:
        return real(x, dim).t().contiguous().t()

    known = decode.overload
    return lambda: monkeypatch.setattr(plan, "overload", lambda name: answer if "cumsum" in name else known(name))


def test_an_output_has_the_strides_that_the_library_gave(odd_cumsum: Callable[[], None]) -> None:
    odd_cumsum()
    x = torch.rand(3, 4)
    out = fk.jit(lambda x: x.cumsum(0))(x)
    assert torch.equal(out, x.cumsum(0)) and out.stride() == (1, 3)
    out = fk.jit(lambda x: x.cumsum(0).mul_(2))(x)
    assert torch.equal(out, x.cumsum(0) * 2) and out.stride() == (1, 3)


def test_what_reads_and_shares_an_odd_result_is_right(odd_cumsum: Callable[[], None]) -> None:
    odd_cumsum()
    x = torch.rand(3, 4)

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.cumsum(0)
        row = y[1]
        x.mul_(2)
        y.add_(1)
        return y, row, y, (y * x).cumsum(0)

    y, row, again, last = fk.jit(f)(x.clone())
    want = f(x.clone())
    for mine, theirs in zip((y, row, again, last), want, strict=True):
        assert torch.equal(mine, theirs)
    assert again is y
    y.fill_(7)
    assert row.sum() == 28 and last.stride() == (1, 3)


# ---- explorations of a callable


def test_explorations_of_a_callable_need_arguments() -> None:
    compiled = fk.jit(lambda x: x * 2)
    x = torch.rand(3)
    compiled(x)
    (found,) = compiled.explorations()
    assert torch.equal(found.run(x), x * 2)
    with pytest.raises(FusekitError, match="arguments"):
        found.run()
    with pytest.raises(FusekitError, match="arguments"):
        found.check()


def test_explorations_take_numbers_where_the_plan_does() -> None:
    compiled, x = fk.jit(lambda x, n: x * n), torch.rand(3)
    for n in (2.0, 3.0):
        compiled(x, n)
    fixed, general = compiled.explorations()
    assert torch.equal(general.run(x, 5.0), x * 5) and torch.equal(fixed.run(x, 2.0), x * 2)
    with pytest.raises(FusekitError, match="numbers"):
        fixed.run(x, 5.0)
    with pytest.raises(FusekitError, match="numbers"):
        fk.explore(lambda x, n: x * n, x, 2.0).run(x, 5.0)
