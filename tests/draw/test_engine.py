"""The layout engine never hangs and never raises, whatever happens to its worker."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusekit import doctor
from fusekit.draw import engine
from fusekit.draw.engine import LayoutError, Worker, engine_mend, engine_name, lay_out

DOT = "digraph { a -> b }"
HANGS = (sys.executable, "-c", "import time; time.sleep(60)")
DIES = (sys.executable, "-c", "import os; os._exit(3)")


@pytest.fixture
def no_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.shutil, "which", lambda name: None)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A worker of the test's own."""
    own = Worker(engine._command())
    monkeypatch.setattr(engine, "_shared", own)
    yield own
    own.stop()


def test_wheel_draws_and_names_itself(worker: Worker) -> None:
    pytest.importorskip("pygraphviz")
    laid = lay_out(DOT)
    assert laid.engine == "pygraphviz" and laid.svg and "<svg" in laid.svg
    assert engine_name().startswith("pygraphviz ") and engine_mend() is None


def test_worker_stays_warm(worker: Worker) -> None:
    pytest.importorskip("pygraphviz")
    lay_out(DOT)
    first = worker._process
    lay_out(DOT)
    assert first is not None and worker._process is first


def test_worker_that_hangs_is_ended_in_time(monkeypatch: pytest.MonkeyPatch, no_dot: None) -> None:
    hanging = Worker(HANGS)
    monkeypatch.setattr(engine, "_shared", hanging)
    start = time.monotonic()
    laid = lay_out(DOT, 0.3)
    assert laid.svg is None and laid.engine == "plain" and "no layout in time" in laid.why[0]
    assert time.monotonic() - start < 3
    assert hanging._process is None


def test_worker_that_dies_is_tried_a_few_times(monkeypatch: pytest.MonkeyPatch, no_dot: None) -> None:
    dying = Worker(DIES)
    monkeypatch.setattr(engine, "_shared", dying)
    answers = [lay_out(DOT, 5) for _ in range(engine.STARTS + 2)]
    assert all(laid.engine == "plain" for laid in answers)
    assert dying.starts == engine.STARTS and f"died {engine.STARTS} times" in answers[-1].why[0]
    assert engine_name() == "plain" and engine_mend() == engine.REINSTALL


def test_killed_worker_starts_anew(worker: Worker) -> None:
    pytest.importorskip("pygraphviz")
    lay_out(DOT)
    assert worker._process is not None
    worker._process.kill()
    worker._process.wait()
    assert lay_out(DOT).engine == "pygraphviz"


def test_error_of_graphviz_is_an_answer(worker: Worker, no_dot: None) -> None:
    pytest.importorskip("pygraphviz")
    assert lay_out("digraph { <<< ").svg is None
    assert lay_out(DOT).engine == "pygraphviz"


def test_threads_share_one_worker(worker: Worker) -> None:
    pytest.importorskip("pygraphviz")
    answers: list[str] = []
    threads = [threading.Thread(target=lambda k=k: answers.append(_named(f"n{k}"))) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(answers) == [f"n{k}" for k in range(6)]


def _named(name: str) -> str:
    laid = lay_out(f"digraph {{ {name} }}")
    assert laid.svg is not None
    return name if f"<title>{name}</title>" in laid.svg else "another picture"


def test_busy_worker_is_waited_for_no_longer_than_the_timeout(worker: Worker) -> None:
    with worker._lock, pytest.raises(LayoutError, match="other pictures"):
        worker.ask(DOT, 0.05)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_uses_its_own_worker(worker: Worker) -> None:
    pytest.importorskip("pygraphviz")
    lay_out(DOT)
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if lay_out(DOT).engine == "pygraphviz" else 2
            engine.stop()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert lay_out(DOT).engine == "pygraphviz"


def test_program_on_the_path_is_second(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    fake = tmp_path / "dot"
    fake.write_text("#!/bin/sh\ncat > /dev/null\necho '<svg/>'\n")
    fake.chmod(0o755)
    monkeypatch.setattr(engine, "_shared", None)
    monkeypatch.setattr(engine.shutil, "which", lambda name: str(fake))
    assert lay_out(DOT).engine == "dot"


def test_program_that_hangs_is_ended_in_time(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    fake = tmp_path / "dot"
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setattr(engine, "_shared", None)
    monkeypatch.setattr(engine.shutil, "which", lambda name: str(fake))
    assert lay_out(DOT, 0.3).why[1] == "dot: no layout in time"


@pytest.mark.parametrize(
    "error", [ImportError("no libcgraph"), ValueError("pygraphviz.__spec__ is None"), RuntimeError()]
)
def test_wheel_that_cannot_be_looked_up(monkeypatch: pytest.MonkeyPatch, no_dot: None, error: Exception) -> None:
    def find(name: str) -> None:
        raise error

    monkeypatch.setattr(engine, "find_spec", find)
    laid = lay_out(DOT)
    assert laid.engine == "plain" and "is broken" in laid.why[0] and engine.REINSTALL in laid.why[0]
    assert engine_mend() == engine.REINSTALL
    (finding,) = doctor._layout_engine()
    assert finding.mark == "missing" and "--force-reinstall pygraphviz" in (finding.mend or "")


def test_wheel_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, no_dot: None, tmp_path: Path) -> None:
    (tmp_path / "pygraphviz.py").write_text("raise ImportError('libcgraph.so.6: cannot open shared object file')")
    monkeypatch.syspath_prepend(str(tmp_path))
    own = Worker(engine._command())
    monkeypatch.setattr(engine, "_shared", own)
    laid = lay_out(DOT)
    own.stop()
    assert laid.svg is None and "libcgraph" in laid.why[0]


def test_wheel_that_is_not_there_is_installed(monkeypatch: pytest.MonkeyPatch, no_dot: None) -> None:
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    assert engine_mend() == engine.MEND
