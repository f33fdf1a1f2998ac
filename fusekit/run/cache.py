"""What is kept on disk: files that are believed only where nobody else can have written them, and as they were written.

A file lies in a folder of its kind and version, under the name of its *key*: a hash of all that decides what it holds.
Its first line has the hash of key and content together, so that a file that was cut, changed, or put in the place of
another one is not what it says it is, and is made anew. The hash is no secret: against other people stands the folder,
which is the user's own and writable for nobody else, and is held open while its files are. What is checked are the very
bytes that are used then. Whatever goes wrong on the disk, nothing is raised: the caller makes the content itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

MOST = 256 << 20
"""Bytes that all files may have together; $FUSEKIT_CACHE_MIB has another number, in MiB."""
_LARGEST = 64 << 20  # bytes of one file
_MARK = b"fusekit 1 "
_STALE = 3600.0  # seconds after which an unfinished file of a process that may be elsewhere is litter
_KINDS = ("cpu-*", "cuda-*")
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # no link is followed, and a FIFO does not wait for a writer
_warned: set[Path] = set()
_written = 0


def cache_root() -> Path:
    """$FUSEKIT_CACHE, else ~/.cache/fusekit."""
    return Path(os.environ.get("FUSEKIT_CACHE") or _home() / ".cache" / "fusekit")


def digest(*parts: str) -> str:
    """A name for what these texts decide together."""
    return hashlib.sha256(
        "\0".join(f"{len(part)} {part}" for part in parts).encode("utf-8", "surrogatepass")
    ).hexdigest()


def read(folder: Path, key: str) -> bytes | None:
    """The content that was kept for the key; None where there is none, or none to be believed."""
    try:
        with _opened(folder) as room:
            file = os.open(key, os.O_RDONLY | _FLAGS, dir_fd=room)
            try:
                data = _whole(file)
                with contextlib.suppress(OSError):
                    os.utime(file)  # used last: removed last
            finally:
                os.close(file)
    except (OSError, ValueError):
        return None
    head, _, content = data.partition(b"\n")
    return content if head == _head(key, content) else None


def write(folder: Path, key: str, content: bytes) -> None:
    """Keeps the content for the key: whole or not at all, whatever interrupts it."""
    global _written
    with contextlib.suppress(OSError, ValueError):
        _make(folder)
        with _opened(folder) as room:
            _replace(room, key, _head(key, content) + b"\n" + content)
            _written += 1
            if _written % 32 == 1:  # a look at every file, so not each time
                _tidy(cache_root())


def remove() -> None:
    """Everything that fusekit keeps on disk."""
    for folder in _folders(cache_root()):
        shutil.rmtree(folder, ignore_errors=True)


def files() -> list[os.stat_result]:
    """Of all files that are kept, for ``fusekit doctor``."""
    return [status for _, _, status in _kept(cache_root())]


def problems() -> list[str]:
    """Why files of folders are not believed, for ``fusekit doctor``."""
    said = ((folder, _problem_of(folder)) for folder in _folders(cache_root()))
    return [f"{folder} {problem}" for folder, problem in said if problem is not None]


# ---- one file --------------------------------------------------------------------------------------------------------


def _head(key: str, content: bytes) -> bytes:
    return _MARK + hashlib.sha256(b"%d %b %b" % (len(key), key.encode(), content)).hexdigest().encode()


def _whole(file: int) -> bytes:
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or _is_of_others(status) or status.st_size > _LARGEST:
        raise OSError("not a file of the user's own")
    with open(file, "rb", closefd=False) as stream:
        return stream.read(_LARGEST)


def _replace(room: int, key: str, data: bytes) -> None:
    """A reader finds the old file or the new one. The name tells whose it is, so that a killed writer's is found."""
    name = f".{key[:16]}.{os.getpid()}.{time.monotonic_ns()}.part"
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600, dir_fd=room)
    try:
        with open(file, "wb") as stream:
            stream.write(data)
        os.replace(name, key, src_dir_fd=room, dst_dir_fd=room)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=room)
        raise


# ---- the folder ------------------------------------------------------------------------------------------------------


def _make(folder: Path) -> None:
    """The folder and the root are for the user alone from the moment they are there."""
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    for one in (folder.parent, folder):
        one.mkdir(mode=0o700, exist_ok=True)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """The folder as a descriptor, so that what was checked is what is used. Raises OSError where it is not private."""
    room = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
    try:
        if (said := _problem(os.fstat(room))) is not None:
            _warn(folder, said)
            raise OSError(said)
        yield room
    finally:
        os.close(room)


def _problem_of(folder: Path) -> str | None:
    try:
        return _problem(os.stat(folder, follow_symlinks=False))
    except OSError as error:
        return f"can't be read ({error.strerror})"


def _problem(status: os.stat_result) -> str | None:
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user ({status.st_uid})"
    if _is_of_others(status):
        return f"may be written by others (mode {stat.S_IMODE(status.st_mode):o})"
    return None


def _is_of_others(status: os.stat_result) -> bool:
    """May someone else have written it? (The system's own user could change Python itself.)"""
    return status.st_uid not in (os.geteuid(), 0) or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _warn(folder: Path, said: str) -> None:
    """Once a process, at the user's line."""
    if folder in _warned:
        return
    _warned.add(folder)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("fusekit", "contextlib"):
        level, frame = level + 1, frame.f_back
    what = f"compiled kernels in {folder} are passed by, and none are kept there: the folder {said}"
    warnings.warn(f"{what}; remove it, or set FUSEKIT_CACHE to a folder of your own", RuntimeWarning, level)


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # no HOME, and a user whom the system does not know
        return Path("/nonexistent")


# ---- how much is kept ------------------------------------------------------------------------------------------------


def _folders(root: Path) -> list[Path]:
    try:
        return [folder for kind in _KINDS for folder in root.glob(kind) if folder.is_dir() and not folder.is_symlink()]
    except (OSError, ValueError):
        return []


def _kept(root: Path) -> Iterator[tuple[Path, str, os.stat_result]]:
    """(folder, name, status) of every file in folders that are the user's."""
    for folder in _folders(root):
        if _problem_of(folder) is not None:
            continue
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # another process was faster
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        yield folder, entry.name, status


def _most() -> int:
    with contextlib.suppress(KeyError, ValueError):
        return int(os.environ["FUSEKIT_CACHE_MIB"]) << 20
    return MOST


def _tidy(root: Path) -> None:
    """Takes out what killed processes left, and where there is too much, what was used longest ago.

    Safe beside other processes: who has a file open keeps it, and who finds none makes its content anew.
    """
    found: list[tuple[Path, str, os.stat_result]] = []
    for folder, name, status in _kept(root):
        if name.endswith(".part"):
            if _is_litter(name, status):
                _unlink(folder / name)
        else:
            found.append((folder, name, status))
    total, most = sum(status.st_blocks * 512 for *_, status in found), _most()
    if total <= most:
        return
    for folder, name, status in sorted(found, key=lambda one: one[2].st_mtime):
        if total <= most * 3 // 4:
            break
        _unlink(folder / name)
        total -= status.st_blocks * 512


def _is_litter(name: str, status: os.stat_result) -> bool:
    """Is the process gone that wrote it? One of another machine can't be asked."""
    if time.time() - status.st_mtime > _STALE:
        return True
    with contextlib.suppress(ValueError, IndexError, PermissionError):
        try:
            os.kill(int(name.split(".")[-3]), 0)
        except ProcessLookupError:
            return True
    return False


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
