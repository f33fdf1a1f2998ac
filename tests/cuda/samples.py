"""Small programs for the CUDA printer: one of every kind of kernel, on CPU tensors for the simulator or on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import torch
import torch.nn.functional as F

import fusekit as fk
from fusekit.domains import reference_of
from fusekit.errors import IllegalTransform
from fusekit.exploration import Exploration
from fusekit.ids import NodeId
from fusekit.lower import CannotLower, lower_segment
from fusekit.passes import PIPELINE, Functionalize, Pass
from fusekit.pipeline import Compiled, Options, plan_of
from fusekit.run.cuda.kernel import CudaKernel, as_cuda
from fusekit.schedule import Schedule
from fusekit.testing.schedules import random_schedule

Tensors = tuple[torch.Tensor, ...]
PASSES: tuple[Pass, ...] = tuple(replace(p, reduce=True) if isinstance(p, Functionalize) else p for p in PIPELINE)
SIM = Options(backend="sim", passes=PASSES)


def pointwise(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x * y, x - y)


def bias_gelu(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.gelu(x + b, approximate="tanh")


def softmax(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1)


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], w, b)


def rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


def row_sum(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum(1)


def column_sum(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum(0)


def full_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum()


def group_norm(x: torch.Tensor) -> torch.Tensor:
    """Four groups of channels, by views."""
    y = x.reshape(x.shape[0], 4, -1)
    mean = y.mean(-1, keepdim=True)
    scale = torch.rsqrt((y - mean).pow(2).mean(-1, keepdim=True) + 1e-5)
    return F.silu(((y - mean) * scale).reshape(x.shape))


def transposed_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.t() + y


def cat_of_slices(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:, 1:], y[:, :-1]], 1) * 2


def overlay(x: torch.Tensor) -> torch.Tensor:
    """Writes through views, one of them across the other."""
    x[1:, 2:].mul_(3)
    x.t()[0].add_(1)
    return x


def shifted(x: torch.Tensor) -> torch.Tensor:
    """Every element reads its neighbour's old value."""
    x[1:] = x[:-1] * 2
    return x


def maxima(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.argmax(1), x.amax(1)


def take(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return table[index] * 2


Shapes = tuple[tuple[int, ...], ...]
SHAPES: dict[str, tuple[Callable[..., object], Shapes]] = {
    "pointwise": (pointwise, ((8, 64), (64,))),
    "bias_gelu": (bias_gelu, ((8, 64), (64,))),
    "softmax_256": (softmax, ((4, 256),)),
    "softmax_4096": (softmax, ((2, 4096),)),
    "softmax_4095": (softmax, ((2, 4095),)),
    "layer_norm": (layer_norm, ((4, 512), (512,), (512,))),
    "rms_norm": (rms_norm, ((4, 512), (512,))),
    "row_sum": (row_sum, ((4, 512),)),
    "column_sum": (column_sum, ((64, 64),)),
    "full_sum": (full_sum, ((64, 64),)),
    "group_norm": (group_norm, ((2, 8, 4, 4),)),
    "transposed_add": (transposed_add, ((64, 64), (64, 64))),
    "cat_of_slices": (cat_of_slices, ((6, 9), (6, 9))),
    "overlay": (overlay, ((5, 8),)),
    "shifted": (shifted, ((50, 80),)),  # more than one block
    "maxima": (maxima, ((4, 300),)),
    "take": (take, ((20, 16), (-7,))),
}
"""Name -> (function, shapes of its arguments); a negative extent is an index tensor of so many entries."""
TINY: dict[str, tuple[Callable[..., object], Shapes]] = {
    "pointwise": (pointwise, ((3, 20), (20,))),
    "softmax": (softmax, ((4, 21),)),
    "layer_norm": (layer_norm, ((3, 16), (16,), (16,))),
    "row_sum": (row_sum, ((6, 24),)),
    "column_sum": (column_sum, ((24, 10),)),
    "full_sum": (full_sum, ((6, 9),)),
    "group_norm": (group_norm, ((2, 4, 2, 3),)),
    "transposed_add": (transposed_add, ((6, 8), (8, 6))),
    "cat_of_slices": (cat_of_slices, ((4, 7), (4, 7))),
    "overlay": (overlay, ((5, 8),)),
    "shifted": (shifted, ((5, 8),)),
    "maxima": (maxima, ((3, 17),)),
    "take": (take, ((9, 8), (-5,))),
}


def arguments(shapes: Sequence[tuple[int, ...]], dtype: torch.dtype, seed: int = 0) -> Tensors:
    """Small multiples of 1/8 with ties among them."""
    random = torch.Generator().manual_seed(seed)
    made: list[torch.Tensor] = []
    for shape in shapes:
        if shape[0] < 0:
            made.append(torch.randint(shapes[0][0], (-shape[0],), generator=random))
        else:
            made.append((torch.randint(-16, 17, shape, generator=random) / 8).to(dtype))
    return tuple(made)


def explored(
    name: str, dtype: torch.dtype, among: dict[str, tuple[Callable[..., object], tuple[tuple[int, ...], ...]]]
):
    fn, shapes = among[name]
    return fk.explore(fn, *arguments(shapes, dtype), options=SIM)


# ---- random schedules -----------------------------------------------------------------------------------------------

MOST_THREADS = 1500


def rescheduled(x: Exploration, random: Random) -> tuple[Exploration, dict[NodeId, Schedule]] | None:
    """The exploration with a random legal schedule for each kernel; None where the lowering refuses one or where
    there are too many threads."""
    graph, kernels, chosen = x.graph, dict[NodeId, CudaKernel](), dict[NodeId, Schedule]()
    for segment in graph.segments():
        reference = reference_of(graph, segment)
        if graph.segment(segment).scheduler != "pointwise" or reference is None:
            continue
        schedule = random_schedule(reference, random)
        try:
            kernel = as_cuda(lower_segment(graph, segment, schedule=schedule, target="cuda"), graph)
        except (CannotLower, IllegalTransform):
            return None
        threads = 1
        for extent in (*kernel.launch[0], *kernel.launch[1]):
            threads *= extent
        if threads > MOST_THREADS or len(kernel.source) > 20_000:
            return None
        kernels[segment], chosen[segment] = kernel, schedule
    compiled = Compiled(kernels, {}, "sim")
    return replace(x, made=(compiled, plan_of(graph, compiled, x.recording.graph))), chosen
