"""Generated sources on disk, named by their content, so that Numba's own disk cache works on them."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

import llvmlite
import numba
import numpy as np


def cache_root() -> Path:
    """$FUSEKIT_CACHE, else ~/.cache/fusekit."""
    return Path(os.environ.get("FUSEKIT_CACHE") or Path.home() / ".cache" / "fusekit")


def kernel_folder() -> Path:
    """Where the sources of this version live; compiled code of another version is never found."""
    return cache_root() / f"cpu-{_version()}"


def write_source(source: str) -> Path:
    """The file that holds ``source``; written once, whole or not at all."""
    folder = kernel_folder()
    path = folder / f"k{digest(source)}.py"
    if not _holds(path, source):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, source)
    return path


def digest(source: str) -> str:
    """The name of a source by its content."""
    return hashlib.sha256(source.encode()).hexdigest()[:20]


def write_atomically(path: Path, text: str) -> None:
    """A reader finds the old file or the new one, whatever interrupts the writer."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def remove_cache() -> None:
    """Everything that fusekit keeps on disk."""
    for folder in cache_root().glob("cpu-*"):
        shutil.rmtree(folder, ignore_errors=True)


def _holds(path: Path, source: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == source
    except (OSError, UnicodeDecodeError):
        return False


@cache
def _version() -> str:
    """Changes with everything but the source that decides what a kernel does: Numba checks none of it."""
    from fusekit.run import helpers

    parts = [sys.version, numba.__version__, llvmlite.__version__, np.__version__, *helpers.texts()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
