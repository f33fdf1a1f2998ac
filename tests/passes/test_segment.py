"""Segments: which stores run together, and that their order is right for programs with many flushes."""

import os
import re
import subprocess
import sys

import pytest
import torch

import fusekit as fk
from fusekit.pipeline import lower_graph, run_passes
from fusekit.testing import differential
from tests.conftest import ROOT


def cut_then_writes(a, b):
    c = fk.cut(a + 1)
    b.mul_(2)
    c.mul_(3)
    return c, b, b * 3


def many_rows(a, b):
    b.mul_(2)
    for k in range(18):
        a[k].add_(1)
    return b * 3, a * 3


def two_cuts(a, b):
    a.add_(1)
    c = fk.cut(a * b[0])
    a.mul_(c)
    d = fk.cut(a[1:] - a[:-1])
    b.sub_(a[0, :4])
    return d, c + a.sum()


def long_chain(a, b):
    x = a
    for k in range(170):
        x = torch.sin(x) * x + b[k % 4]
        if k % 40 == 0:
            a.add_(x)
    return x, a


@pytest.mark.parametrize("fn", [cut_then_writes, many_rows, two_cuts, long_chain], ids=lambda f: f.__name__)
def test_flushes_without_library_calls(fn) -> None:
    torch.manual_seed(0)
    args = (torch.rand(20, 4), torch.rand(4))
    report = differential(fn, fk.jit(fn), args)
    assert report.ok, report
    for name, step in fk.explore(fn, *args).check_steps().items():
        assert step.ok, f"after {name}\n{step}"


# ---- which stores are one kernel


def around_a_call(a, b, w):
    p = (a * 2).sin()
    m = b @ w
    q = (a + 1).cos()
    return p, m, q


def masked_softmax(q, k, v, mask):
    scores = q @ k.transpose(-1, -2)
    return scores.masked_fill(mask, float("-inf")).softmax(-1) @ v


def two_views(x):
    return x.reshape(8, 24).transpose(0, 1) * 2, x.transpose(0, 2).reshape(6, 32)


def two_shapes(a, b):
    return a * 2, b.sin()


def same_shape(a, b):
    return a * 2, b.sin()


def broadcast_rows(x, y):
    x.add_(1)
    return y * x.sum(1, keepdim=True)


def needed_after(x, w):
    mean = x.mean(1, keepdim=True)
    z = (x - mean) @ w
    return z * mean + z


def cast_on_both_sides(x, w):
    wide = x.float()
    z = wide.cos() @ w
    return (wide + 1).sin(), z + wide.sum(1, keepdim=True)


def r(*shape, dtype=torch.float32):
    torch.manual_seed(1)
    return torch.rand(shape).to(dtype)


KERNELS = [
    (around_a_call, (r(30, 1031), r(30, 20), r(20, 10)), 1, 1),
    (masked_softmax, (r(4, 30, 16), r(4, 30, 16), r(4, 30, 16), r(30, 30) > 0.5), 1, 2),
    (two_views, (r(8, 4, 6),), 1, 0),
    (two_shapes, (r(7, 13), r(1031)), 2, 0),
    (same_shape, (r(7, 1031), r(7, 1031)), 1, 0),
    (broadcast_rows, (r(37, 33), r(37, 5)), 2, 0),
    (needed_after, (r(37, 129), r(129, 13)), 2, 1),
    (cast_on_both_sides, (r(64, 65, dtype=torch.bfloat16), r(65, 65)), 2, 1),
]


@pytest.mark.parametrize(("fn", "args", "kernels", "calls"), KERNELS, ids=lambda v: getattr(v, "__name__", ""))
def test_kernels_and_calls(fn, args, kernels, calls) -> None:
    x = fk.explore(fn, *args)
    s = x.summary()
    assert (s.kernels, s.extern_calls, s.copies) == (kernels, calls, 0), repr(x)
    assert x.check(atol=1e-4).ok, x.check(atol=1e-4)
    for name, step in x.check_steps().items():
        assert all(row.ok or "out" in row.what for row in step.rows), f"after {name}\n{step}"


def test_a_cast_stays_private_and_a_mean_is_stored_once() -> None:
    """What a later kernel needs again is read from memory where that moves fewer bytes, else computed again."""
    mean = fk.explore(needed_after, r(37, 129), r(129, 13))
    stored = [op for op in mean.graph.ops() if op not in mean["forward"].graph and op.startswith("^store")]
    assert len(stored) == 1 and mean.graph.tensor(mean.graph.operands(stored[0])[0]).shape == (37,)
    cast = fk.explore(cast_on_both_sides, r(64, 65, dtype=torch.bfloat16), r(65, 65))
    assert not [op for op in cast.graph.ops() if op not in cast["forward"].graph]
    without = cast.what_if(without="forward")
    assert without.summary().bytes_moved > cast.summary().bytes_moved
    assert without.check(atol=1e-4).ok


def test_every_pair_has_a_reason_with_numbers() -> None:
    def f(a, b, w):
        p = (a * 2).sin()
        m = b @ w
        return p, m.softmax(1), (m + 1).cos().sum(0), p.view(-1), b.sum(0), a.t().contiguous()

    x = fk.explore(f, r(30, 40), r(30, 20), r(20, 10))
    segments = x.graph.segments()
    assert len(segments) > 3
    for k, first in enumerate(segments):
        for second in segments[k + 1 :]:
            for said in (x.why(first, second), x.why(second, first)):
                assert said and all(str(e.reason) for e in said), (first, second)
    assert x.merges() and all(len(row.cells) == 5 and row.cells[4] for row in x.merges())
    assert "bytes saved" in repr(x.merges()) and "<table" in x.merges()._repr_html_()


def a_cycle(a, w):
    e = (a * 2).exp()
    m = e @ w
    return m + a


def folds_other_dims(a, b):
    return a.softmax(0), (a.T.reshape(13, 7) - b).softmax(1)


@pytest.mark.parametrize(
    ("fn", "args", "pair", "says"),
    [
        (
            a_cycle,
            (r(7, 7), r(7, 7)),
            ("$0", "$2"),
            r"\$1 must run after \$0 and before \$2.*a kernel in place",
        ),
        (a_cycle, (r(7, 7), r(7, 7)), ("$0", "$1"), r"mm is a library call"),
        (two_shapes, (r(7, 13), r(1031)), ("$0", "$1"), r"\[7, 13\] against \[1031\].*would join"),
        (lambda a: fk.cut(a + 1) * 2, (r(7),), ("$0", "$1"), r"fk\.cut at test_segment\.py:\d+\).*without that"),
        (broadcast_rows, (r(37, 33), r(37, 5)), ("$0", "$1"), r"no nest of loops"),
    ],
)
def test_what_a_pair_is_told(fn, args, pair, says) -> None:
    said = " ".join(str(e.reason) for e in fk.explore(fn, *args).why(*pair))
    assert re.search(says, said), said


def test_the_record_is_the_same_in_every_process(tmp_path) -> None:
    """Byte for byte, however strings are hashed."""
    script = tmp_path / "same.py"
    script.write_text(
        "import torch, fusekit as fk\n"
        "from fusekit.programs import PROGRAMS_REAL, SMALL\n"
        "for p in PROGRAMS_REAL[::4]:\n"
        "    x = fk.explore(p.fn, *p.make(SMALL, torch.float32))\n"
        "    print(x.text(), x.text('segment'), x.merges(), sep='\\n')\n"
    )
    texts = set()
    for seed in ("0", "1", "77"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr
        texts.add(done.stdout)
    assert len(texts) == 1 and len(texts.pop()) > 1000


def parts_and_a_sum(a, b):
    x, y, z = a.chunk(3, 1)
    x += y
    y *= z
    z.sub_(x)
    b += a[1].sum()
    a[:1].copy_(a[1:2])
    return a


def halves_and_a_sum(a, b):
    s = a[0].sum()
    a[:, :3].add_(s)
    a[:, 3:].mul_(a[0].amax())
    b.copy_(a.sum(1))
    return a.mean()


@pytest.mark.parametrize("column", [None, 0, 4])
@pytest.mark.parametrize("fn", [parts_and_a_sum, halves_and_a_sum], ids=lambda f: f.__name__)
def test_stores_in_a_circle_share_a_sum(fn, column) -> None:
    """Stores that each read what another one writes are one launch: where no loops hold its sum too, that is stored."""
    a = torch.linspace(-2, 3, 45).reshape(5, 9)
    args = (a, torch.ones(5) if column is None else a[:, column])
    x = fk.explore(fn, *args)
    assert x.check()
    assert x.summary().extern_calls == 0 and all(s.kernel or s.scheduler == "alias" for s in x.segments)


# ---- what is permuted after a reduction


def norm_turned(x, w):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], w).t().contiguous()


def heads_side_by_side(x, bias):
    b, h, t, d = x.shape
    return torch.nn.functional.gelu(x.softmax(-1).transpose(1, 2).reshape(b, t, h * d) + bias)


def permuted_twice(x, res):
    return (x.softmax(-1).permute(2, 0, 1) + res).contiguous(), x.sum(0)


def turned_and_used(x):
    y = x.softmax(-1).t().contiguous()
    return y, y * 2


def turned_into_an_argument(x, out):
    out.copy_(x.softmax(-1).t())
    return out


TURNED = [
    (norm_turned, (r(37, 1031), r(1031))),
    (heads_side_by_side, (r(2, 3, 11, 80), r(240))),
    (permuted_twice, (r(7, 9, 131), r(131, 7, 9))),
    (turned_and_used, (r(37, 1031),)),
    (turned_into_an_argument, (r(37, 1031), r(1031, 37))),
]


@pytest.mark.parametrize(("fn", "args"), TURNED, ids=lambda v: getattr(v, "__name__", ""))
def test_a_permutation_after_a_reduction_is_one_kernel(fn, args) -> None:
    x = fk.explore(fn, *args)
    s = x.summary()
    assert (s.kernels, s.extern_calls, s.copies) == (1, 0, 0), repr(x)
    assert s.bytes_moved == s.bytes_least
    assert any(e.reason.name == "turned" for e in x["segment"].explanations)
    assert x.check(atol=1e-5).ok, x.check(atol=1e-5)
    assert all(step.ok for step in x.check_steps().values())


def test_a_store_is_not_turned_without_need() -> None:
    """Elements that no reduction is behind keep the space of their place."""
    for fn, args in ((lambda x: (x * 2).t().contiguous(), r(7, 1031)), (lambda x: x.sum(1), r(7, 1031))):
        x = fk.explore(fn, args)
        assert not any(e.reason.name == "turned" for e in x["segment"].explanations)
        assert x.summary().kernels == 1 and x.check(atol=1e-3).ok


def test_a_kernel_stores_on_one_device() -> None:
    """A number that ``index_put_`` takes from the CPU is no store of the GPU's kernel in front of it."""

    def f(a):
        b = a + 1
        b[a > 0] = 7
        return b, a * 2

    recorded = fk.explore(f, torch.randn(70, 33), options=fk.Options(backend="cpu"))
    text = re.sub(r"cpu (argument|fresh)", r"cuda:0 \1", recorded.text(0))
    number = re.search(r"%lift_fresh_copy\S* : .* in (@\d+)", text)
    assert number is not None
    text = text.replace(f"{number[1]} : 4 bytes cuda:0", f"{number[1]} : 4 bytes cpu")
    graph = run_passes(fk.parse(text), fk.Options(backend="cuda"))[-1].graph
    for segment in graph.segments():
        stores = [op for op in graph.members(segment) if graph.op(op).target == "fk.store"]
        places = [graph.block_of(graph.operands(op)[1]) for op in stores]
        assert len({graph.block(block).device for block in places if block is not None}) <= 1
    made = lower_graph(graph, "cuda")
    assert made.refused == {} and len(made.kernels) == 2
