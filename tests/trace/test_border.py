"""Nothing that stood for a tensor leaves a recording: every way out is refused by name, and what slips past is gone."""

import atexit
import contextlib
import gc
import queue
import sys
import threading
import traceback
import types
import weakref

import pytest
import torch

import fusekit as fk
from fusekit.errors import FusekitError, UnsupportedError
from fusekit.trace import border
from fusekit.trace.border import Border, Gone


class Keeper:
    """Somebody else's object: it keeps what it is told in a place that the recorder does not know."""

    def __init__(self, keep):
        self.keep = keep


class Slotted:
    __slots__ = ("__weakref__", "x")


class Stored(Exception):
    pass


STORE = types.ModuleType("somewhere")  # no name of the function's leads to it
STORE.items, STORE.table, STORE.object, STORE.local = [], {}, Slotted(), threading.local()  # type: ignore[attr-defined]
sys.modules["somewhere"] = STORE


def store():
    return sys.modules["somewhere"]


def in_a_cell():
    held = None

    def keep(t):
        nonlocal held
        held = t

    return keep, lambda: held


KEEP, KEPT = in_a_cell()


class Cycle:
    def __init__(self, t):
        self.me, self.t = self, t


def through_a_queue(t):
    line = queue.SimpleQueue()
    line.put(t)
    store().line = line


def through_an_exception(t):
    try:
        raise Stored(t)
    except Stored as error:
        store().error = error


def through_a_traceback(t):
    try:
        raise Stored
    except Stored as error:
        store().error = error


WAYS = {
    "a list": lambda t: store().items.append(t),
    "a dict": lambda t: store().table.update(t=t),
    "a dict's key": lambda t: store().table.update({t: 1}),
    "an attribute of a module": lambda t: setattr(store(), "t", t),
    "an attribute of torch": lambda t: setattr(torch, "_left", t),
    "an attribute of a class": lambda t: setattr(Slotted, "left", t),
    "a slot": lambda t: setattr(store().object, "x", t),
    "a closure variable": lambda t: getattr(sys.modules[__name__], "KEEP")(t),  # noqa: B009
    "a new module": lambda t: sys.modules.update(left=types.SimpleNamespace(t=t)),
    "builtins": lambda t: setattr(__import__("builtins"), "_left", t),
    "a deep container": lambda t: store().items.append(({"a": [t]},)),
    "an object in a cycle": lambda t: store().items.append(Cycle(t)),
    "a queue": through_a_queue,
    "an exception": through_an_exception,
    "a traceback": through_a_traceback,
    "a function": lambda t: store().items.append(lambda: t),
    "a generator": lambda t: store().items.append(x for x in [t]),
    "a bound method": lambda t: store().items.append(t.add),
    "exit handlers": lambda t: atexit.register(abs, t),
    "a weak dictionary": lambda t: setattr(store(), "weak", (lambda w: (w.__setitem__(1, t), w)[1])(DICT())),
    "a weak reference": lambda t: store().items.append(weakref.ref(t)),
    "a finalizer": lambda t: weakref.finalize(t, int),
    "a thread local": lambda t: setattr(store().local, "t", t),
    "a parameter": lambda t: store().items.append(torch.nn.Parameter(t, requires_grad=False)),
    "a view": lambda t: store().items.append(t[:1]),
}
DICT = weakref.WeakValueDictionary


@pytest.fixture(autouse=True)
def _clean():
    yield
    for name in ("line", "error", "t", "weak"):
        vars(STORE).pop(name, None)
    STORE.items.clear()
    STORE.table.clear()
    STORE.object, STORE.local = Slotted(), threading.local()
    atexit.unregister(abs)
    for holder in (torch, __import__("builtins")):
        if hasattr(holder, "_left"):
            delattr(holder, "_left")
    sys.modules.pop("left", None)
    with contextlib.suppress(AttributeError):
        del Slotted.left  # type: ignore[attr-defined]
    KEEP(None)


def survivors():
    """What stood for tensors and is still alive."""
    gc.collect()
    tensors = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
    assert not [t for t in tensors if type(t) is not Gone and t.is_meta]
    return [t for t in tensors if type(t) is Gone]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("front", [fk.jit, lambda f: lambda a: fk.explore(f, a)])
def test_every_way_out_is_refused_by_name(way, front):
    keeper = Keeper(WAYS[way])

    def f(a):
        b = a * 3
        keeper.keep(b)
        return b + 1

    with pytest.raises(UnsupportedError, match=r"stays behind in|Python state") as caught:
        front(f)(torch.ones(4))
    assert caught.value.fix and f"{__file__}:" in str(caught.value.where)
    del caught
    for t in survivors():
        unusable(t)


def unusable(t):
    """Nothing can be learnt from what stood for a tensor."""
    assert type(t) is Gone
    for use in (
        lambda: t + 1, lambda: torch.ones(4) + t, lambda: t.tolist(), lambda: t.numpy(), lambda: t.item(),
        lambda: torch.cat([t, t]), lambda: t.clone(), lambda: t.shape, lambda: torch.ones(4).copy_(t),
        lambda: bool(t), lambda: float(t), lambda: t.data_ptr(), lambda: torch.ops.aten.add.Tensor(t, t),
    ):  # fmt: skip
        with pytest.raises(FusekitError, match="has no data"):
            use()
    assert "has no data" in repr(t) and "tensor(" not in repr(t)


def test_no_stand_in_has_memory():
    """What has no memory cannot show any, whoever looks at it past the border and however."""
    with Border() as made:
        t = made.stand_in(torch.empty(4))
        for read in (t.tolist, t.numpy, t.item, lambda: torch.ones(4).copy_(t), lambda: torch.ones(4) + t):
            with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
                read()
        assert t.data_ptr() == 0 and t.untyped_storage().data_ptr() == 0


def test_the_error_names_what_holds_it():
    keeper = Keeper(WAYS["a list"])

    def f(a):
        b = a + 1
        keeper.keep(b)
        return a

    with pytest.raises(UnsupportedError, match=r"a list, 'items' of the module somewhere"):
        fk.jit(f)(torch.ones(2))


class Carrying(Exception):
    def __init__(self, text, t):
        super().__init__(text)
        self.t = t


def raising(error):
    def f(a):
        b = a * 2
        raise error(b)

    return f


@pytest.mark.parametrize(
    "error",
    [
        lambda t: ValueError(t),
        lambda t: ValueError("no", [{"t": t}]),
        lambda t: Carrying("no", t),
        lambda t: ExceptionGroup("many", [ValueError(1), ValueError(t)]),
    ],
)
def test_an_exception_that_carries_a_tensor_is_refused(error):
    with pytest.raises(UnsupportedError, match="carries a tensor") as caught:
        fk.jit(raising(error))(torch.ones(2))
    assert caught.value.__cause__ is not None


def locals_of(error):
    return [value for frame, _ in traceback.walk_tb(error.__traceback__) for value in frame.f_locals.values()]


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exception_shows_no_stand_in(kind):
    """Its type is the user's; in the frames that it shows nothing can be used."""
    with pytest.raises(kind) as caught:
        fk.jit(raising(lambda t: kind("no")))(torch.ones(2))
    found = [value for value in locals_of(caught.value) if isinstance(value, torch.Tensor) and value.__class__ is Gone]
    assert len(found) >= 1
    for t in found:
        unusable(t)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = torch.zeros(4)
        self.log = []
        self.slot = Slotted()

    def forward(self, a):
        self.cache = self.cache + a
        self.log.append(self.cache * 2)
        store().items.append(a + 1)
        self.slot.x = a * 2
        parts = [a + k for k in range(3)]
        for part in parts:
            self.log.append(part)
        self.last = parts[0] * 2
        KEEP(self.last)
        return self.last + self.cache


class Interrupted(BaseException):
    """None that anybody expects."""


@pytest.mark.parametrize("moment", range(30))
def test_an_interrupt_at_any_moment_leaves_nothing(moment):
    model = Model()
    code, left = Model.forward.__code__, [moment * 4]  # every fourth instruction

    def tracer(frame, event, arg):
        if frame.f_code is not code:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left[0] -= 1
            if left[0] < 0:
                raise Interrupted
        return tracer

    g = fk.jit(model)
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        with pytest.raises((Interrupted, UnsupportedError)):
            g(torch.ones(4))
    finally:
        sys.settrace(before)
    for value in [*vars(model).values(), *model.log, getattr(model.slot, "x", None), *STORE.items, KEPT()]:
        if isinstance(value, torch.Tensor) and value is not None and value is not model.cache:
            unusable(value)
    assert type(model.cache) is torch.Tensor and torch.equal(model.cache, torch.zeros(4))
    assert model.log == [] and not hasattr(model, "last")


def test_a_number_that_leads_elsewhere_is_watched_too():
    """A run that is only compared with a script has the same border."""
    keeper = Keeper(lambda t, n: store().items.append(t) if n > 3 else None)

    def f(a, n):
        b = a * n
        keeper.keep(b, n)
        return b + 1

    g = fk.jit(f)
    a = torch.ones(4)
    assert torch.equal(g(a, 2.0), f(a, 2.0)) and torch.equal(g(a, 3.0), f(a, 3.0))
    with pytest.raises(UnsupportedError, match="stays behind"):
        g(a, 4.0)
    for t in STORE.items:
        unusable(t)


def test_a_tensor_that_another_thread_is_given():
    out = []

    def f(a):
        b = a + 1
        worker = threading.Thread(target=lambda: out.append(b * 2))
        worker.start()
        worker.join()
        return b

    with pytest.raises(UnsupportedError):
        fk.jit(f)(torch.ones(3))


def test_a_recording_keeps_no_stand_in_alive(monkeypatch):
    made = []
    monkeypatch.setattr(Border, "watch", lambda self, t, watch=Border.watch: made.append(1) or watch(self, t))
    g = fk.jit(lambda a: [(a * k).sin() for k in range(20)])
    g(torch.ones(3))
    assert len(made) >= 40 and not survivors()


def test_hiding_from_the_border(monkeypatch):
    """What the border does not find (here: it is told to find nothing) still shows nothing."""
    monkeypatch.setattr(Border, "close", lambda self: [])
    keeper = Keeper(WAYS["a list"])

    def f(a):
        keeper.keep(a + 1)
        return a + 2

    fk.jit(f)(torch.ones(4))
    (t,) = STORE.items
    for read in (t.tolist, t.numpy, t.item, lambda: torch.ones(4).copy_(t), lambda: torch.ones(4) + t):
        with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
            read()
    assert "device='meta'" in repr(t)


def test_what_holds_a_tensor_in_words():
    t = torch.ones(1)
    held = Keeper({"deep": [t]})
    assert "a list, a dict, under 'deep'" in border.holder_of(t)
    del held
