"""Source text to callable: machine code, kept on disk, or the very source run as plain Python."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable
from functools import cache as cache_result
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import llvmlite
import numba
import numpy as np
from numba.core import config as numba_config

from fusekit.lower import Kernel
from fusekit.run import cache, helpers, native, threads
from fusekit.run.forks import COMPILING
from fusekit.run.signals import held_back

_CONFIG: Any = numba_config
_COMPILED: WeakValueDictionary[tuple[str, str, str], Callable[..., int | None]] = WeakValueDictionary()
"""What plans hold now: a kernel goes with the last of them."""
_TYPES = {"address": "int64", "int": "int64", "float": "float64"}


def compile_kernel(kernel: Kernel) -> Callable[..., int | None]:
    """The kernel as machine code; the same source compiles once a process, and once a machine where the disk serves.

    One that checks indices gives back 1 where one is bad, one that asks for memory 2 where there is none, else 0.
    Under NUMBA_DISABLE_JIT it is plain Python.
    """
    if _CONFIG.DISABLE_JIT:
        return plain_kernel(kernel)
    result = "int64" if kernel.checks or kernel.room else "void"
    signature = f"{result}({', '.join(_TYPES[param.kind] for param in kernel.params)})"
    key = (kernel.source, signature, kernel.precision)
    found = _COMPILED.get(key)
    if found is None:
        with held_back(), COMPILING:  # an interrupt would leave half of Numba's tables
            found = _COMPILED.get(key)
            if found is None:
                found = _COMPILED[key] = _compile(kernel, signature)
    return found


def _compile(kernel: Kernel, signature: str) -> Callable[..., int | None]:
    """The serial function; beside it, where its loop may run in parallel and this process can, the parallel one."""

    def build(parallel: Any) -> Callable[..., int | None]:
        options = {"error_model": "numpy", "nogil": True, "parallel": parallel}
        if kernel.precision == "fast":  # a product and a sum may become one rounding; nothing else of fast math
            options["fastmath"] = {"contract"}
        return _machine_code(kernel, signature, options)

    if not kernel.parallel or not threads.available():
        return build(False)
    return _Either(build(threads.OPTIONS), lambda: build(False))


def _machine_code(kernel: Kernel, signature: str, options: dict[str, Any]) -> Callable[..., int | None]:
    """From the disk, where code of this source and these options is there as it was written; else made, and kept."""
    folder = folder_of_kernels()
    key = cache.digest(kernel.source, kernel.name, signature, repr(sorted(options.items())), *native.facts())
    found = cache.read(folder, key)
    code = native.Code.from_bytes(found) if found is not None else None
    if code is None or native.lacks(code):
        function = _execute(kernel.source, f"<{kernel.name}>", helpers.compiled())[kernel.name]
        code = native.compiled(function, signature, options)
        cache.write(folder, key, code.to_bytes())
    return native.loaded(code, kernel.name)


def folder_of_kernels() -> Path:
    """Where compiled code of this version lies; that of another one is never found."""
    return cache.cache_root() / f"cpu-{_version()}"


@cache_result
def _version() -> str:
    """Changes with everything but source and options that decides what a kernel does."""
    parts = [sys.version, numba.__version__, llvmlite.__version__, np.__version__, *helpers.texts()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


class _Either:
    """The parallel function; after a fork a serial one, which is made when it is first needed."""

    def __init__(self, parallel: Callable[..., int | None], serial: Callable[[], Callable[..., int | None]]):
        self.parallel, self._make = parallel, serial
        self._serial: Callable[..., int | None] | None = None

    def __call__(self, *args: int | float) -> int | None:
        if threads.may_run():
            return self.parallel(*args)
        if self._serial is None:
            with held_back(), COMPILING:
                self._serial = self._serial or self._make()
        return self._serial(*args)


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
    with COMPILING:
        _COMPILED.clear()
        cache.remove()


def _execute(source: str, path: str, names: dict[str, Any]) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": __name__}
    exec(compile(source, path, "exec"), space)
    space.update((name, value) for name, value in names.items() if name in space)
    return space


def _shuffled(generator: random.Random) -> Callable[..., list[int]]:
    def shuffled(*bounds: int) -> list[int]:
        walk = list(range(*bounds))
        generator.shuffle(walk)
        return walk

    return shuffled
