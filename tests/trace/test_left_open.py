"""What a function that fails half way leaves open is closed, and plain eager works as before."""

import contextlib

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

import fusekit as fk
from fusekit.errors import UnsupportedError
from fusekit.trace import record

FT = torch._C._functorch


def levels():
    FT._grad_increment_nesting()
    FT._vmap_increment_nesting(3, "error")


def dual():
    forward_ad.enter_dual_level()


def hooks():
    torch._C._autograd._saved_tensors_hooks_disable("not here")


def modes():
    torch.utils._device.DeviceContext("meta").__enter__()
    torch.autocast("cpu").__enter__()
    torch.set_default_device("meta")
    torch.no_grad().__enter__()
    torch.inference_mode().__enter__()
    torch._C._set_fwd_grad_enabled(False)


def whole_process():
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)


def dispatch():
    torch._C._pop_torch_dispatch_stack(None)


def now():
    return (
        FT.get_dynamic_layer_stack_depth(), forward_ad._current_level, torch.get_default_device(),
        torch._C._autograd._saved_tensors_hooks_is_enabled(), torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"), torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(),
        torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack(), torch._C._is_fwd_grad_enabled(),
        torch.is_autocast_cache_enabled(), torch.autocast_increment_nesting(), torch.autocast_decrement_nesting(),
    )  # fmt: skip


def is_eager_well():
    _primal, tangent = torch.func.jvp(torch.sin, (torch.ones(2),), (torch.ones(2),))
    assert torch.equal(tangent, torch.cos(torch.ones(2)))
    assert torch.equal(torch.func.grad(lambda v: (v * v).sum())(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.equal(torch.vmap(torch.sin)(torch.ones(2)), torch.sin(torch.ones(2)))
    return True


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, UnsupportedError])
@pytest.mark.parametrize("leave", [levels, dual, hooks, modes, whole_process, dispatch], ids=lambda f: f.__name__)
def test_at_an_error(leave, error):
    def f(a):
        b = a * 2
        leave()
        if error is UnsupportedError:
            b.tolist()
        raise error(b.dim())

    before = now()
    with pytest.raises(error):
        record(f, (torch.ones(2),))
    assert now() == before and is_eager_well()


def test_where_only_the_recording_is_refused():
    log = []

    def f(a):
        log.append(a)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        return a * 2

    before = now()
    with pytest.raises(UnsupportedError, match="log"):
        record(f, (torch.ones(2),))
    assert now() == before and log == []


def square(v):
    return (v * v).sum()


TRANSFORMS = {
    "grad": lambda x: torch.func.grad(square)(x),
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))[1],
    "vmap": lambda x: torch.vmap(lambda v: v.sin())(x),
    "jacrev": lambda x: torch.func.jacrev(torch.sin)(x),
    "jacfwd": lambda x: torch.func.jacfwd(torch.sin)(x),
    "nested": lambda x: torch.func.grad(lambda v: torch.func.grad(lambda w: (w**3).sum())(v).sum())(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_through_jit(name):
    fn, x, before = TRANSFORMS[name], torch.tensor([1.0, 2.0]), now()
    fused = fk.jit(fn)
    for _ in range(3):
        with contextlib.suppress(UnsupportedError):
            assert torch.allclose(fused(x), fn(x))
        assert now() == before and is_eager_well()


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.filterwarnings("ignore::fusekit.dynamo_backend.FallbackWarning")
def test_transforms_through_the_backend(name):
    torch._dynamo.reset()
    fn, x, before = TRANSFORMS[name], torch.tensor([1.0, 2.0]), now()
    fused = torch.compile(fn, backend="fusekit")
    for _ in range(3):
        assert torch.allclose(fused(x), fn(x))
        assert now() == before and is_eager_well()


class Shared:
    count = 0


def test_attributes_of_classes_are_state():
    def f(a):
        Shared.count += 1
        Shared.more = a
        return a * Shared.count

    with pytest.raises(UnsupportedError, match="Shared: count changed"):
        record(f, (torch.ones(2),))
    assert Shared.count == 0 and not hasattr(Shared, "more")


class Named(nn.Module):
    def forward(self, a):
        return a.real.T + self.training


def test_a_name_of_an_attribute_is_no_global():
    """``T`` and ``real`` are read as attributes: what globals of these names are is all one."""
    space = {"torch": torch, "T": 1, "real": torch.ones(2)}
    exec("def f(a):\n    return a.real.T * 2\n", space)  # as a cell of a notebook
    found = record(space["f"], (torch.ones(2, 2),))
    assert not {entry.path for entry in found.guards} & {"T", "real"}
    x = fk.explore(space["f"], torch.ones(2, 2))
    space["T"], space["real"] = x, 3
    assert x.check().ok and x.run() is not None
