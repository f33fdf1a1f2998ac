"""Source text to callable: compiled by Numba and kept on disk, or run as plain Python by the tests."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import cache as cache_result
from typing import Any

import numba
import numpy as np

from fusekit.lower import Kernel
from fusekit.run import cache, helpers, threads

_LOCK = threading.RLock()
_COMPILED: dict[tuple[str, str, str], Callable[..., int | None]] = {}
_TYPES = {"address": "int64", "int": "int64", "float": "float64"}


def compile_kernel(kernel: Kernel) -> Callable[..., int | None]:
    """The kernel as machine code; the same source compiles once a process, and once a machine where the disk serves.

    One that checks indices gives back 1 where one is bad, one that asks for memory 2 where there is none, else 0.
    """
    result = "int64" if kernel.checks or kernel.room else "void"
    signature = f"{result}({', '.join(_TYPES[param.kind] for param in kernel.params)})"
    key = (kernel.source, signature, kernel.precision)
    found = _COMPILED.get(key)
    if found is None:
        with _LOCK:
            found = _COMPILED.get(key) or _compile(kernel, signature)
            _COMPILED[key] = found
    return found


def _compile(kernel: Kernel, signature: str) -> Callable[..., int | None]:
    """The serial function; beside it, where its loop may run in parallel and this process can, the parallel one."""
    try:
        path, on_disk = str(cache.write_source(kernel.source)), True
    except OSError:  # a read-only home: compile every time
        path, on_disk = f"<{kernel.name}>", False

    def build(suffix: str, parallel: Any) -> Callable[..., int | None]:
        function = _execute(kernel.source, path, helpers.compiled())[kernel.name]
        options = {"error_model": "numpy", "nogil": True, "parallel": parallel}
        if kernel.precision == "fast":  # a product and a sum may become one rounding; nothing else of fast math
            suffix, options["fastmath"] = f"{suffix}_fast", {"contract"}
        function.__qualname__ = f"{kernel.name}_{cache.digest(kernel.source)}{suffix}"  # becomes the symbol
        return _compiled(function, signature, options, on_disk)

    if not kernel.parallel or not threads.available():
        return build("", False)
    return _Either(build("_threads", threads.OPTIONS), lambda: build("", False))


def _compiled(function: Callable[..., None], signature: str, options: dict[str, Any], on_disk: bool) -> Any:
    """The machine code; where Numba cannot read its own file of it (cut short, overwritten), that file is made anew."""
    dispatcher: Any = numba.njit(cache=on_disk, **options)(function)
    try:
        dispatcher.compile(signature)
    except Exception:
        if not on_disk:
            raise
        try:
            dispatcher._cache.flush()  # an empty index: the entry is not read, but written again
        except OSError:
            dispatcher = numba.njit(**options)(function)
        dispatcher.compile(signature)
    return _entry(dispatcher)


def _entry(dispatcher: Any) -> Callable[..., int | None]:
    """The compiled function itself: there is one signature, and choosing it takes longer than a small kernel."""
    (compiled,) = dispatcher.overloads.values()
    return compiled.entry_point


class _Either:
    """The parallel function; after a fork a serial one, which is made when it is first needed."""

    def __init__(self, parallel: Callable[..., int | None], serial: Callable[[], Callable[..., int | None]]):
        self.parallel, self._make = parallel, cache_result(serial)

    def __call__(self, *args: int | float) -> int | None:
        return self.parallel(*args) if threads.may_run() else self._make()(*args)


def plain_kernel(kernel: Kernel, shuffle: int | None = None) -> Callable[..., int | None]:
    """The very source as plain Python. ``shuffle``: a seed; every loop then runs in a random order."""
    space = _execute(kernel.source, f"<{kernel.name}>", helpers.plain() | {"prange": range})
    if shuffle is not None:
        space["range"] = space["prange"] = _shuffled(random.Random(shuffle))
    function = space[kernel.name]

    def run(*args: int | float) -> int | None:
        with np.errstate(all="ignore"):
            return function(*args)

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
