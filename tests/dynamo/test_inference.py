"""Calls without gradients: right for every overlap with one compilation of Dynamo's, and the plans are those of jit."""

import sys
import warnings

import pytest
import torch
from torch._dynamo.backends.registry import lookup_backend

import fusekit as fk
from fusekit import dynamo_backend
from fusekit.dynamo_backend import FallbackWarning, backend
from fusekit.errors import FusekitError, UnsupportedError
from fusekit.programs import PROGRAMS
from tests.dynamo.differ import tensors


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        yield


@pytest.fixture
def compiled():
    """``torch.compile`` through the backend, and the list of graphs that it was given."""
    graphs = []

    def note(graph, example_inputs, **kwargs):
        graphs.append(backend(graph, example_inputs, **kwargs))
        return graphs[-1]

    return (lambda fn, **kwargs: torch.compile(fn, backend=note, **kwargs)), graphs


def f(a, b):
    return a.exp_() * b.tanh_()


OVERLAPS = {
    "first element": lambda a: a[0, 0],
    "another element": lambda a: a[1, 1],
    "unrelated": lambda a: torch.full((), 0.3),
    "through a transpose": lambda a: a.t()[1, 2],
    "last element": lambda a: a[3, 3],
}


def matrix():
    return torch.arange(16.0).reshape(4, 4) / 9


def same(compiled, fn, make):
    """The call's results and arguments are those of eager."""
    args, twins = make(), make()
    torch.testing.assert_close(compiled(*args), fn(*twins))
    torch.testing.assert_close(tensors(args), tensors(twins))


def test_one_compilation_is_right_for_every_overlap(compiled):
    compiling, graphs = compiled
    call = compiling(f)
    for pick in OVERLAPS.values():
        same(call, f, lambda pick=pick: (lambda a: (a, pick(a)))(matrix()))
        assert fk.last_run().kernels == 1
    assert len(graphs) == 1
    same(call, f, lambda: (lambda a: (a, a))(matrix()))  # Dynamo itself sees that it is one tensor


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_launches_are_those_of_jit(program, compiled):
    compiling, _ = compiled
    fk.jit(program.fn)(*program.make((4, 8), torch.float32))
    want = fk.last_run()
    same(compiling(program.fn), program.fn, lambda: program.make((4, 8), torch.float32))
    assert fk.last_run() == want


def test_weights_numbers_and_sizes_change_between_calls(compiled):
    compiling, graphs = compiled
    linear = torch.nn.Linear(3, 3)

    def scaled(x, s):
        return linear(x).mul_(s)[:, 1:] + x.shape[0]

    call = compiling(scaled)
    for rows, s in ((2, 1.5), (4, 2.5), (5, 2.5), (6, float(3))):
        same(call, scaled, lambda rows=rows, s=s: (torch.ones(rows, 3), s))
        linear.weight.add_(1)
    assert len(graphs) == 2
    linear.weight = torch.nn.Parameter(torch.ones(3, 3))
    same(call, scaled, lambda: (torch.ones(7, 3), 0.5))
    same(compiling(scaled, dynamic=True), scaled, lambda: (torch.ones(7, 3), 0.5))


def test_tensors_of_the_graph_itself_are_read_at_each_call():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Buffer(torch.ones(3))

        def forward(self, x):
            return (self.scale * x,)

    graph = torch.fx.symbolic_trace(Scaled())
    call, x = backend(graph, ()), torch.ones(3)
    for value in (1.0, 2.0):
        graph.scale.fill_(value)
        assert call(x)[0].tolist() == [value] * 3
    graph.scale = torch.full((3,), 7.0)
    assert call(x)[0].tolist() == call(graph.scale)[0].div(7).tolist() == [7.0] * 3


def test_ops_carry_the_users_line_and_names(compiled):
    compiling, graphs = compiled
    compiling(f)(matrix(), torch.zeros(()))
    (exploration,) = graphs[0].fused.jit.explorations()
    recording = exploration.recording
    line = f.__code__.co_firstlineno + 1
    assert {str(recording.graph.op(op).origin) for op in recording.graph.ops()[1:-1]} == {f"{__file__}:{line}"}
    assert recording.graph.inputs() == ("%a", "%b")
    assert recording.name == "f"


def test_errors_are_eagers(compiled):
    compiling, _ = compiled

    def write(x):
        return x.exp_()

    a = torch.zeros(1, 1)
    with pytest.raises(RuntimeError):
        compiling(write)(a.expand(2, 2))
    assert a.item() == 0


# ---- eager takes over ----------------------------------------------------------------------------------------------


def test_what_the_recorder_refuses_runs_in_eager_and_says_so_once():
    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    node = next(iter(graph.graph.find_nodes(op="placeholder")))
    with graph.graph.inserting_after(node):
        resize = graph.graph.call_method("resize_", (node, 4))
    resize.meta["stack_trace"] = '  File "model.py", line 7, in forward\n    x.resize_(4)\n'
    next(iter(graph.graph.find_nodes(op="output"))).args = ((resize,),)
    graph.recompile()
    call = backend(graph, ())
    with pytest.warns(FallbackWarning, match=r"resize_.* at model.py:7"):
        (out,) = call(torch.ones(2))
    assert out.shape == (4,) and fk.last_run() is None
    assert call(torch.ones(2))[0].shape == (4,)  # no second warning
    with pytest.raises(UnsupportedError, match="resize_"):
        backend(graph, (), options={"strict": True})(torch.ones(2))


def test_a_plan_that_fails_half_way_is_not_run_again_in_eager(compiled, monkeypatch):
    compiling, _ = compiled
    call, a = compiling(f), matrix()
    call(a, torch.zeros(()))

    def fail(*args, **kwargs):
        raise UnsupportedError("a tensor that lies across two storage objects")

    monkeypatch.setattr(sys.modules["fusekit.jit"], "execute", fail)
    before = a.clone()
    with pytest.raises(FusekitError, match="half way"):
        call(a, torch.zeros(()))
    assert torch.equal(a, before)


# ---- options -------------------------------------------------------------------------------------------------------


def test_options_are_those_of_fusekit():
    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    assert backend(graph, (), options={"strict": True, "backend": "cpu"}).options == fk.Options("cpu", strict=True)
    assert backend(graph, (), options=fk.Options(strict=True)).options.strict
    with pytest.raises(UnsupportedError, match=r"'triton'.*use some of backend"):
        backend(graph, (), options={"triton": 1})
    with pytest.raises(UnsupportedError, match="max-autotune"):
        backend(graph, (), mode="max-autotune")


def test_strict_refuses_library_calls(compiled):
    compiling, _ = compiled
    with pytest.raises(UnsupportedError, match="mm"):
        compiling(lambda x: x @ x, options={"strict": True})(torch.ones(3, 3))


def test_the_backend_is_found_by_name():
    try:
        found = lookup_backend("fusekit")
    except torch._dynamo.exc.InvalidBackend:
        pytest.skip("the package is not installed")
    assert found is dynamo_backend.backend
