"""The graph of a recording: places, blocks, names, writes and lines."""

import pytest
import torch
from torch import nn

import fusekit as fk
from fusekit.ir import Graph, Number, Operand, print_graph
from fusekit.memory import lists
from fusekit.trace import graph_of, record
from tests.trace.replay import replayed


@pytest.fixture(autouse=True)
def _inference():
    with torch.no_grad():
        yield


def targets(graph: Graph) -> list[str]:
    return [graph.op(op).target for op in graph.ops()]


def op_of(graph: Graph, target: str):
    return next(op for op in graph.ops() if graph.op(op).target == target)


def test_overlapping_arguments_share_a_block():
    def f(a, b):
        return a.exp_() * b.tanh_()

    a = torch.ones(4, 3)
    graph = record(f, (a, a[0, 1])).graph
    assert targets(graph) == ["fk.input", "aten.exp_.default", "aten.tanh_.default", "aten.mul.Tensor", "fk.return"]
    assert graph.inputs() == ("%a", "%b")
    assert graph.block_of("%a") == graph.block_of("%b") != graph.block_of("%mul")
    assert graph.layout("%b").offset.const == 4
    exp = graph.op(op_of(graph, "aten.exp_.default"))
    assert exp.writes == (0,) and exp.same == ((0, 0),)
    assert graph.results(op_of(graph, "aten.exp_.default")) == ("%a.1",)
    assert graph.operands(op_of(graph, "aten.mul.Tensor")) == ("%a.1", "%b.1")
    assert [graph.lives(t).role for t in ("%a", "%a.1", "%mul")] == ["input", "alias", "new"]
    assert graph.op(op_of(graph, "aten.mul.Tensor")).origin.line == f.__code__.co_firstlineno + 1


def test_two_storages_over_one_array_are_one_block():
    import numpy as np

    array = np.zeros(8, np.float32)
    a, b = torch.from_numpy(array), torch.from_numpy(array[2:])
    graph = record(lambda a, b: a + b[0], (a, b)).graph
    assert graph.block_of("%a") == graph.block_of("%b")
    assert graph.layout("%b").offset.const == 8
    separate = graph_of(record(lambda a, b: a + b[0], (a, b)).program, apart=True)
    assert separate.block_of("%a") != separate.block_of("%b")


def test_inputs_whose_bytes_meet_share_a_block():
    base = torch.zeros(10)
    graph = record(lambda a, b, c, d: (a, b, c, d), (base[:5], base[4:], torch.zeros(3), base[:0])).graph
    assert graph.block_of("%a") == graph.block_of("%b") != graph.block_of("%c")
    assert graph.block(graph.block_of("%a")).nbytes == 40
    assert graph.block_of("%d") not in (graph.block_of("%a"), graph.block_of("%c"))


def test_neighbours_in_one_storage_are_two_blocks_unless_the_program_may_step_across():
    base = torch.zeros(10)
    graph = record(lambda a, b: a + b, (base[:5], base[5:])).graph
    assert graph.block_of("%a") != graph.block_of("%b")
    graph = record(lambda a, b: a.as_strided((5,), (1,), 5) + b, (base[:5], base[5:])).graph
    assert graph.block_of("%a") == graph.block_of("%b")


def test_metadata_changes_of_an_argument():
    def f(a):
        a.t_()
        return a[1]

    graph = record(f, (torch.zeros(2, 3),)).graph
    assert graph.layout("%a.1").strides == (4, 12)
    assert graph.op(graph.ops()[-1]).kwarg("relayout") == ((0, Operand(1)),)
    assert graph.outputs() == ("%select", "%a.1")


def test_views_of_intermediates_and_multiple_results():
    def f(a):
        low, high = (a * 2).chunk(2)
        values, places = low.max(0)
        return high, values, places

    graph = record(f, (torch.zeros(4, 3),)).graph
    outs = graph.outputs()
    assert graph.block_of(outs[0]) == graph.block_of("%mul") and graph.layout(outs[0]).offset.const == 24
    assert graph.results(op_of(graph, "aten.max.dim")) == outs[1:]


def test_a_tensor_passed_twice_is_one_input():
    graph = record(lambda a, b: a + b, (x := torch.zeros(2), x)).graph
    assert graph.inputs() == ("%a",)
    assert graph.operands(op_of(graph, "aten.add.Tensor")) == ("%a", "%a")


def test_names_of_nested_arguments_and_captures():
    layer = nn.Linear(3, 3)
    scale = torch.ones(3)

    def f(ts, *rest, cfg):
        return layer(ts[0]) * scale + rest[1] + cfg["w"]

    x = torch.zeros(3)
    graph = record(f, ([x, x + 1], x + 2, x + 3), {"cfg": {"w": x + 4}}).graph
    names = ("%ts.0", "%ts.1", "%rest.0", "%rest.1", "%cfg.w", "%layer.weight", "%layer.bias", "%scale")
    assert set(graph.inputs()) == set(names)


def test_names_of_a_module():
    graph = record(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), (torch.randn(4, 3),)).graph
    assert {"%self.0.weight", "%self.1.running_mean"} <= set(graph.inputs())
    op = op_of(graph, "aten.native_batch_norm.default")
    written = [graph.operands(op)[k] for k in graph.op(op).writes]
    assert written == ["%self.1.running_mean", "%self.1.running_var"]
    assert "BatchNorm1d" in graph.op(op).origin.modules


def test_foreach_is_one_op_a_tensor():
    def f(ps, gs, ms):
        torch._foreach_mul_(ms, 0.9)
        torch._foreach_add_(ms, gs, alpha=0.1)
        torch._foreach_addcdiv_(ps, ms, torch._foreach_add(torch._foreach_sqrt(gs), 1e-8), value=-0.1)
        torch._foreach_lerp_(ps, gs, 0.5)
        return torch._foreach_maximum(ps, 0.25)

    def make():
        torch.manual_seed(0)
        return [[torch.rand(3), torch.rand(2, 2)] for _ in range(3)]

    graph = record(f, make()).graph
    assert not [t for t in targets(graph) if "foreach" in t]
    assert targets(graph).count("aten.addcdiv_.default") == 2
    want, got = make(), make()
    for a, b in zip(f(*want), replayed(f)(*got), strict=True):
        assert torch.equal(a, b)
    assert all(torch.equal(a, b) for x, y in zip(want, got, strict=True) for a, b in zip(x, y, strict=True))


def test_a_literal_is_copied_at_each_call():
    def f(a):
        return torch.tensor([1.0, 2.0]).add_(a)

    recording = record(f, (torch.ones(2),))
    assert "aten.lift_fresh_copy.default" in targets(recording.graph)
    constant = recording.graph.inputs()[1]
    assert recording.graph.block(recording.graph.block_of(constant)).kind == "constant"


def test_outputs_keep_their_structure():
    def f(a):
        return {"x": a, "y": (a + 1, 3, "text", None)}

    recording = record(f, (torch.zeros(2),))
    assert [o.operand for o in recording.outputs] == [0, 1, None, None, None]
    got = replayed(f)(a := torch.zeros(2))
    assert got["x"] is a and got["y"][1:] == (3, "text", None)


def test_generators_are_symbols():
    generator = torch.Generator().manual_seed(1)
    recording = record(lambda a, g: a + torch.rand(2, generator=g), (torch.zeros(2), generator))
    assert recording.objects == {"leaf:1": 1}
    assert "leaf:1" in print_graph(recording.graph)


def test_no_numbers_unless_asked():
    recording = record(lambda a: a[1] * 2.5, (torch.zeros(3),))
    assert recording.graph.numbers() == ()
    graph = graph_of(recording.program, {(1, "other"): Number(0, 2.5)})
    assert graph.numbers() == (Number(0, 2.5),)


def test_foreach_over_shared_memory_runs_in_eager_where_rows_go_at_once(monkeypatch: pytest.MonkeyPatch):
    """As on a GPU; here the CPU is taken for a device that goes through a list at once."""

    def f(a, b):
        a.mul_(2)
        torch._foreach_add_([a, b], 2)
        torch._foreach_sub_([a], [a])
        c = a + b
        torch._foreach_mul_([c, c], 3)
        torch._foreach_add_([c, a[:1]], [c, b[-1:]])
        return c, a

    def make():
        memory = torch.arange(3000.0)
        return memory[:2000], memory[999:2999]

    kept = [t for t in targets(record(f, make()).graph) if "foreach" in t]
    assert not kept  # a loop has an order
    monkeypatch.setattr(lists, "AT_ONCE", ("cpu",))
    kept = [t for t in targets(record(f, make()).graph) if "foreach" in t]
    assert kept == ["aten._foreach_add_.Scalar", "aten._foreach_mul_.Scalar"]
    x = fk.explore(f, *make())
    assert x.check().ok, x.check()
    step = x["functionalize"]
    said = {node for e in step.explanations if e.reason.name == "flush-accident" for node in e.subject}
    assert {step.graph.op(op).target for op in said} == {*kept, "fk.store"}
