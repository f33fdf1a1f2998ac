"""Launches against a driver that only writes down what it was asked: argument packing, extents, scratch by stream."""

import ctypes
import enum
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fusekit.errors import BackendUnavailable, UnsupportedError
from fusekit.run.cuda import Launch, Ptx, counters, module, partials, scratch

KINDS = ("address", "float", "int")


class Status(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222
    CUDA_ERROR_LAUNCH_FAILED = 719


class Driver:
    """Keeps (grid, block, stream, arguments) of each launch; ``failures`` are the statuses of the next ones."""

    CUresult = Status

    def __init__(self) -> None:
        self.launches: list[Any] = []
        self.failures: list[Status] = []
        self.contexts: list[Any] = []
        self.held = threading.Barrier(1)

    def cuLaunchKernel(self, handle: int, *rest: int) -> tuple[Status]:
        if self.failures:
            return (self.failures.pop(0),)
        grid, block, (_, stream, address, _) = rest[:3], rest[3:6], rest[6:]
        self.held.wait(10)  # another thread packs its arguments meanwhile
        pointers = (ctypes.c_void_p * 3).from_address(address)
        kinds = (ctypes.c_int64, ctypes.c_double, ctypes.c_int64)
        values = tuple(kind.from_address(at).value for kind, at in zip(kinds, pointers, strict=True))
        self.launches.append((grid, block, stream, values))
        return (Status.CUDA_SUCCESS,)

    def cuGetErrorString(self, status: Status) -> tuple[Status, bytes]:
        return Status.CUDA_SUCCESS, b"out of luck"

    def cuDeviceGet(self, device: int) -> tuple[Status, int]:
        return Status.CUDA_SUCCESS, device

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Status, str]:
        return Status.CUDA_SUCCESS, f"context {device}"

    def cuCtxSetCurrent(self, context: str) -> tuple[Status]:
        self.contexts.append(context)
        return (Status.CUDA_SUCCESS,)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(module, "bindings", lambda: made)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(module, "current_stream", lambda device: 77)
    return made


def launch(grid: tuple[int, ...] = (5,), block: tuple[int, ...] = (32, 2)) -> Launch:
    ptx = Ptx("kernel", ".version 9.9\n", KINDS, (9, 0), 64)
    return Launch(SimpleNamespace(ptx=ptx, handle=1, device=0), grid, block)  # type: ignore[arg-type]


def test_arguments_go_by_address_on_the_current_stream(driver: Driver):
    start = launch()
    start((1 << 40, 0.1, -3))
    start((7, 2, 1 << 35), 5)
    assert driver.launches == [
        ((5, 1, 1), (32, 2, 1), 77, (1 << 40, 0.1, -3)),
        ((5, 1, 1), (32, 2, 1), 5, (7, 2.0, 1 << 35)),
    ]


def test_a_wrong_number_of_arguments_is_an_error(driver: Driver):
    with pytest.raises(ValueError):
        launch()((1, 2.0))


def test_threads_do_not_share_the_argument_buffer(driver: Driver):
    start, driver.held = launch(), threading.Barrier(2)
    workers = [threading.Thread(target=start, args=((k, k + 0.5, -k),)) for k in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(values for *_, values in driver.launches) == [(0, 0.5, 0), (1, 1.5, -1)]


def test_an_empty_grid_starts_nothing(driver: Driver):
    launch((4, 0))((1, 2.0, 3))
    assert not driver.launches


@pytest.mark.parametrize(
    ("grid", "block"),
    [((1, 65536), (32,)), ((1, 1, 65536), (32,)), ((1 << 31,), (32,)), ((1,), (65,)), ((1,), (0,))],
)
def test_extents_that_no_device_has_are_refused(driver: Driver, grid: tuple[int, ...], block: tuple[int, ...]):
    with pytest.raises(UnsupportedError):
        launch(grid, block)


def test_a_thread_without_a_context_gets_the_primary_one(driver: Driver):
    driver.failures = [Status.CUDA_ERROR_INVALID_CONTEXT]
    launch()((1, 2.0, 3))
    assert driver.contexts == ["context 0"] and len(driver.launches) == 1


def test_failures_carry_the_drivers_words(driver: Driver):
    driver.failures = [Status.CUDA_ERROR_LAUNCH_FAILED]
    with pytest.raises(RuntimeError, match="kernel: CUDA_ERROR_LAUNCH_FAILED: out of luck"):
        launch()((1, 2.0, 3))
    driver.failures = [Status.CUDA_ERROR_UNSUPPORTED_PTX_VERSION]
    with pytest.raises(BackendUnavailable, match=r"older than PTX \.version 9\.9.*nvidia-nvvm==13\.0"):
        launch()((1, 2.0, 3))


# ---- scratch ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The current stream is the last of the list; memory is the CPU's."""
    current = [1]
    monkeypatch.setattr(scratch, "current_stream", lambda device: current[-1])
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: current[-1] == 0)

    def make(device: int, size: int, cleared: bool) -> torch.Tensor:
        return torch.zeros(size, dtype=torch.uint8)

    monkeypatch.setattr(scratch, "_make", make)
    scratch.release()
    yield current
    scratch.release()


def test_a_stream_keeps_its_scratch_and_shares_it_with_no_other(streams: list[int]):
    first = partials(0, 1000)
    assert partials(0, 2000) is first and counters(0, 4) is not first and partials(1, 1000) is not first
    streams.append(2)
    assert partials(0, 1000) is not first
    streams.append(1)
    assert partials(0, 1000) is first


def test_a_larger_request_replaces_it(streams: list[int]):
    first = partials(0, 1000)
    larger = partials(0, first.numel() + 1)
    assert larger.numel() > first.numel() and partials(0, 1000) is larger


def test_a_captured_graph_owns_its_scratch(streams: list[int]):
    streams.append(0)
    assert counters(0, 4) is not counters(0, 4)
