"""Source text to callable: compiled by Numba and kept on disk, or run as plain Python by the tests."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from fusekit.lower import Kernel
from fusekit.run import cache, helpers

_LOCK = threading.RLock()
_COMPILED: dict[tuple[str, str], Callable[..., None]] = {}
_TYPES = {"address": "int64", "int": "int64", "float": "float64"}


def compile_kernel(kernel: Kernel) -> Callable[..., None]:
    """The kernel as machine code; the same source compiles once a process, and once a machine where the disk serves."""
    signature = f"void({', '.join(_TYPES[param.kind] for param in kernel.params)})"
    key = (kernel.source, signature)
    found = _COMPILED.get(key)
    if found is None:
        with _LOCK:
            found = _COMPILED.get(key) or _compile(kernel, signature)
            _COMPILED[key] = found
    return found


def _compile(kernel: Kernel, signature: str) -> Callable[..., None]:
    try:
        path, on_disk = str(cache.write_source(kernel.source)), True
    except OSError:  # a read-only home: compile every time
        path, on_disk = f"<{kernel.name}>", False
    space = _execute(kernel.source, path, helpers.compiled())
    function = space[kernel.name]
    function.__qualname__ = f"{kernel.name}_{cache.digest(kernel.source)}"  # becomes the symbol, one a source
    return numba.njit(signature, error_model="numpy", nogil=True, cache=on_disk)(function)


def plain_kernel(kernel: Kernel, shuffle: int | None = None) -> Callable[..., None]:
    """The very source as plain Python. ``shuffle``: a seed; every loop then runs in a random order."""
    space = _execute(kernel.source, f"<{kernel.name}>", helpers.plain())
    if shuffle is not None:
        space["range"] = _shuffled(random.Random(shuffle))
    function = space[kernel.name]

    def run(*args: int | float) -> None:
        with np.errstate(all="ignore"):
            function(*args)

    return run


def clear_cache() -> None:
    """Forgets compiled kernels, in memory and on disk."""
    with _LOCK:
        _COMPILED.clear()
        cache.remove_cache()


def _execute(source: str, path: str, names: dict[str, Any]) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": __name__}  # Numba's disk cache imports the module of a function
    exec(compile(source, path, "exec"), space)
    space.update((name, value) for name, value in names.items() if name in space)
    return space


def _shuffled(generator: random.Random) -> Callable[..., list[int]]:
    def shuffled(*bounds: int) -> list[int]:
        walk = list(range(*bounds))
        generator.shuffle(walk)
        return walk

    return shuffled
