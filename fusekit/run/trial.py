"""The first run of a plan, whose library calls may give other tensors than their stand-ins said: what it writes and
draws is put back then, so that the call can be made again as if nothing had been."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.run.decode import Scalar
from fusekit.run.memory import Blocks, Memory, Place, place_of
from fusekit.trace.oracle import default_generators
from fusekit.trace.private import C
from fusekit.trace.recording import Recording

MOST = 1 << 30  # bytes that are copied at most


@dataclass(frozen=True, slots=True)
class Trial:
    """What a run may change: written memory with its contents, version counters, states of generators."""

    written: Sequence[tuple[torch.Tensor, torch.Tensor]]
    versions: Sequence[tuple[torch.Tensor, int | None]]
    states: Sequence[tuple[torch.Generator, torch.Tensor]]

    @staticmethod
    def of(
        recording: Recording, tensors: Sequence[torch.Tensor], numbers: Sequence[Scalar], objects: Sequence[object]
    ) -> Trial | None:
        """None where the memory is too large to be copied, or grows: then there is no second run."""
        graph = recording.graph
        blocks = Blocks.of(graph)
        if blocks.grown:
            return None
        memory = Memory(blocks, tensors, numbers)
        views = [memory.tensor(place) for place in dict.fromkeys(_written(graph, blocks))]
        if sum(view.numel() * view.element_size() for view in views) > MOST:
            return None
        draws = any(torch.Tag.nondeterministic_seeded in call.target.tags for call in recording.calls)
        generators = [*default_generators(), *(g for g in objects if isinstance(g, torch.Generator))] if draws else []
        return Trial(
            [(view, view.clone()) for view in views],
            [(t, None if t.is_inference() else t._version) for t in tensors],
            [(generator, generator.get_state()) for generator in generators],
        )

    def put_back(self) -> None:
        for view, contents in self.written:
            view.copy_(contents)
        for t, version in self.versions:
            if version is not None and t._version != version:
                C._autograd._unsafe_set_version_counter((t,), (version,))
        for generator, state in self.states:
            generator.set_state(state)


def _written(graph: Graph, blocks: Blocks) -> Iterator[Place]:
    """Places of the caller's memory that the program writes."""
    for op in graph.ops():
        operands = graph.operands(op)
        for k in graph.op(op).writes:
            block: NodeId | None = graph.block_of(operands[k])
            if block is not None and not blocks.fresh[blocks.number[block]]:
                yield place_of(graph, blocks.number, operands[k])
