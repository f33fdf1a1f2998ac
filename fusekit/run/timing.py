"""How long things take: clocks for a CPU and for a GPU's stream, runs with the same bytes each time, copy bandwidth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from typing import Protocol

import torch

from fusekit.run.closeness import whole
from fusekit.run.cuda.device import describe, measured_bandwidth, require_device
from fusekit.run.forks import Lock

WARM_UP, FEWEST, MOST = 3, 5, 50  # runs
COPIED = 1 << 28  # bytes of the copy that measures a CPU: more than its caches hold
AHEAD = 5_000_000  # cycles that a GPU waits before a run, so that the launches are queued when it begins

_set_versions = torch._C._autograd._unsafe_set_version_counter  # pyright: ignore[reportAttributeAccessIssue]
_CPU: list[float] = []
_LOCK = Lock()


class Clock(Protocol):
    """``mark`` notes a moment; ``lap`` begins a run; ``between`` gives seconds once ``settle`` was called."""

    def lap(self) -> None: ...
    def mark(self) -> object: ...
    def settle(self) -> None: ...
    def between(self, first: object, then: object) -> float: ...


class CpuClock:
    """Wall time."""

    def lap(self) -> None:
        pass

    def mark(self) -> object:
        return time.perf_counter()

    def settle(self) -> None:
        pass

    def between(self, first: object, then: object) -> float:
        assert isinstance(first, float) and isinstance(then, float)
        return then - first


class CudaClock:
    """Time on the device, by events on the current stream.

    A run begins with an emptied last-level cache, and with a wait that lets the launches queue up: what is timed is the
    device's work, not the host's.
    """

    def __init__(self, device: torch.device):
        require_device(device.index or 0)
        self.device = device
        self.flushed = torch.empty(2 * describe(device.index or 0).cache, dtype=torch.uint8, device=device)

    def lap(self) -> None:
        self.flushed.zero_()
        with torch.cuda.device(self.device):
            torch.cuda._sleep(AHEAD)

    def mark(self) -> object:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event

    def settle(self) -> None:
        torch.cuda.synchronize(self.device)

    def between(self, first: object, then: object) -> float:
        assert isinstance(first, torch.cuda.Event) and isinstance(then, torch.cuda.Event)
        return first.elapsed_time(then) / 1e3


def clock_of(device: torch.device) -> Clock:
    """The clock of a device. Raises BackendUnavailable where there is no such device."""
    return CudaClock(device) if device.type == "cuda" else CpuClock()


def bandwidth_of(device: torch.device) -> float:
    """GB/s of a large copy, bytes read and bytes written: measured at the first call of the process."""
    if device.type == "cuda":
        return measured_bandwidth(device.index or 0)
    with _LOCK:
        if not _CPU:
            _CPU.append(_measure())
        return _CPU[0]


def _measure() -> float:
    """With torch's threads, into memory that was touched before; the fastest of a few."""
    source = torch.ones(COPIED // 4, dtype=torch.float32, device="cpu")
    target = torch.zeros_like(source)
    seconds: list[float] = []
    for _ in range(FEWEST + 1):
        started = time.perf_counter()
        target.copy_(source)
        seconds.append(time.perf_counter() - started)
    return 2 * source.nbytes / min(seconds) / 1e9


class Same:
    """Gives the storages of tensors the bytes back that they had.

    ``narrow``, once after a run: only those that the run changed are looked after from now on.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]):
        storages = {t.untyped_storage()._cdata: t.untyped_storage() for t in tensors}.values()
        self.kept = [(flat, flat.clone()) for flat in (whole(storage, torch.uint8) for storage in storages)]

    def narrow(self) -> None:
        self.kept = [(flat, old) for flat, old in self.kept if not torch.equal(flat, old)]

    def restore(self) -> None:
        with torch.no_grad():
            for flat, old in self.kept:
                flat.copy_(old)


@contextmanager
def unchanged(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Bytes and version counters of the caller's captures are as before at the end."""
    same, versions = Same(tensors), [0 if t.is_inference() else t._version for t in tensors]
    try:
        yield
    finally:
        same.restore()
        for tensor, version in zip(tensors, versions, strict=True):
            if not tensor.is_inference():
                _set_versions((tensor,), (version,))


def timed(clock: Clock, work: Callable[[], Sequence[object]], same: Same, budget: float) -> Iterator[list[float]]:
    """Seconds between the marks that ``work`` makes, one list a run, after some to warm up.

    Each run begins with the bytes of ``same``; giving them back is not timed. All take about ``budget`` seconds, or
    longer where only a few fit.
    """
    started = time.perf_counter()
    try:
        for run in range(WARM_UP + MOST):
            same.restore()
            clock.lap()
            marks = work()
            clock.settle()
            if run == 0:
                same.narrow()
            if run >= WARM_UP:
                yield [clock.between(a, b) for a, b in pairwise(marks)]
            if run + 1 >= WARM_UP + FEWEST and time.perf_counter() - started > budget:
                return
    finally:
        same.restore()


def medians(runs: Sequence[Sequence[float]]) -> list[float]:
    """The median of each column."""
    return [median(column) for column in zip(*runs, strict=True)]
