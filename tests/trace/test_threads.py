"""A recording is no other thread's business: it puts back what its own function changed, and nothing else."""

import contextlib
import gc
import logging
import random
import threading
import time
import warnings

import numpy
import pytest
import torch
from torch import nn
from torch.utils import _python_dispatch

import fusekit as fk
from fusekit.errors import UnsupportedError
from fusekit.trace import record

pytestmark = pytest.mark.alone

LOG: list[object] = []
TABLE: dict[object, object] = {}
BAG: set[int] = set()
ARRAY = numpy.zeros(1)
WEIGHT = torch.zeros(4)
SCALE = [2.0]


class Shared:
    count = 0

    def __init__(self):
        self.steps = 0


SHARED = Shared()


@contextlib.contextmanager
def beside(*workers):
    """Each worker runs over and over in a thread of its own."""
    done, threads = threading.Event(), []

    def over_and_over(worker):
        while not done.is_set():
            worker()

    for worker in workers:
        threads.append(threading.Thread(target=over_and_over, args=(worker,), daemon=True))
        threads[-1].start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def reads_all(a):
    b = a.clone()
    b += len(LOG) * 0 + len(TABLE) * 0 + len(BAG) * 0 + float(SHARED.steps) * 0
    b[0] = 1
    b = torch.nn.functional.dropout(b, 0.5) + torch.bernoulli(a) + WEIGHT * SCALE[0]
    return b.t() if b.dim() == 2 else b.mul_(2)


class Drawn:
    """Numbers that a thread draws, each of which has to be another."""

    def __init__(self, draw):
        self.draw, self.seen = draw, []

    def __call__(self):
        self.seen += [self.draw() for _ in range(20)]
        time.sleep(0.001)


def test_others_go_on_and_nothing_is_refused():
    drawn = [
        Drawn(random.random),
        Drawn(lambda: float(numpy.random.rand())),
        Drawn(lambda: float(torch.rand((), dtype=torch.float64))),
    ]
    kept, version = [0], WEIGHT._version

    def write():
        kept[0] += 1
        LOG.append(kept[0])
        TABLE[kept[0]] = kept[0]
        BAG.add(kept[0])
        SHARED.steps = kept[0]
        Shared.count = kept[0]
        ARRAY[0] = kept[0]
        WEIGHT.add_(0)
        time.sleep(0.001)

    LOG.clear(), TABLE.clear(), BAG.clear()
    with beside(*drawn, write):
        for k in range(1, 9):
            record(reads_all, (torch.rand(4, 4) if k % 2 else torch.rand(4),))
            record(lambda a: (a + len(LOG) * 0).sin(), (torch.rand(3, k),))
    for one in drawn:
        assert len(set(one.seen)) == len(one.seen)
    count = kept[0]
    assert list(range(1, count + 1)) == LOG
    assert list(TABLE) == LOG and set(LOG) == BAG and SHARED.steps == Shared.count == ARRAY[0] == count
    assert WEIGHT._version == version + count


def appends(a):
    LOG.append(a * 2)
    LOG.append("mine")
    return a


def sets(a):
    TABLE["mine"] = a * 2
    TABLE.update(also=1)
    return a


def adds(a):
    BAG.add(-1)
    return a


def counts(a):
    SHARED.steps += 1
    return a


def pops(a):
    LOG.pop(0)
    return a + 1


@pytest.mark.parametrize("fn", [appends, sets, adds, pops], ids=lambda fn: fn.__name__)
def test_only_its_own_is_put_back(fn):
    LOG[:], kept = ["first"], [0]
    TABLE.clear()
    BAG.clear()

    def write():
        kept[0] += 1
        LOG.append(kept[0])
        TABLE[kept[0]] = kept[0]
        BAG.add(kept[0])
        time.sleep(0.001)

    with beside(write):
        for _ in range(20):
            with pytest.raises(UnsupportedError, match="changed"):
                record(fn, (torch.ones(2),))
    mine = list(range(1, kept[0] + 1))
    assert sorted(LOG, key=str) == sorted(["first", *mine], key=str)
    assert list(TABLE) == mine and set(mine) == BAG


@pytest.mark.parametrize("draw", [random.random, lambda: numpy.random.rand()], ids=["Python", "NumPy"])
def test_what_both_draw_is_never_drawn_twice(draw):
    def f(a):
        return a * draw() if draw is random.random else a * numpy.random.rand()

    drawn = Drawn(draw)
    with beside(drawn):
        for _ in range(20):
            with pytest.raises(UnsupportedError, match="random state"):
                record(f, (torch.ones(2),))
    assert len(set(drawn.seen)) == len(drawn.seen)


def test_an_idle_thread_is_none():
    """Of the function alone comes what changed while no other thread had the processor, whatever way it took."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    LOG[:] = [1]
    try:
        with pytest.raises(UnsupportedError, match="LOG: the list changed"):
            record(lambda a: [list(map(LOG.append, (2, 3))), a][1], (torch.ones(2),))
    finally:
        done.set()
        thread.join()
    assert LOG == [1]


def switches():
    flags = [getattr(_python_dispatch, name) for name in vars(_python_dispatch) if name.startswith("_is_in_")]
    log = logging.getLogger("torch._subclasses.fake_tensor")
    return (
        flags,
        log.level,
        list(log.filters),
        gc.isenabled(),
        list(warnings.filters),
        torch.is_autocast_cache_enabled(),
    )


def test_switches_come_back_from_many_recordings():
    with torch.no_grad():  # libraries that torch imports at a first recording have warning filters of their own
        record(lambda a: nn.functional.linear(a, a).t().sin() + torch.ones(2, 2, 2).mT.sum(), (torch.rand(2, 2),))
    before, failed, modules = switches(), [], [nn.Linear(4, 4) for _ in range(6)]
    gate = threading.Barrier(6)

    def run(k):
        try:
            gate.wait()
            for size in range(1, 9):
                record(lambda a: modules[k](a).t().sin() + torch.ones(2, 3, 4).mT.sum(), (torch.rand(size, 4),))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(6)]
    with torch.no_grad():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not [e for e in failed if "grad" not in str(e)]
    assert switches() == before


def test_one_callable_in_many_threads():
    fused, failed = fk.jit(lambda a: (a * 2 + 1).relu()), []

    def run(k):
        try:
            for size in range(1, 4):
                a = torch.randn(size, k + 1)
                assert torch.equal(fused(a), (a * 2 + 1).relu())
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_plan_of_no_state_is_kept_for_none():
    """What a guarded value was during the recording is not what it is when the key is made."""
    fused = [fk.jit(lambda a, k=k: a * len(LOG) + k) for k in range(4)]
    LOG.clear()

    def write():
        LOG.append(0)
        time.sleep(0.0005)

    a, spans = torch.ones(2), []
    with beside(write):
        for f in fused:
            first = len(LOG)
            f(a)
            spans.append(range(first, len(LOG) + 1))
    for k, (f, span) in enumerate(zip(fused, spans, strict=True)):
        for count in span[:: max(len(span) // 8, 1)]:
            LOG[:] = [0] * count
            assert torch.equal(f(a), a * count + k)
