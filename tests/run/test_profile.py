"""Profiles: a row for what is launched, nothing of the caller's changed, every run on the same bytes. No timings."""

from __future__ import annotations

import json

import pytest
import torch

import fusekit as fk
from fusekit.errors import BackendUnavailable
from fusekit.programs import ODD, PROGRAMS, PROGRAMS_REAL
from fusekit.run import timing
from fusekit.run.profile import Profile, SegmentTime, device_of, duration, size

CPU = torch.device("cpu")
BY_NAME = {p.name: p for p in (*PROGRAMS, *PROGRAMS_REAL)}
SEVERAL = ("linear_bias_gelu", "batch_norm", "thread_f", "adamw", "qkv_views", "gpt2_block")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timing, "COPIED", 1 << 20)
    monkeypatch.setattr(timing, "_CPU", [])
    with torch.no_grad():
        yield


def explored(name: str, dtype: torch.dtype = torch.float32) -> fk.Exploration:
    return fk.explore(BY_NAME[name].fn, *BY_NAME[name].make(ODD, dtype))


@pytest.mark.parametrize("name", SEVERAL)
def test_a_row_for_every_segment_that_launches(name: str) -> None:
    x = explored(name)
    found, counts = x.profile(0), x.summary()
    launching = [s for s in x.segments if s.scheduler != "alias"]
    assert [row.segment for row in found.segments] == [s.id for s in launching]
    assert sum(row.launches for row in found.segments) == counts.kernels + counts.copies + counts.extern_calls
    assert sum(row.nbytes for row in found.segments) == counts.bytes_moved
    for row, segment in zip(found.segments, launching, strict=True):
        assert row.seconds >= 0 and found[segment.id] == row
        assert segment.kernel is None or row.what == segment.kernel.name
    assert found.call > 0 and found.eager > 0 and found.runs >= timing.FEWEST


@pytest.mark.parametrize("name", ["thread_f", "batch_norm", "adamw"])
def test_nothing_of_the_callers_is_changed(name: str) -> None:
    args = BY_NAME[name].make(ODD, torch.float32)
    module, *_ = args
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    tensors += list(module.buffers()) if isinstance(module, torch.nn.Module) else []
    x = fk.explore(BY_NAME[name].fn, *args)
    before = [(t.clone(), t._version) for t in tensors]
    state = torch.get_rng_state()
    x.profile(0)
    assert all(torch.equal(t, old) and t._version == v for t, (old, v) in zip(tensors, before, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


def test_random_ops_leave_torchs_state() -> None:
    x = fk.explore(lambda a: torch.nn.functional.dropout(a, 0.5) + 1, torch.ones(64))
    state = torch.get_rng_state()
    x.profile(0)
    assert torch.equal(torch.get_rng_state(), state)


class Counted:
    """A clock that counts marks."""

    def __init__(self) -> None:
        self.marks, self.laps = 0.0, 0

    def lap(self) -> None:
        self.laps += 1

    def mark(self) -> object:
        self.marks += 1
        return self.marks

    def settle(self) -> None:
        pass

    def between(self, first: object, then: object) -> float:
        assert isinstance(first, float) and isinstance(then, float)
        return then - first


def test_every_run_begins_with_the_same_bytes() -> None:
    clock, written, read = Counted(), torch.ones(8), torch.ones(8)
    seen: list[float] = []

    def work() -> list[object]:
        seen.append(float(written.sum() + read.sum()))
        marks = [clock.mark()]
        written.add_(1)
        return [*marks, clock.mark(), clock.mark()]

    same = timing.Same([written[2:], read])
    runs = list(timing.timed(clock, work, same, 0))
    assert len(runs) == timing.FEWEST and clock.laps == timing.FEWEST + timing.WARM_UP
    assert set(seen) == {16.0} and written.sum() == 8, "the last run is undone, too"
    assert len(same.kept) == 1, "what is only read is not given back"
    assert timing.medians(runs) == [1.0, 1.0]


def test_bandwidth_is_measured_once() -> None:
    assert timing.bandwidth_of(CPU) == timing.bandwidth_of(CPU) > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what is missing where there is no GPU")
def test_a_missing_device_is_named() -> None:
    with pytest.raises(BackendUnavailable, match="no CUDA device"):
        timing.clock_of(torch.device("cuda"))
    with pytest.raises(BackendUnavailable, match="no CUDA device"):
        timing.bandwidth_of(torch.device("cuda", 0))


@pytest.mark.cuda
def test_the_clock_of_a_gpu_counts_its_work() -> None:
    device = torch.device("cuda", 0)
    clock, x = timing.clock_of(device), torch.ones(1 << 24, device=device)

    def work() -> list[object]:
        marks = [clock.mark()]
        x.add_(1)
        return [*marks, clock.mark(), clock.mark()]

    runs = list(timing.timed(clock, work, timing.Same([x]), 0))
    adding, nothing = timing.medians(runs)
    assert len(runs) == timing.FEWEST and adding > nothing >= 0 and bool((x == 1).all())
    assert timing.bandwidth_of(device) > 0


def test_views_launch_nothing() -> None:
    found = fk.explore(lambda a: a.t()[1:], torch.ones(4, 5)).profile(0)
    assert found.segments == () and "a call" in repr(found)


def test_the_table() -> None:
    rows = (SegmentTime("$0", "fk_add", 1, 1e-3, 10_000_000, 0.5), SegmentTime("$2", "addmm", 1, 2e-6, 0))
    found = Profile("f", "cpu (2 threads)", 20.0, rows, 1.1e-3, 2.2e-3, 7)
    assert repr(found).splitlines() == [
        "f on cpu (2 threads), which copies 20.0 GB/s",
        "",
        "segment  what    launches     time    bytes  GB/s  of a copy",
        "------------------------------------------------------------",
        "$0       fk_add         1  1.00 ms  9.5 MiB  10.0       50 %",
        "$2       addmm          1  2.00 µs      0 B",
        "------------------------------------------------------------",
        "all                     2  1.00 ms  9.5 MiB  10.0       50 %",
        "",
        "a call 1.10 ms, eager 2.20 ms, 2.00 times as long; medians of 7 runs",
    ]


def test_data_is_plain() -> None:
    data = explored("linear_bias_gelu").profile(0).data()
    assert json.loads(json.dumps(data))["name"] == "linear_bias_gelu"
    rows = data["segments"]
    assert isinstance(rows, list) and set(rows[0]) >= {"segment", "what", "seconds", "nbytes", "rate", "share"}


def test_words() -> None:
    assert [duration(s) for s in (2e-6, 1.5e-4, 0.25, 3.0)] == ["2.00 µs", "150 µs", "250 ms", "3.00 s"]
    assert [size(n) for n in (12, 4096, 3 << 30)] == ["12 B", "4.0 KiB", "3.0 GiB"]
    assert device_of(explored("thread_f").graph) == CPU
