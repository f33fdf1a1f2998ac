"""Memory that kernels need between their blocks: partial results and counters, one of each a (device, stream).

Two launches on one stream follow one another, so they share; two streams never do. Hold the tensor until the launch is
issued: a larger request replaces it, and the allocator then hands its memory on in the order of the same stream.
"""

from __future__ import annotations

import torch

from fusekit.run.cuda.device import current_stream
from fusekit.run.forks import Lock

_LOCK = Lock()
_PARTIALS: dict[tuple[int, int], torch.Tensor] = {}
_COUNTERS: dict[tuple[int, int], torch.Tensor] = {}
_LEAST = 1 << 16


def partials(device: int, size: int) -> torch.Tensor:
    """``size`` bytes or more for the current stream of ``device``; what they hold is undefined."""
    return _shared(_PARTIALS, device, size, cleared=False)


def counters(device: int, count: int) -> torch.Tensor:
    """``count`` 32-bit counters or more for the current stream of ``device``, all 0: kernels leave them at 0."""
    return _shared(_COUNTERS, device, 4 * count, cleared=True)


def release() -> None:
    """Forgets all of it; kernels in flight keep theirs by the order of their streams."""
    with _LOCK:
        _PARTIALS.clear()
        _COUNTERS.clear()


def _shared(kept: dict[tuple[int, int], torch.Tensor], device: int, size: int, cleared: bool) -> torch.Tensor:
    if torch.cuda.is_current_stream_capturing():  # the graph may be replayed on any stream: it owns its own
        return _make(device, size, cleared)
    key = (device, current_stream(device))
    found = kept.get(key)
    if found is not None and found.numel() >= size:
        return found
    with _LOCK:
        found = kept.get(key)
        if found is None or found.numel() < size:
            room = max(_LEAST, 1 << (size - 1).bit_length())
            found = kept[key] = _make(device, room, cleared)
    return found


def _make(device: int, size: int, cleared: bool) -> torch.Tensor:
    make = torch.zeros if cleared else torch.empty
    return make(max(size, 16), dtype=torch.uint8, device=torch.device("cuda", device))
