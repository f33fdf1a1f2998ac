"""Compiled kernels on disk: believed as they were written, in a folder that is the user's own, or made anew."""

import os
import random
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from fusekit.run import cache, native
from fusekit.run import compile as compiler
from tests.lower.sketch import check
from tests.run.test_compile import _graph, _kernel


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FUSEKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_warned", set())
    return tmp_path / "cache"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that Numba compiled."""
    names: list[str] = []
    compiled = native.compiled

    def counted(function, *rest):
        names.append(function.__name__)
        return compiled(function, *rest)

    monkeypatch.setattr(native, "compiled", counted)
    return names


def _run(by: int = 1) -> None:
    """The kernel through the disk, held against the interpreter."""
    compiler._COMPILED.clear()
    check(_graph(by), how=("compiled",))


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_files_and_folders_are_the_users_alone(folder: Path, made: list[str]) -> None:
    before = os.umask(0)
    try:
        _run()
    finally:
        os.umask(before)
    (file,) = _files(folder)
    assert [path.stat().st_mode & 0o777 for path in (folder, file.parent, file)] == [0o700, 0o700, 0o600]
    _run()
    assert len(made) == 1


def test_exchanged_files_are_made_anew(folder: Path, made: list[str]) -> None:
    _run(1), _run(2)
    one, other = _files(folder)
    held = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(held)
    _run(1), _run(2)
    assert len(made) == 4
    _run(1), _run(2)
    assert len(made) == 4  # and kept


def _hurt(file: Path, other: bytes, how: random.Random) -> None:
    """A file that was flipped, cut, lengthened, emptied, exchanged or planted."""
    data = bytearray(file.read_bytes())
    match how.randrange(6):
        case 0:
            data[how.randrange(len(data))] ^= 1 << how.randrange(8)
        case 1:
            del data[how.randrange(len(data)) :]
        case 2:
            data += how.randbytes(how.randrange(1, 100))
        case 3:
            at = how.randrange(len(data))
            data[at : at + 64] = how.randbytes(64)
        case 4:
            data = bytearray(other)
        case 5:
            data = bytearray(b"cos\nsystem\n(S'touch planted'\ntR.")
    file.write_bytes(data)


@pytest.mark.parametrize("count", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_hurt_files_are_made_anew(folder: Path, made: list[str], count: int) -> None:
    how = random.Random(count)
    _run(1), _run(2)
    first, second = _files(folder)
    whole = first.read_bytes(), second.read_bytes()
    for k in range(count):
        file, other = (first, whole[1]) if k % 2 else (second, whole[0])
        _hurt(file, other, how)
        assert cache.read(file.parent, file.name) is None
        if k % 10 == 0:  # compiling takes its time; what is not believed is not used
            _run(1), _run(2)
            assert len(made) == 2 + k // 10 + 1
        first.write_bytes(whole[0]), second.write_bytes(whole[1])
    assert cache.read(first.parent, first.name) is not None


@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "device", "link to itself"])
def test_what_is_no_file_is_passed_by(folder: Path, made: list[str], kind: str) -> None:
    """A FIFO would wait for a writer for ever, a link leads elsewhere."""
    _run()
    (file,) = _files(folder)
    elsewhere = folder / "elsewhere"
    file.rename(elsewhere)
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to(elsewhere)
    elif kind == "folder":
        file.mkdir()
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        file.symlink_to(file)
    _run()
    assert len(made) == 2


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_is_passed_by(folder: Path, made: list[str], mode: int) -> None:
    _run()
    (file,) = _files(folder)
    file.parent.chmod(mode)
    with pytest.warns(RuntimeWarning, match="may be written by others"):
        _run()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        _run()
    assert len(made) == 3
    assert _files(folder) == [file]


def test_a_file_that_others_may_write_is_made_anew(folder: Path, made: list[str]) -> None:
    _run()
    (file,) = _files(folder)
    file.chmod(0o666)
    _run(), _run()
    assert len(made) == 2
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_belongs_to_another_user_is_passed_by(folder: Path, made: list[str]) -> None:
    _run()
    (file,) = _files(folder)
    os.chown(file, 12345, 12345)
    _run()
    assert len(made) == 2
    os.chown(file.parent, 12345, 12345)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        _run()
    assert len(made) == 3


def test_a_folder_that_is_a_link_is_passed_by(folder: Path, made: list[str]) -> None:
    _run()
    (file,) = _files(folder)
    moved = file.parent.rename(folder / "moved")
    file.parent.symlink_to(moved)
    _run()
    assert len(made) == 2


_LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
from tests.run.test_cache import check, _graph
check(_graph(), how=("compiled",))
"""
_WITHOUT_JIT = """
import os
os.environ["NUMBA_DISABLE_JIT"] = "1"
import torch, fusekit as fk
assert fk.jit(lambda a: a * 2 + 1)(torch.ones(3)).tolist() == [3, 3, 3]
"""
_NO_HOME = """
import os
os.environ.pop("FUSEKIT_CACHE"), os.environ.update(HOME="/proc/nowhere", XDG_CACHE_HOME="/proc/nowhere")
from tests.run.test_cache import check, _graph
check(_graph(), how=("compiled",))
"""


@pytest.mark.parametrize("script", [_LIMITED, _WITHOUT_JIT, _NO_HOME], ids=["full", "NUMBA_DISABLE_JIT", "no home"])
def test_places_and_settings_that_forbid_it(root: Path, folder: Path, script: str) -> None:
    subprocess.run([sys.executable, "-c", script], cwd=root, check=True, timeout=120)
    assert not [path for path in _files(folder) if path.name.endswith(".part")]


@pytest.mark.parametrize("place", ["/dev/null", "/proc/nowhere", "x" * 300, "new\nline \u202e"])
def test_odd_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUSEKIT_CACHE", place)
    _run(), _run()
    compiler.clear_cache()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have written it")
def test_what_the_system_keeps_serves_every_user(
    folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that root has built: root could as well have changed Python."""
    _run()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    _run()
    assert len(made) == 1


def test_the_oldest_go_where_there_is_too_much(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = folder / "cpu-one"
    for k in range(20):
        cache.write(room, f"{k:064}", bytes(100_000))
        os.utime(room / f"{k:064}", (1000 + k, 1000 + k))
    assert cache.read(room, f"{3:064}") == bytes(100_000)  # used now
    monkeypatch.setenv("FUSEKIT_CACHE_MIB", "1")
    monkeypatch.setattr(cache, "_written", 0)
    cache.write(folder / "cuda-other", "new", b"new")
    left = {int(path.name) for path in room.iterdir()}
    assert 3 in left and 19 in left and 0 not in left
    assert sum(path.stat().st_size for path in _files(folder)) <= 1 << 20
    assert cache.read(folder / "cuda-other", "new") == b"new"


def test_what_a_killed_writer_left_is_taken_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = folder / "cpu-one"
    cache.write(room, "key", b"content")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for name in (f".aaa.{gone.pid}.1.part", f".bbb.{os.getpid()}.1.part", ".ccc.1.1.part"):
        (room / name).write_bytes(b"half")
    os.utime(room / ".ccc.1.1.part", (time.time() - 7200,) * 2)
    monkeypatch.setattr(cache, "_written", 0)
    cache.write(room, "other", b"content")
    assert {path.name for path in room.iterdir()} == {"key", "other", f".bbb.{os.getpid()}.1.part"}


def test_a_folder_that_is_taken_away_while_it_is_used(folder: Path, made: list[str]) -> None:
    _run()
    compiler.clear_cache()
    _run(), _run()
    assert len(made) == 2


def test_code_is_given_back(folder: Path) -> None:
    """A kernel that no plan holds is in memory no more."""
    compiler._COMPILED.clear()
    kernel = compiler.compile_kernel(_kernel())
    assert len(compiler._COMPILED) == 1
    del kernel
    assert not compiler._COMPILED
