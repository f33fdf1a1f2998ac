"""DOT text -> the SVG of Graphviz: by the wheel of pygraphviz in a worker process, else by a ``dot`` on PATH.

``lay_out`` never hangs and never raises: without an answer in time it says why, and the caller draws a plain picture.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO

TIMEOUT = 10.0  # seconds for one layout, the start of the worker included
STARTS = 3  # a worker that dies this often is not tried again
MEND = "pip install pygraphviz"
REINSTALL = "pip install --force-reinstall pygraphviz"


class LayoutError(Exception):
    """No picture from this engine; the text says why. Stays inside this room."""


@dataclass(frozen=True, slots=True)
class Laid:
    """What an engine gave: its SVG, or None; ``engine`` is the one that drew, ``why`` what the others said."""

    svg: str | None
    engine: str
    why: tuple[str, ...] = ()


@dataclass
class Worker:
    """A process kept warm. A lock serves threads; a time-out or a broken pipe ends it, the next call starts anew."""

    command: tuple[str, ...]
    version: str = ""
    starts: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _owner: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, dot: str, timeout: float) -> str:
        """SVG of this DOT text. Raises LayoutError: no worker, an error of Graphviz, or no answer in time."""
        end = time.monotonic() + timeout
        if not self._lock.acquire(timeout=timeout):
            raise LayoutError("other pictures took all the time")
        try:
            process = self._running(end)
            return self._exchange(process, dot.encode(), end)
        finally:
            self._lock.release()

    def stop(self) -> None:
        """End the process; the next ``ask`` starts one."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():  # after a fork the parent's worker is not ours to end
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _running(self, end: float) -> subprocess.Popen[bytes]:
        if self._owner != os.getpid():
            self._process = None
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.stop()
        if self.starts >= STARTS:
            raise LayoutError(f"the layout worker died {self.starts} times")
        self.starts += 1
        self._owner = os.getpid()
        try:
            # A session of its own: an interrupt of the notebook must not end it.
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise LayoutError(f"the layout worker does not start: {error}") from error
        self.version = self._exchange(self._process, None, end)
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], question: bytes | None, end: float) -> str:
        """One question (None: the greeting) and its answer, on a thread, since a pipe has no time-out."""
        answers: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        threading.Thread(target=_talk, args=(process, question, answers), daemon=True).start()
        try:
            answer = answers.get(timeout=max(end - time.monotonic(), 0.001))
        except queue.Empty:
            self.stop()
            raise LayoutError("no layout in time") from None
        except (
            BaseException
        ):  # an interrupt between question and answer: the next answer would be to the wrong question
            self.stop()
            raise
        if isinstance(answer, Exception):
            self.stop()
            raise LayoutError(f"the layout worker died: {answer}")
        if question is not None:
            self.starts = 0
        if answer[:1] != b"+":
            raise LayoutError(answer[1:].decode(errors="replace"))
        return answer[1:].decode()


def _talk(
    process: subprocess.Popen[bytes], question: bytes | None, answers: queue.SimpleQueue[bytes | Exception]
) -> None:
    assert process.stdin is not None and process.stdout is not None
    try:
        if question is not None:
            process.stdin.write(len(question).to_bytes(8, "big") + question)
            process.stdin.flush()
        size = int.from_bytes(_read(process.stdout, 8), "big")
        answers.put(_read(process.stdout, size))
    except (OSError, ValueError) as error:
        answers.put(error)


def _read(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise OSError("it closed its output")
    return data


def _command() -> tuple[str, ...]:
    # -I: neither this room's folder nor the user's may shadow a module of the worker; the path to search comes as data.
    return sys.executable, "-I", str(Path(__file__).with_name("worker.py")), json.dumps(sys.path)


_shared = Worker(_command()) if sys.executable else None


def _forget_worker() -> None:
    """In a forked child: the parent's pipes are not ours, and its lock may be held for ever."""
    global _shared
    _shared = Worker(_command()) if sys.executable else None


@atexit.register
def stop() -> None:
    """End the worker of this process, if there is one."""
    if _shared is not None:
        _shared.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_worker)


def lay_out(dot: str, timeout: float | None = None) -> Laid:
    """The SVG of Graphviz for this DOT text from the first engine that gives one in ``timeout`` seconds in all."""
    end = time.monotonic() + (TIMEOUT if timeout is None else timeout)
    why: list[str] = []
    for name, engine in (("pygraphviz", _by_wheel), ("dot", _by_program)):
        try:
            return Laid(engine(dot, max(end - time.monotonic(), 0.01)), name, tuple(why))
        except LayoutError as error:
            why.append(f"{name}: {error}")
    return Laid(None, "plain", tuple(why))


def _by_wheel(dot: str, timeout: float) -> str:
    try:
        is_there = find_spec("pygraphviz") is not None
    except Exception as error:  # whatever a broken install, or an import hook, raises
        raise LayoutError(f"is broken ({type(error).__name__}: {error}): {REINSTALL}") from error
    if _shared is None or not is_there:
        raise LayoutError(f"is not installed: {MEND}")
    return _shared.ask(dot, timeout)


def _by_program(dot: str, timeout: float) -> str:
    program = shutil.which("dot")
    if program is None:
        raise LayoutError("is not on PATH")
    try:
        done = subprocess.run([program, "-Tsvg"], input=dot.encode(), capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise LayoutError("no layout in time") from None
    except OSError as error:
        raise LayoutError(str(error)) from error
    if done.returncode:
        raise LayoutError(done.stderr.decode(errors="replace")[:400])
    return done.stdout.decode()


def engine_name() -> str:
    """The engine that draws on this machine, found by drawing: ``pygraphviz 2.0.4``, ``dot``, or ``plain``."""
    laid = lay_out("digraph { a }")
    version = f" {_shared.version}" if laid.engine == "pygraphviz" and _shared is not None else ""
    return laid.engine + version


def engine_mend() -> str | None:
    """The command that brings a layout engine, or None where there is one."""
    laid = lay_out("digraph { a }")
    if laid.engine != "plain":
        return None
    return MEND if f"pygraphviz: is not installed: {MEND}" in laid.why else REINSTALL
