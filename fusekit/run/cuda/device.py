"""The devices: how many, what they are, how fast they copy, and torch's current stream on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import median

import torch

from fusekit.errors import BackendUnavailable
from fusekit.run.forks import Lock

_COPIED: dict[int, float] = {}
_LOCK = Lock()
_LARGEST_COPY = 1 << 30


@dataclass(frozen=True, slots=True)
class Device:
    """``memory`` and ``cache`` (the last level) in bytes."""

    index: int
    name: str
    cc: tuple[int, int]
    multiprocessors: int
    memory: int
    cache: int

    def __str__(self) -> str:
        capability = "".join(map(str, self.cc))
        return f"cuda:{self.index} {self.name}, sm_{capability}, {self.multiprocessors} multiprocessors"


def device_count() -> int:
    """How many CUDA devices torch can use; 0 for a build of torch without CUDA."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def require_device(index: int = 0) -> None:
    """Raises BackendUnavailable where there is no such device."""
    if torch.version.cuda is None:
        fix = "install torch's CUDA build on a machine with an NVIDIA GPU"
        raise BackendUnavailable("no CUDA device: this build of torch has no CUDA", None, fix)
    if index >= device_count():
        raise BackendUnavailable(f"no CUDA device {index}", None, "run on a machine with an NVIDIA GPU")


@cache
def describe(index: int = 0) -> Device:
    """What device ``index`` is. Raises BackendUnavailable."""
    require_device(index)
    found = torch.cuda.get_device_properties(index)
    cc = (found.major, found.minor)
    return Device(index, found.name, cc, found.multi_processor_count, found.total_memory, found.L2_cache_size)


def current_stream(index: int) -> int:
    """The handle of torch's current stream; torch's own object for it costs 8 microseconds."""
    return torch._C._cuda_getCurrentRawStream(index)


def measured_bandwidth(index: int = 0) -> float:
    """GB/s of a large copy on the device, bytes read and bytes written: measured at the first call of the process."""
    with _LOCK:
        if index not in _COPIED:
            require_device(index)
            _COPIED[index] = _measure(index)
        return _COPIED[index]


def _measure(index: int) -> float:
    with torch.cuda.device(index):
        size = min(_LARGEST_COPY, torch.cuda.mem_get_info(index)[0] // 4)
        source = torch.randint(0, 1 << 30, (size // 4,), dtype=torch.int32, device="cuda")
        target = torch.empty_like(source)
        return 2 * source.nbytes / median(event_times(lambda: target.copy_(source), 10)) / 1e6


def event_times(work, repeat: int) -> list[float]:
    """Milliseconds of each of ``repeat`` calls on the current stream, by events, after three to warm up."""
    for _ in range(3):
        work()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeat)]
    for first, last in pairs:
        first.record()
        work()
        last.record()
    torch.cuda.synchronize()
    return [first.elapsed_time(last) for first, last in pairs]
