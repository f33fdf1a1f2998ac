"""A fork while other threads compile or record: the child calls, and never waits for a thread that it has not got."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fusekit.run import forks
from fusekit.run.signals import held_back

_FORKING = """
import os, signal, sys, threading, time
import torch, fusekit as fk
torch.set_num_threads(1)
f = fk.jit(lambda a, b: (a.sin() + b).relu())
f(torch.ones(3), torch.ones(3))
done = threading.Event()

def others():
    k = 0
    while not done.is_set():
        k += 1
        f(torch.ones(k, 7), torch.ones(k, 7))
        fk.jit(lambda a: a * k + 2)(torch.ones(k))

threads = [threading.Thread(target=others, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
hung = 0
for k in range(int(sys.argv[1])):
    time.sleep(0.05)
    child = os.fork()
    if not child:
        signal.alarm(60)
        right = f(torch.ones(2, 3 + k), torch.ones(2, 3 + k)).shape == (2, 3 + k)
        right &= fk.jit(lambda a: a - 5)(torch.ones(4)).tolist() == [-4] * 4
        os._exit(0 if right else 1)
    _, status = os.waitpid(child, 0)
    hung += status != 0
done.set()
for thread in threads:
    thread.join()
os._exit(hung)
"""


@pytest.mark.parametrize("count", [3, pytest.param(12, marks=pytest.mark.slow)])
def test_a_fork_while_others_compile(root: Path, tmp_path: Path, count: int) -> None:
    environment = os.environ | {"FUSEKIT_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", _FORKING, str(count)]
    assert subprocess.run(command, cwd=root, env=environment, timeout=280).returncode == 0


def _child_gets(lock: forks.Lock) -> bool:
    child = os.fork()
    if not child:
        signal.alarm(10)
        with lock:
            os._exit(0)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_lock_that_another_thread_holds_is_free_in_a_child() -> None:
    lock, holds, end = forks.Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            holds.set()
            end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait()
    try:
        assert _child_gets(lock)
    finally:
        end.set()
        thread.join()
    with lock:  # one that this thread holds it still holds
        assert _child_gets(lock)


def test_an_interrupt_waits_for_the_end() -> None:
    ended: list[bool] = []

    def work() -> None:
        with held_back():
            signal.raise_signal(signal.SIGINT)
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert ended
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_every_handler_runs_once_and_in_order() -> None:
    came: list[int] = []

    def work() -> None:
        with held_back():
            for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGUSR1):
                signal.raise_signal(number)
            assert not came

    before = signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert came == [signal.SIGUSR1] * 2
    finally:
        signal.signal(signal.SIGUSR1, before)


_INTERRUPTED = """
import signal, sys, threading, time, os
import torch, fusekit as fk
torch.set_num_threads(1)
fk.jit(lambda a: a + 1)(torch.ones(3)[:0])
came = 0
for k in range(int(sys.argv[1])):
    f = fk.jit(lambda a: (a * k).relu() + k)
    timer = threading.Timer(0.01 + 0.004 * (k * 7 % 20), lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        f(torch.ones(5))
        timer.join()
        time.sleep(0.001)
    except KeyboardInterrupt:
        came += 1
    assert torch.equal(f(torch.ones(5)), (torch.ones(5) * k).relu() + k)
assert came
"""


def test_calls_after_an_interrupt_are_right(root: Path, tmp_path: Path) -> None:
    environment = os.environ | {"FUSEKIT_CACHE": str(tmp_path)}
    subprocess.run([sys.executable, "-c", _INTERRUPTED, "12"], cwd=root, env=environment, timeout=200, check=True)
