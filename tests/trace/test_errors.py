"""Eager's errors keep their types; ours name the line and how to mend it."""

import functools
import itertools
import time

import pytest
import torch
from torch import nn

from fusekit.errors import UnsupportedError
from fusekit.trace import record

A = torch.arange(12.0).reshape(3, 4)


def _expanded():
    return torch.zeros(1, 4).expand(3, 4)


HOSTILE = {
    "stride 0": lambda: (lambda a: a.add_(1), (_expanded(),)),
    "copy into stride 0": lambda: (lambda a, b: a.copy_(b), (_expanded(), A)),
    "shifted": lambda: (lambda a: a[1:].add_(a[:-1]), (torch.zeros(5),)),
    "transposed": lambda: (lambda a: a.add_(a.t()), (torch.zeros(3, 3),)),
    "int division": lambda: (lambda a: a.div_(2), (torch.ones(3, dtype=torch.int64),)),
    "bool plus one": lambda: (lambda a: a.add_(1), (torch.ones(3, dtype=torch.bool),)),
    "larger operand": lambda: (lambda a, b: a.add_(b), (torch.ones(1, 4), A)),
    "larger exponent": lambda: (lambda a, b: a.atan2_(b), (torch.ones(1, 4), A)),
    "shapes": lambda: (lambda a, b: a @ b, (A, A)),
    "view": lambda: (lambda a: a.t().view(12), (A,)),
    "amax of nothing": lambda: (lambda a: a.amax(1), (torch.zeros(3, 0),)),
    "bitwise of float": lambda: (lambda a: a & a, (A,)),
    "mean of int": lambda: (lambda a: a.mean(), (torch.ones(3, dtype=torch.int64),)),
    "as_strided": lambda: (lambda a: a.as_strided((9, 9), (9, 1)), (torch.zeros(4),)),
    "negative stride": lambda: (lambda a: a.as_strided((2,), (-1,), 1), (torch.zeros(4),)),
    "dimension": lambda: (lambda a: a.sum(7), (A,)),
    "index": lambda: (lambda a: a[9], (A,)),
    "gather over itself": lambda: (lambda a, i: torch.gather(a, 0, i, out=a), (torch.zeros(3), torch.zeros(3).long())),
    "foreach": lambda: (lambda a: torch._foreach_add_([a], 1), (_expanded(),)),
    "cat": lambda: (lambda a, b: torch.cat([a, b]), (A, torch.zeros(2, 3))),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_types_are_eagers(name):
    fn, args = HOSTILE[name]()
    with pytest.raises(Exception) as eager:
        fn(*args)
    fn, args = HOSTILE[name]()
    before = [t.clone() for t in args]
    with pytest.raises(type(eager.value)) as ours:
        record(fn, args)
    assert type(ours.value) is type(eager.value)
    assert all(map(torch.equal, before, args))


def test_a_leaf_that_requires_grad():
    with pytest.raises(RuntimeError, match="leaf"):
        record(lambda a: a.add_(1), (torch.zeros(2, requires_grad=True),))


def test_rules_serve_above_the_size_limit(monkeypatch):
    monkeypatch.setattr("fusekit.trace.oracle.LIMIT", 0)
    names = ("stride 0", "copy into stride 0", "shifted", "transposed", "as_strided", "foreach", "gather over itself")
    for name in names:
        fn, args = HOSTILE[name]()
        with pytest.raises(RuntimeError) as error:
            record(fn, args)
        assert not isinstance(error.value, UnsupportedError)


ITEMS = iter([1.0, 2.0])
LAZY = torch.ones(2, dtype=torch.complex64).conj()
REFUSED = {
    "item": (lambda a: a * a.sum().item(), "needs tensor data"),
    "branch": (lambda a: a if a.sum() > 0 else -a, "needs tensor data"),
    "nonzero": (lambda a: a.nonzero(), "needs tensor data"),
    "mask read": (lambda a: a[a > 0], "needs tensor data"),
    "numpy": (lambda a: a + float(a.numpy().sum()), "numpy"),
    "tolist": (lambda a: a.tolist(), "tolist"),
    "resize": (lambda a: a.resize_(7), "resize_"),
    "set": (lambda a: a.set_(torch.zeros(2)), "set_"),
    "sparse": (lambda a: a.to_sparse(), "sparse"),
    "lazy conj": (lambda a: a.to(torch.complex64).conj(), "lazy conj"),
    "captured lazy conj": (lambda a: a * LAZY, "lazy conj"),
    "clock": (lambda a: a * time.time(), "time.time"),
    "iterator": (lambda a: a * next(ITEMS), "iterator"),
    "address": (lambda a: a + a.data_ptr(), "data_ptr"),
    "out of another shape": (lambda a: torch.add(torch.ones(5), 1, out=a), "larger than its storage"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    fn, text = REFUSED[name]
    with torch.no_grad(), pytest.raises(UnsupportedError, match=text) as error:
        record(fn, (torch.randn(4),))
    if name != "iterator":
        assert __file__ in str(error.value.where)
        assert str(error.value.where).endswith(f":{fn.__code__.co_firstlineno}")


def test_tensors_that_no_recording_takes():
    class Mine(torch.Tensor):
        pass

    hostile = {
        "subclass": torch.ones(2).as_subclass(Mine),
        "sparse": torch.eye(2).to_sparse(),
        "lazy conj": LAZY,
        "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "nested": torch.nested.nested_tensor([torch.ones(2)]),
        "meta": torch.empty(2, device="meta"),
    }
    for text, t in hostile.items():
        with pytest.raises(UnsupportedError, match=text) as error:
            record(lambda a: a * 1, (t,))
        assert error.value.fix


def test_transforms_are_refused():
    with pytest.raises(UnsupportedError, match=r"torch\.func"):
        torch.func.vmap(lambda a: record(lambda b: b + 1, (a,)))(torch.ones(2, 2))


def test_a_captured_tensor_without_a_path():
    hidden = functools.cache(lambda: torch.ones(2))
    hidden()  # from now on only C knows where it is
    with pytest.raises(UnsupportedError, match="no path") as error:
        record(lambda a: a + hidden(), (torch.zeros(2),))
    assert __file__ in str(error.value.where)


@pytest.mark.parametrize("fn", [lambda a: a * 2, nn.Linear(3, 3)], ids=["argument", "module"])
def test_results_that_require_grad(fn):
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(UnsupportedError, match=r"torch\.compile"):
        record(fn, (x,))
    with torch.no_grad():
        record(fn, (x,))


def test_detached_results_are_fine():
    recording = record(lambda a: a.detach() * 2, (torch.ones(3, requires_grad=True),))
    assert recording.grad


def test_iterators_made_inside_are_fine():
    layer = nn.Linear(2, 2)
    with torch.no_grad():
        record(lambda a: a + next(layer.parameters()) + next(itertools.count(2)), (torch.ones(2),))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.slice_scatter(x, x[:1] * 2),
        lambda x: torch.select_scatter(x, x, 0, 0),
        lambda x: torch.diagonal_scatter(x, x[0, :2]),
    ],
)
def test_shapes_that_fakes_do_not_check(fn):
    with pytest.raises(RuntimeError):
        fn(torch.ones(4, 4))
    with pytest.raises(RuntimeError):
        record(fn, (torch.ones(4, 4),))
