"""A profiler that runs around a first call keeps what it has, and goes on."""

import cProfile
import gc
import profile
import pstats
import sys

import torch

from fusekit.trace import record
from fusekit.trace.shadow import Script


def counted(a, n):
    return a[n] * 2


def earlier():
    return sum(range(3))


def later():
    return sorted([2, 1])


def both(a):
    earlier()
    script = Script(record(counted, (a, 1)))
    during = sys.getprofile()
    assert script.numbers(counted, (a, 2), {}) is not None
    later()
    return during


def names(profiler):
    return {name for _, _, name in pstats.Stats(profiler).stats}


def test_a_profiler_in_c():
    profiler = cProfile.Profile()
    assert profiler.runcall(both, torch.ones(4)) in (profiler, None)  # since Python 3.12 it is no hook
    assert {"earlier", "later", "both", "record"} <= names(profiler)
    assert sys.getprofile() is None


def test_a_profiler_in_c_counts_each_caller_right():
    profiler = cProfile.Profile()
    profiler.runcall(both, torch.ones(4))
    callers = {name: {c[2] for c in row[4]} for (_, _, name), row in pstats.Stats(profiler).stats.items()}
    assert callers["later"] == callers["earlier"] == {"both"}


def test_a_profiler_in_python():
    kept = gc.callbacks[:]
    gc.callbacks.clear()  # one of another library's, called where a recording ends, takes ``profile`` apart
    profiler = profile.Profile()
    try:
        profiler.runcall(both, torch.ones(4))
    finally:
        gc.callbacks[:] = kept
    assert {"earlier", "later", "both"} <= names(profiler)
    assert sys.getprofile() is None


def test_a_hook():
    seen = []

    def hook(frame, event, what):
        seen.append(frame.f_code.co_name)

    sys.setprofile(hook)
    try:
        both(torch.ones(4))
        assert sys.getprofile() is hook
    finally:
        sys.setprofile(None)
    assert "later" in seen and "counted" not in seen
