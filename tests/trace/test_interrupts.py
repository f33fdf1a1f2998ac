"""Whatever ends a function while it is recorded, at whatever moment: everything is put back."""

import asyncio
import random
import signal
import sys
import threading

import numpy
import pytest
import torch
from torch import nn

from fusekit.errors import UnsupportedError
from fusekit.trace import record
from fusekit.trace.shadow import Script
from tests.trace.replay import photograph

pytestmark = pytest.mark.alone

LOG: list[object] = []
TABLE: dict[str, object] = {"n": 0}
COUNT = 0


class Module(nn.Module):
    total = 0

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("cache", torch.zeros(4))
        self.steps = 0

    def forward(self, a):
        global COUNT
        self.steps += 1
        self.cache = self.cache + a
        self.register_buffer("fresh", a)
        Module.total += 1
        y = self.layer(a)
        LOG.append(y)
        TABLE["n"] = 1
        TABLE["y"] = y
        COUNT += 1
        y += random.random() + float(numpy.random.rand())
        torch.manual_seed(3)
        y.note = COUNT
        with torch.no_grad(), torch.autocast("cpu"):
            y = self.layer(y)
            torch.set_grad_enabled(False)
            torch.set_default_dtype(torch.float64)
            y = y.sin().mul_(2)
            for k in range(6):
                y = y + k
                LOG.insert(0, k)
        return y


MODULE = Module()


def state():
    tensors = [*MODULE.parameters(), MODULE.cache]
    python = (list(map(id, LOG)), dict(TABLE), COUNT, MODULE.steps, Module.total, sorted(MODULE._buffers))
    drawn = random.getstate(), repr(numpy.random.get_state()), torch.get_rng_state().tolist()
    stacks = torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()
    modes = torch.is_grad_enabled(), torch.get_default_dtype(), torch.is_autocast_enabled("cpu"), stacks
    return photograph(tensors), python, drawn, modes, sys.getprofile(), sys.gettrace()


class At:
    """Raises at the n-th line of this file that runs, once."""

    def __init__(self, n, error):
        self.left, self.error = n, error

    def __call__(self, frame, event, what):
        if frame.f_code.co_filename != __file__:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise self.error
        return self


def lines_of_a_run():
    counter = At(0, None)
    sys.settrace(counter)
    try:
        with pytest.raises(UnsupportedError):
            record(MODULE, (torch.ones(4),))
    finally:
        sys.settrace(None)
    return -counter.left


ENDS = (KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit, type("Other", (BaseException,), {}))


@pytest.mark.parametrize("moment", range(1, 31))
def test_at_any_moment(moment):
    a = torch.ones(4)
    error = ENDS[moment % len(ENDS)]("mine")
    before = state(), photograph([a])
    sys.settrace(At(moment, error))
    try:
        with pytest.raises(type(error)) as caught:
            record(MODULE, (a,))
    finally:
        sys.settrace(None)
    assert caught.value is error
    assert (state(), photograph([a])) == before


def test_there_are_that_many_moments():
    assert lines_of_a_run() >= 30


def branches(a, n):
    if n > 2:
        LOG.append(n)
        random.random()
        raise KeyboardInterrupt
    return a * n


def test_a_run_that_only_compares_puts_back_too():
    a = torch.ones(4)
    script = Script(record(branches, (a, 1)))
    before = state()
    with pytest.raises(KeyboardInterrupt):
        script.numbers(branches, (a, 3), {})
    assert state() == before


@pytest.mark.slow  # a timer's moments differ from run to run, and some fall into the test's own last lines
def test_a_signal_at_any_time():
    """Ctrl-C by the clock: it comes out once as itself, wherever it came, and all is as before."""
    a, before, handler = torch.ones(4), state(), signal.getsignal(signal.SIGINT)
    was = signal.signal(signal.SIGALRM, lambda number, frame: signal.raise_signal(signal.SIGINT))
    came = 0
    try:
        for k in range(60):
            signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.0004 * k)
            try:
                record(MODULE, (a,))
            except UnsupportedError:
                pass
            except KeyboardInterrupt:
                came += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert state() == before
            assert signal.getsignal(signal.SIGINT) == handler
    finally:
        signal.signal(signal.SIGALRM, was)
    assert came


def test_a_signal_of_our_own_moments_waits():
    """It arrives while containers are put back: that is finished first."""

    class Slow(dict):
        def clear(self):
            super().clear()
            signal.raise_signal(signal.SIGINT)

    held = Slow(n=1)

    def f(a):
        held["n"] = a
        return a + 1

    with pytest.raises(KeyboardInterrupt):
        record(f, (torch.ones(2),))
    assert held == {"n": 1}


def test_an_interrupt_that_is_swallowed_is_no_recording():
    def f(a):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return a * 2
        return a

    with pytest.raises(UnsupportedError, match="interrupt"):
        record(f, (torch.ones(2),))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_that_raise_nothing_just_run():
    seen = []
    was = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:

        def f(a):
            signal.raise_signal(signal.SIGUSR1)
            return a * 2

        record(f, (torch.ones(2),))
    finally:
        signal.signal(signal.SIGUSR1, was)
    assert seen == [signal.SIGUSR1]


def test_in_another_thread():
    failed = []

    def run():
        try:
            record(lambda a: sys.exit(a.dim()), (torch.ones(2),))
        except SystemExit as error:
            failed.append(error.code)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert failed == [1]
