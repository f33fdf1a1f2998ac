"""PTX to launches: modules of the driver, and calls of their functions on torch's current stream."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import torch

from fusekit.errors import BackendUnavailable, UnsupportedError
from fusekit.run.cuda.device import current_stream, require_device
from fusekit.run.cuda.ptx import Ptx
from fusekit.run.forks import Lock

MOST_BLOCKS = (2**31 - 1, 65535, 65535)
MOST_THREADS = 1024
_LOCK = Lock()
_LOADED: dict[tuple[Ptx, int], Function] = {}
Extent = tuple[int, int, int]


def load(ptx: Ptx, device: int = 0) -> Function:
    """The kernel on a device; loaded once a process. Raises BackendUnavailable."""
    key = (ptx, device)
    found = _LOADED.get(key)
    if found is None:
        require_device(device)
        with _LOCK:
            found = _LOADED.get(key) or Function(ptx, device)
            _LOADED[key] = found
    return found


class Function:
    """A kernel on a device. Its module stays loaded: launches in flight may still run it."""

    def __init__(self, ptx: Ptx, device: int):
        self.ptx, self.device = ptx, device
        driver = bindings()
        with torch.cuda.device(device):
            torch.cuda.current_stream(device)  # torch's context is the current one
            torch.empty(1, device="cuda")
            self._module = _checked(driver.cuModuleLoadData(ptx.text.encode() + b"\0"), ptx)
            self.handle = _checked(driver.cuModuleGetFunction(self._module, ptx.entry.encode()), ptx)


class Launch:
    """A kernel over one grid: made once, called many times, from any thread."""

    def __init__(self, function: Function, grid: Sequence[int], block: Sequence[int], together: bool = False):
        """``together``: blocks wait for one another. Raises UnsupportedError where the device holds too few at once."""
        self.function = function
        self.grid, self.block = _extent(grid), _extent(block)
        _check_extents(self.grid, self.block, function.ptx)
        self._handle, self._device = function.handle, function.device
        self._kinds = function.ptx.kinds
        self._all_ints = "float" not in self._kinds
        self._buffers = threading.local()
        self._launch = _cooperative() if together else bindings().cuLaunchKernel
        if together:
            _check_together(function, self.grid, self.block)
        self._success = bindings().CUresult.CUDA_SUCCESS
        self._is_empty = 0 in self.grid

    def __call__(self, arguments: Sequence[int | float], stream: int | None = None) -> None:
        """Starts it: on the current stream of the device, or on a stream's handle. ``arguments`` in the kernel's order.

        A grid with a 0 in it starts nothing.
        """
        if self._is_empty:
            return
        device = self._device
        if torch._C._cuda_getDevice() != device:
            with torch.cuda.device(device):
                self(arguments, stream)
            return
        address = self._pack(arguments)
        if stream is None:
            stream = current_stream(device)
        status = self._launch(self._handle, *self.grid, *self.block, 0, stream, address, 0)[0]
        if status is not self._success and status != self._success:
            self._again(status, arguments, stream)

    def _pack(self, arguments: Sequence[int | float]) -> int:
        """The address of the array of pointers to this thread's copy of the arguments."""
        buffers = self._buffers
        try:
            ints, floats = buffers.ints, buffers.floats
        except AttributeError:
            self._make_buffers()
            ints, floats = buffers.ints, buffers.floats
        if self._all_ints:
            ints[:] = arguments
        else:
            for k, (kind, value) in enumerate(zip(self._kinds, arguments, strict=True)):
                (floats if kind == "float" else ints)[k] = value
        return buffers.address

    def _make_buffers(self) -> None:
        count, buffers = len(self._kinds), self._buffers
        ints = (ctypes.c_int64 * count)()
        start = ctypes.addressof(ints)
        buffers.ints, buffers.floats = ints, (ctypes.c_double * count).from_buffer(ints)
        buffers.pointers = (ctypes.c_void_p * max(count, 1))(*(start + 8 * k for k in range(count)))
        buffers.address = ctypes.addressof(buffers.pointers)

    def _again(self, status: Any, arguments: Sequence[int | float], stream: int) -> None:
        """A thread that never used torch on this device has no context yet; every other failure is an error."""
        driver = bindings()
        if status == driver.CUresult.CUDA_ERROR_INVALID_CONTEXT:
            _checked(driver.cuCtxSetCurrent(_primary(self._device)), self.function.ptx)
            address = self._pack(arguments)
            status = self._launch(self._handle, *self.grid, *self.block, 0, stream, address, 0)[0]
        _checked((status,), self.function.ptx)


def _primary(device: int) -> Any:
    driver = bindings()
    number = driver.cuDeviceGet(device)[1]
    return driver.cuDevicePrimaryCtxRetain(number)[1]


def _cooperative() -> Any:
    """``cuLaunchKernel`` for blocks that wait for one another: the driver starts all of them at once, or none."""
    launch = bindings().cuLaunchCooperativeKernel

    def start(handle: Any, *rest: Any) -> Any:
        return launch(handle, *rest[:-1])  # it takes no extra options

    return start


def _check_together(function: Function, grid: Extent, block: Extent) -> None:
    driver, ptx = bindings(), function.ptx
    with torch.cuda.device(function.device):
        threads = block[0] * block[1] * block[2]
        each = _checked(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function.handle, threads, 0), ptx)
    most = each * torch.cuda.get_device_properties(function.device).multi_processor_count
    if grid[0] * grid[1] * grid[2] > most:
        what = f"{grid[0] * grid[1] * grid[2]} blocks that wait for one another, on a device that holds {most} at once"
        raise UnsupportedError(what, ptx.entry, "give the segment another schedule, with fewer blocks along its folds")


def _extent(sizes: Sequence[int]) -> Extent:
    x, y, z = (*sizes, 1, 1)[:3]
    return int(x), int(y), int(z)


def _check_extents(grid: Extent, block: Extent, ptx: Ptx) -> None:
    if any(size > most for size, most in zip(grid, MOST_BLOCKS, strict=True)):
        fix = f"fold the outer blocks into x: the most are {MOST_BLOCKS}"
        raise UnsupportedError(f"a grid of {grid} blocks", ptx.entry, fix)
    threads = block[0] * block[1] * block[2]
    if not 0 < threads <= min(ptx.threads, MOST_THREADS) or block[2] > 64:
        raise UnsupportedError(f"a block of {block} threads", ptx.entry, f"it was compiled for up to {ptx.threads}")


def _checked(result: tuple[Any, ...], ptx: Ptx) -> Any:
    """The value that a driver's call gave beside its status."""
    status, *values = result
    driver = bindings()
    if status == driver.CUresult.CUDA_SUCCESS:
        return values[0] if values else None
    if status == driver.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        version = next((line for line in ptx.text.splitlines() if line.startswith(".version")), "")
        fix = "install an NVVM as old as the driver: python -m pip install 'nvidia-nvvm==13.0.*'"
        raise BackendUnavailable(f"the driver is older than PTX {version}", ptx.entry, fix)
    raise RuntimeError(f"{ptx.entry}: {status.name}: {_words(status)}")


def _words(status: Any) -> str:
    found = bindings().cuGetErrorString(status)
    return found[1].decode() if found[1] else "the driver has no words for it"


@cache
def bindings() -> Any:
    """``cuda.bindings.driver``. Raises BackendUnavailable."""
    try:
        return import_module("cuda.bindings.driver")
    except ImportError as error:
        fix = "python -m pip install 'cuda-bindings>=13.0'"
        raise BackendUnavailable("cuda-bindings is missing", None, fix) from error
