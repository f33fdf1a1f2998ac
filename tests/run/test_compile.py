"""Sources become machine code once, whole or not at all, and are found again on disk."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fusekit.ir import Graph
from fusekit.lower import Kernel, lower_segment
from fusekit.run import cache
from fusekit.run import compile as compiler
from tests.lower.sketch import Sketch, buffers, call, check, stores


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FUSEKIT_CACHE", str(tmp_path))
    compiler._COMPILED.clear()
    return tmp_path


def _graph(by: int = 1) -> Graph:
    s = Sketch()
    x = s.fresh((40,), name="x")
    s.store(s.add(s.load(x), by), x)
    return s.finish()


_CHECK = """
from tests.run.test_compile import _graph
from tests.lower.sketch import check
check(_graph(), how=('compiled',))
"""


def _kernel(by: int = 1) -> Kernel:
    graph = _graph(by)
    return lower_segment(graph, stores(graph))


def test_one_source_compiles_once(folder: Path) -> None:
    first, again = compiler.compile_kernel(_kernel()), compiler.compile_kernel(_kernel())
    assert first is again
    assert compiler.compile_kernel(_kernel(2)) is not first
    assert len(list(folder.glob("cpu-*/*"))) == 2


def test_interrupted_write_leaves_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cache.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.write(folder / "cpu-one", "key", b"content")
    assert not [path for path in folder.rglob("*") if path.is_file()]


def test_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEKIT_CACHE", "/proc/nowhere")
    check(_graph(), how=("compiled",))


def test_clear_cache(folder: Path) -> None:
    compiler.compile_kernel(_kernel())
    compiler.clear_cache()
    assert not list(folder.glob("cpu-*"))
    assert not compiler._COMPILED


def test_threads_get_one_function() -> None:
    kernel, found = _kernel(), []
    threads = [threading.Thread(target=lambda: found.append(compiler.compile_kernel(kernel))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(id, found))) == 1


def test_another_process_finds_the_code(root: Path, folder: Path) -> None:
    graph = _graph()
    kernel = lower_segment(graph, stores(graph))
    compiler.compile_kernel(kernel)
    before = sorted(folder.glob("cpu-*/*"))
    assert len(before) == 1
    subprocess.run([sys.executable, "-c", _CHECK], cwd=root, check=True, timeout=60)
    assert sorted(folder.glob("cpu-*/*")) == before


@pytest.mark.parametrize(
    "damage", [lambda data: b"garbage" * 40, lambda data: data[: len(data) // 2], lambda data: b""]
)
def test_damaged_machine_code_is_made_anew(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    compiler.compile_kernel(_kernel())
    (path,) = folder.glob("cpu-*/*")
    path.write_bytes(damage(path.read_bytes()))
    compiler._COMPILED.clear()
    check(_graph(), how=("compiled",))
    before = path.stat().st_ino
    compiler._COMPILED.clear()
    check(_graph(), how=("compiled",))
    assert path.stat().st_ino == before  # mended once, then found


def test_two_processes_mend_one_entry(folder: Path, root: Path) -> None:
    compiler.compile_kernel(_kernel())
    for path in folder.glob("cpu-*/*"):
        path.write_bytes(b"garbage")
    running = [subprocess.Popen([sys.executable, "-c", _CHECK], cwd=root) for _ in range(2)]
    assert [process.wait(120) for process in running] == [0, 0]


def test_plain_needs_no_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _graph()
    memory = buffers(graph)
    call(lower_segment(graph, stores(graph)), graph, memory, "plain")
    assert not compiler._COMPILED
