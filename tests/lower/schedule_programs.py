"""Small programs whose segments random schedules are tried on: recorded once, run with every schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from random import Random

import torch
from torch.utils._pytree import tree_flatten

from fusekit.domains import Parallelize, Reference, ReorderAxes, reference_of
from fusekit.errors import IllegalTransform
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.lower import CannotLower, Kernel, lower_segment
from fusekit.passes import AliasGroups, Functionalize, SegmentOps
from fusekit.run.cuda.kernel import as_cuda
from fusekit.run.cuda.simulated import simulated_kernel
from fusekit.run.plan import execute, make_plan
from fusekit.schedule import Schedule, Tile
from fusekit.testing.schedules import random_schedule
from fusekit.testing.stages import run_recording
from fusekit.trace.record import record
from fusekit.trace.recording import Recording
from tests.lower.guarded import guarded_kernel

Make = Callable[[Random], tuple[torch.Tensor, ...]]
F = torch.nn.functional


def _sizes(random: Random) -> tuple[int, int]:
    return random.choice((1, 2, 3, 5, 8)), random.choice((1, 3, 4, 7, 8, 12, 16))


def _matrix(random: Random) -> torch.Tensor:
    return torch.randn(_sizes(random))


def _with_rows(count: int) -> Make:
    """A matrix, and ``count`` vectors as long as its rows."""

    def make(random: Random) -> tuple[torch.Tensor, ...]:
        x = _matrix(random)
        return (x, *(torch.randn(x.shape[1]) for _ in range(count)))

    return make


def _images(random: Random) -> tuple[torch.Tensor, ...]:
    return (torch.randn(random.choice((1, 2)), 4, random.choice((1, 3)), random.choice((2, 5))),)


def _square(random: Random) -> tuple[torch.Tensor, ...]:
    n = random.choice((1, 2, 4, 5, 8))
    return torch.randn(n, n), torch.randn(n, n)


def _looked_up(random: Random) -> tuple[torch.Tensor, ...]:
    rows, columns = _sizes(random)
    return torch.randn(rows, columns), torch.randint(0, rows, (random.choice((1, 3, 4)),))


def group_norm_views(x: torch.Tensor) -> torch.Tensor:
    parts = x.reshape(x.shape[0], 2, -1)
    centred = parts - parts.mean(-1, keepdim=True)
    return (centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)).reshape(x.shape)


def shifted_add(x: torch.Tensor) -> torch.Tensor:
    x[:, 1:] += x[:, :-1].clone()
    return x


def cross_entropy(x: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(x, 1).mean()


PROGRAMS: dict[str, tuple[Callable[..., object], Make]] = {
    "broadcast": (lambda x, w, b: x * w + b, _with_rows(2)),
    "row_sum": (lambda x: (x * x).sum(1), _with_rows(0)),
    "softmax": (lambda x: torch.softmax(x, -1), _with_rows(0)),
    "softmax_in_place": (lambda x: x.copy_(torch.softmax(x, -1)), _with_rows(0)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b), _with_rows(2)),
    "residual_norm": (lambda x, w: F.rms_norm(x.add_(w), x.shape[1:], w), _with_rows(1)),
    "column_sum": (lambda x: x.sum(0), _with_rows(0)),
    "full_sum": (lambda x: (x.sum(), x.amax()), _with_rows(0)),
    "whole_norm": (lambda x: (x - x.mean()) / (1 + x.abs().amax()), _with_rows(0)),
    "group_norm": (group_norm_views, _images),
    "group_norm_silu": (lambda x: F.silu(F.group_norm(x, 2)), _images),
    "transpose_add": (lambda a, b: a + b.t(), _square),
    "transpose_in_place": (lambda a, b: a.add_(a.t().clone()), _square),
    "cat_slices": (lambda x, w: torch.cat((x[:, 1:] * 2, w[None, :1].expand(x.shape[0], 1), x), 1), _with_rows(1)),
    "overlay": (shifted_add, _with_rows(0)),
    "centred_in_place": (lambda x: x.sub_(x.mean(1, keepdim=True)), _with_rows(0)),
    "argmax": (lambda x: (x.argmax(1), (x > 0).any(0)), _with_rows(0)),
    "take": (lambda x, t: F.embedding(t, x) + 1, _looked_up),
    "nested": (cross_entropy, _with_rows(0)),
}
"""name -> (the function, what makes its arguments)"""


@dataclass(frozen=True)
class Recorded:
    """A program on arguments of one size: its graph in segments, and the segments that become kernels."""

    name: str
    recording: Recording
    graph: Graph
    args: tuple[torch.Tensor, ...]

    @property
    def segments(self) -> list[NodeId]:
        return [s for s in self.graph.segments() if self.graph.segment(s).scheduler == "pointwise"]


@cache
def recorded(name: str, sizes: int) -> Recorded:
    """The program on its arguments number ``sizes``."""
    fn, make = PROGRAMS[name]
    torch.manual_seed(sizes)
    args = make(Random(sizes))
    with torch.no_grad():
        recording = record(fn, args)
    graph = recording.graph
    for one in (AliasGroups(), Functionalize(), SegmentOps()):
        graph = one(graph).graph
    return Recorded(name, recording, graph, args)


@dataclass(frozen=True)
class Trial:
    """What became of one random schedule: "right", "wrong", "too large" or why it was refused."""

    seed: int
    program: str
    schedules: tuple[Schedule, ...]
    sources: tuple[str, ...]
    outcome: str


MOST_THREADS, MOST_TEXT = 600, 15_000
Kernels = dict[NodeId, Kernel]


def trial(seed: int, target: str) -> Trial:
    """A random schedule for every segment of a random program, run and held against the interpreter.

    Kernels for the CPU run as plain Python, those for CUDA on the simulator.
    """
    random = Random(seed)
    program = recorded(random.choice(list(PROGRAMS)), random.randrange(12))
    ordered = random.random() < 0.7
    kernels: dict[NodeId, Kernel] = {}
    chosen: list[Schedule] = []
    try:
        for segment in program.segments:
            reference = reference_of(program.graph, segment)
            if reference is None:
                continue
            chosen.append(random_schedule(reference, random))
            if target == "cuda":
                chosen[-1] = with_tile(chosen[-1], program.graph, segment, reference, Random(seed + len(chosen)))
            made = lower_segment(program.graph, segment, schedule=chosen[-1], target=target, ordered=ordered)  # type: ignore[arg-type]
            kernels[segment] = made if target == "cpu" else as_cuda(made, program.graph)  # type: ignore[assignment]
    except (CannotLower, IllegalTransform) as refusal:
        return Trial(seed, program.name, tuple(chosen), (), f"refused: {_kind(refusal)}")
    sources = tuple(kernel.source for kernel in kernels.values())
    if target == "cuda" and any(_is_large(kernel) for kernel in kernels.values()):
        return Trial(seed, program.name, tuple(chosen), sources, "too large")
    run = _plain(random, program.graph) if target == "cpu" else simulated_kernel
    same = _agrees(program, kernels, run)
    return Trial(seed, program.name, tuple(chosen), sources, "right" if same else "wrong")


def with_tile(schedule: Schedule, graph: Graph, segment: NodeId, reference: Reference, random: Random) -> Schedule:
    """At times with a shared tile for something that is loaded: the loops in another order, or with other types."""
    loads = [graph.results(op)[0] for op in graph.members(segment) if graph.op(op).target == "fk.load"]
    loop, last = schedule.loops(reference), schedule.transforms[-1]
    if not loads or random.random() < 0.6 or not isinstance(last, Parallelize):
        return schedule
    order = list(range(len(loop)))
    random.shuffle(order)
    types = last.types if random.random() < 0.6 else tuple(last.types[k] for k in order)
    axes = [k for k in range(len(loop)) if not last.types[k].is_block or random.random() < 0.1]
    random.shuffle(axes)
    strides, stride = [0] * len(axes), 1
    for k in reversed(range(len(axes))):
        strides[k] = stride
        stride = stride * loop.extents[axes[k]] + random.choice((0, 0, 1))
    fill = (ReorderAxes(tuple(order)), Parallelize(types))
    tile = Tile(random.choice(loads), len(schedule.transforms) - 1, fill, tuple(axes), tuple(strides))
    return replace(schedule, placements=replace(schedule.placements, shared=(tile,)))


def _is_large(kernel: Kernel) -> bool:
    grid, block = kernel.launch  # type: ignore[attr-defined]
    return prod(grid) * prod(block) > MOST_THREADS or len(kernel.source) > MOST_TEXT


def _kind(refusal: Exception) -> str:
    """The refusal without its names, places and numbers."""
    assert isinstance(refusal, (CannotLower, IllegalTransform))
    words = refusal.what.split(" at ")[0].split()
    return " ".join(word for word in words if not any(c in word for c in "^%#[]0123456789") and len(word) > 2)


def _plain(random: Random, graph: Graph) -> Callable[[Kernel], Callable[..., None]]:
    """Runs a kernel as Python; every other time the loops of one that needs no order run in a random one."""
    shuffle = random.randrange(1 << 20)
    return lambda kernel: guarded_kernel(kernel, graph, shuffle if kernel.order == "any" and shuffle % 2 else None)


def _agrees(program: Recorded, kernels: Kernels, run: Callable[..., Callable[..., None]]) -> bool:
    plan = make_plan(program.graph, kernels, run, program.recording.graph)
    ours, theirs = ([t.clone() for t in program.args] for _ in range(2))
    with torch.no_grad():
        want = run_recording(program.recording, program.graph, theirs)
        leaves = execute(plan, program.recording.tensors(ours))
    found = [t for t in leaves if isinstance(t, torch.Tensor)]
    wanted = [t for t in tree_flatten(want)[0] if isinstance(t, torch.Tensor)]
    pairs = zip([*found, *ours], [*wanted, *theirs], strict=True)
    return all(torch.allclose(a.double(), b.double(), rtol=1e-5, atol=1e-5, equal_nan=True) for a, b in pairs)
