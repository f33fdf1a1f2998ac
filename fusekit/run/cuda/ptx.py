"""Source text to PTX for a compute capability: no device, no driver. Kept on disk by all that decides it."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import re
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fusekit.errors import BackendUnavailable
from fusekit.run import cache as disk
from fusekit.run.cuda import helpers
from fusekit.run.cuda import source as text
from fusekit.run.cuda.kinds import PARAMETERS
from fusekit.run.forks import Lock
from fusekit.run.signals import held_back

LEAST_CC = (8, 0)
"""The first compute capability that rounds to bf16 in one instruction."""
_INSTALL = "python -m pip install numba-cuda 'nvidia-nvvm==13.0.*' 'nvidia-cuda-nvrtc==13.0.*'"
_LOCK = Lock()
_COMPILED: OrderedDict[str, Ptx] = OrderedDict()
_MOST = 512  # texts in memory
_ENTRY = re.compile(r"\.visible \.entry (\w+)\(")


@dataclass(frozen=True, slots=True)
class Ptx:
    """One kernel: ``entry`` is its name in ``text``, ``kinds`` are those of its parameters (see kinds.PARAMETERS)."""

    entry: str
    text: str
    kinds: tuple[str, ...]
    cc: tuple[int, int]
    threads: int


def compile_ptx(
    source: str,
    name: str,
    kinds: Sequence[str],
    cc: tuple[int, int],
    *,
    threads: int,
    blocks: int = 0,
    contract: bool = False,
    quick: bool = False,
) -> Ptx:
    """Function ``name`` of ``source`` for blocks of up to ``threads`` threads.

    ``quick``: may a quotient of float32 be off by two units in the last place?
    ``blocks``: this many shall fit one multiprocessor (0: as it comes). ``contract``: may a product and a sum become
    one rounding? Raises BackendUnavailable where NVVM or numba-cuda is missing, or ``cc`` is below 8.0.
    """
    if cc < LEAST_CC:
        capability = ".".join(map(str, cc))
        raise BackendUnavailable(f"compute capability {capability} is below 8.0", None, 'use backend="cpu"')
    options = (name, tuple(kinds), cc, threads, blocks, contract, quick)
    key = hashlib.sha256("\n".join((source, repr(options), *versions())).encode()).hexdigest()[:32]
    found = _COMPILED.get(key)
    if found is not None:
        return found
    with held_back(), _LOCK:
        found = _COMPILED.get(key)
        if found is None:
            body = _read(key) or _compile_and_keep(key, source, options)
            found = _COMPILED[key] = Ptx(name, body, tuple(kinds), cc, threads)
            if len(_COMPILED) > _MOST:
                _COMPILED.popitem(last=False)
    return found


def clear_cache() -> None:
    """Forgets every PTX in memory, and all that is kept on disk."""
    with _LOCK:
        _COMPILED.clear()
        disk.remove()


# ---- the disk --------------------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Where the PTX of this version lives."""
    version = hashlib.sha256("\n".join(versions()).encode()).hexdigest()[:12]
    return disk.cache_root() / f"cuda-{version}"


def _compile_and_keep(key: str, source: str, options: tuple[Any, ...]) -> str:
    body = _compile(source, *options)
    disk.write(cache_folder(), f"{key}.ptx", body.encode())
    return body


def _read(key: str) -> str | None:
    found = disk.read(cache_folder(), f"{key}.ptx")
    return None if found is None else found.decode()


@cache
def versions() -> tuple[str, ...]:
    """All but the source that decides what a kernel does; found without importing Numba."""
    packages = ("numba", "numba-cuda", "llvmlite", "numpy", "nvidia-nvvm")
    parts = [sys.version, *(f"{package} {_version(package)}" for package in packages)]
    parts += [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    here = Path(__file__).parent
    for path in (*sorted(here.glob("*.py")), *sorted((here.parents[1] / "ops").glob("*.py"))):
        parts.append(hashlib.sha256(path.read_bytes()).hexdigest())
    return tuple(parts)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


# ---- Numba and NVVM --------------------------------------------------------------------------------------------------


def _compile(
    source: str,
    name: str,
    kinds: tuple[str, ...],
    cc: tuple[int, int],
    threads: int,
    blocks: int,
    contract: bool,
    quick: bool,
) -> str:
    with _row_stack():
        compiler, dispatcher, types, names = _numba()
        function = text.execute(source, name, names, f"<{name}>", helpers.device)
        signature = tuple(getattr(types, PARAMETERS[kind]) for kind in kinds)
        bounds = (threads, blocks) if blocks else threads
        with _stub(dispatcher, cc):
            # The public compile() has no word for contraction: this is its body up to NVVM's options.
            library, _ = compiler._compile_pyfunc_with_fixup(
                function, signature, cc=cc, device=False, abi="numba", fastmath=False, launch_bounds=bounds
            )
            library._nvvm_options["fma"] = contract
            if quick:
                library._nvvm_options["prec-div"] = False
            body = "".join(_assembled(library, cc))
    return _named(body, name)


def _assembled(library: Any, cc: tuple[int, int]) -> list[str]:
    try:
        return library.get_asm_strs(cc=cc)
    except Exception as error:
        if type(error).__name__ in ("NvvmSupportError", "NvvmError", "DynamicLibNotFoundError"):
            raise BackendUnavailable(f"NVVM made no PTX ({error})", None, _INSTALL) from error
        raise


def _numba() -> tuple[Any, Any, Any, dict[str, Any]]:
    try:
        from numba.cuda import compiler, dispatcher, types

        names = helpers.compiled()
    except ImportError as error:
        raise BackendUnavailable(f"numba-cuda is missing or too old ({error})", None, _INSTALL) from error
    return compiler, dispatcher, types, names


@contextlib.contextmanager
def _row_stack() -> Iterator[None]:
    """numba-cuda 0.30 overloads ``np.row_stack`` at its first compilation, which numpy 2.5 no longer has."""
    lacks = "row_stack" not in vars(np)
    if lacks:
        np.row_stack = np.vstack  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if lacks:
            del np.row_stack  # type: ignore[attr-defined]


@contextlib.contextmanager
def _stub(dispatcher: Any, cc: tuple[int, int]) -> Iterator[None]:
    """Device functions ask the current device for its compute capability: here, the one that is compiled for."""
    kept = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=cc)
    try:
        yield
    finally:
        dispatcher.get_current_device = kept


def _named(body: str, name: str) -> str:
    """The PTX with the kernel under its own name in place of Numba's mangled one, which counts compilations."""
    found = _ENTRY.search(body)
    if found is None:
        raise BackendUnavailable("NVVM made no PTX with an entry", None, _INSTALL)
    body = re.sub(r"^\.common .*NumbaEnv.*\n", "", body, flags=re.MULTILINE)
    return body.replace(found[1], name).rstrip("\x00")
