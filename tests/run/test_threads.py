"""Large kernels that need no order use threads, and do not after a fork."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fusekit.ir import Graph
from fusekit.lower import lower_segment
from fusekit.run import threads
from tests.lower.sketch import Sketch, at, buffers, call, check, stores

ROWS, COLUMNS = 61, 57
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _small_kernels_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fusekit.lower.kernel.PARALLEL_FROM", 1)
    monkeypatch.setattr("fusekit.schedule.base.SMALL", 1)


def _graph(shift: int = 0) -> Graph:
    s = Sketch()
    block = s.block(4 * (ROWS * COLUMNS + 8))
    source, target = s.place(block, (ROWS, COLUMNS), name="x"), s.place(block, (ROWS, COLUMNS), offset=shift)
    row = s.fresh((COLUMNS,), name="row")
    s.store(s.add(s.load(source), s.window(s.load(row), (ROWS, COLUMNS), at(ROWS, COLUMNS)[1])), target)
    return s.finish()


def test_parallel_kernel_is_right() -> None:
    kernel = check(_graph(), how=("compiled",))
    assert kernel.parallel
    assert "in prange(61):" in kernel.source


def test_order_keeps_a_kernel_serial() -> None:
    kernel = check(_graph(1), how=("compiled",))
    assert not kernel.parallel


def test_serial_after_a_fork() -> None:
    """In a process of its own: forking this one, where torch's threads have run, may hang in torch itself."""
    here = "import tests.run.test_threads as t; t.fork_and_call()"
    done = subprocess.run([sys.executable, "-c", here], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr


def fork_and_call() -> None:
    """A forked child calls the kernel that its parent compiled and ran; the exit status says how that went."""
    graph = _graph()
    kernel = lower_segment(graph, stores(graph))
    memory = buffers(graph)
    expected = [b.clone() for b in memory]
    call(kernel, graph, expected, "compiled")
    found, wanted = ([b.numpy() for b in side] for side in (memory, expected))  # torch's own threads die in a fork too
    child = os.fork()
    if not child:
        code = 1
        try:
            assert not threads.may_run()
            call(kernel, graph, memory, "compiled")
            code = 0 if all((a == b).all() for a, b in zip(found, wanted, strict=True)) else 2
        finally:
            os._exit(code)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
