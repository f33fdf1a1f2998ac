"""What a call hands back: arguments as the very objects, views on their true storage, and bumped version counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch

from fusekit.ids import NodeId
from fusekit.ir import Graph, Operand, core
from fusekit.ops.extern import bumps_versions
from fusekit.run.decode import Leaves, Reader, reader
from fusekit.run.lines import Cut, Lines
from fusekit.run.memory import Blocks, Memory, Place, is_at, place_of


@dataclass(frozen=True, slots=True)
class Returned:
    """How one output leaf is made.

    ``input``: the number of the input that it is; else ``place``: a view, ``twin`` the earlier leaf that is the same
    object; else ``constant`` reads it from the call. ``cut``: how the view is taken off its argument's gradients,
    "detach", or off its version counter as well, "data".
    """

    input: int | None = None
    place: Place | None = None
    twin: int | None = None
    constant: Reader | None = None
    cut: Cut = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a graph, prepared once: output leaves, inputs with new metadata, written places of arguments."""

    returned: tuple[Returned, ...]
    relayout: tuple[tuple[int, Place], ...]
    written: tuple[Place, ...]

    @staticmethod
    def of(graph: Graph, blocks: Blocks, program: Graph | None = None) -> Ending:
        """``program``: the graph as it was recorded. It still has writes that passes dropped (of no element, or
        overwritten), for which eager bumps versions, and tells which results are arguments with new metadata."""
        last, lines, told = _last(graph), Lines(graph), Lines(program or graph)
        if last is None:
            return Ending((), (), _written(program or graph, blocks, told))
        operands, seen = graph.operands(last), dict[NodeId, int]()
        leaves: list[Returned] = []
        what = graph.what(last)
        assert isinstance(what, core.Return)
        for k, arg in enumerate(what.outputs):
            if not isinstance(arg, Operand):
                leaves.append(Returned(constant=reader(arg)))
                continue
            tensor = operands[arg.position]
            twin = None if program is None else _output(program, k)
            if twin is None or program is None:
                leaves.append(_returned(graph, blocks, tensor, seen, lines))
            else:
                place = place_of(graph, blocks.number, tensor, lines)
                leaves.append(_returned(program, blocks, twin, seen, told, place))
            seen.setdefault(twin or tensor, k)
        return Ending(
            tuple(leaves),
            tuple((k, place_of(graph, blocks.number, operands[arg.position], lines)) for k, arg in what.relayout),
            _written(program or graph, blocks, told),
        )


def _last(graph: Graph) -> NodeId | None:
    return next((op for op in reversed(graph.ops()) if isinstance(graph.what(op), core.Return)), None)


def _output(program: Graph, k: int) -> NodeId | None:
    """The tensor that output leaf ``k`` is in the program as recorded."""
    last = _last(program)
    arg = program.op(last).args[k] if last is not None else None
    return program.operands(last)[arg.position] if last is not None and isinstance(arg, Operand) else None


def _returned(
    graph: Graph,
    blocks: Blocks,
    tensor: NodeId,
    seen: dict[NodeId, int],
    lines: Lines,
    place: Place | None = None,
) -> Returned:
    """``graph`` tells what the leaf is; ``place``: where it is at the last stage, where that is another graph."""
    if (number := input_of(graph, tensor)) is not None:
        return Returned(input=number)
    found = place_of(graph, blocks.number, tensor, lines)
    place = found if place is None else place._replace(home=found.home)
    return Returned(place=place, twin=seen.get(tensor), cut=lines.of(tensor).cut)


def input_of(graph: Graph, tensor: NodeId) -> int | None:
    """The number of the input that ``tensor`` is the same Python object as, by the chain of Op.same; else None."""
    while graph.has_producer(tensor):
        op = graph.producer(tensor)
        number = graph.results(op).index(tensor)
        if isinstance(graph.what(op), core.Input):
            return number
        operand = dict(graph.op(op).same).get(number)
        if operand is None:
            return None
        tensor = graph.operands(op)[operand]
    return None


def _written(graph: Graph, blocks: Blocks, lines: Lines) -> tuple[Place, ...]:
    """Places in blocks of arguments and captures that some op writes."""
    found: dict[Place, None] = {}
    for op in graph.ops():
        for operand in graph.op(op).writes if _steps_versions(graph.op(op).target) else ():
            tensor = graph.operands(op)[operand]
            if not graph.is_value(tensor):
                place = place_of(graph, blocks.number, tensor, lines)
                if not blocks.fresh[place.block] and lines.of(tensor).cut != "data":
                    found[place] = None
    return tuple(found)


@cache
def _steps_versions(target: str) -> bool:
    """Does eager step the versions of what the op writes? That is a kernel of its own, which fused optimizers have not;
    the ops that a foreach op stands for have it. Of other libraries nobody knows what their kernels call: yes."""
    namespace, name, overload = [*target.split("."), ""][:3]
    if namespace != "aten" or name.startswith("_foreach_") or not bumps_versions(target):
        return bumps_versions(target)
    full = f"aten::{name}" if overload == "default" else f"aten::{name}.{overload}"
    return torch._C._dispatch_has_kernel_for_dispatch_key(full, "ADInplaceOrView")


def finish(ending: Ending, memory: Memory, leaves: Leaves) -> list[object]:
    """Give written arguments a version bump each and their new metadata, and build the output leaves."""
    bump(ending.written, memory)
    for k, place in ending.relayout:
        _relayout(memory, k, place)
    out: list[object] = []
    first: dict[int, torch.Tensor] = {}
    odd = _odd_outputs(ending, memory) if memory.odd else {}
    for leaf in ending.returned:
        if leaf.input is not None:
            out.append(memory.tensors[leaf.input])
        elif leaf.place is None:
            assert leaf.constant is not None
            out.append(leaf.constant((), memory.numbers, leaves))
        elif leaf.twin is not None:
            out.append(out[leaf.twin])
        else:
            odd_one = odd.get(leaf.place.block)
            out.append(_rebuild(leaf.place, memory, first, leaf.cut) if odd_one is None else odd_one)
    return out


def bump(written: Sequence[Place], memory: Memory) -> None:
    """One version bump for every argument that is written, or a view of what is."""
    step_versions([memory.tensors[k] for k in dict.fromkeys(_owner(memory, place) for place in written)])


def step_versions(tensors: Sequence[torch.Tensor]) -> None:
    """One step for each version counter: a view and ``detach()`` share one with their tensor, ``.data`` has its own."""
    if len(tensors) == 1:
        torch.autograd.graph.increment_version(tensors)
        return
    counted = [(t, t._version) for t in tensors if not t.is_inference()]
    for t, before in counted:
        if t._version == before:
            torch.autograd.graph.increment_version(t)


def _owner(memory: Memory, place: Place) -> int:
    """The number of an input whose storage object holds the place."""
    if place.home is not None:
        return place.home
    start, pieces = place.start(memory.numbers), memory.pieces(place.block)
    inside = (p for p in pieces if p.start <= start + place.low and start + place.high <= p.end)
    return next(inside, pieces[0]).input


def _relayout(memory: Memory, k: int, place: Place) -> None:
    """Metadata that the program changed on an argument object (``t_()``, ``squeeze_()``)."""
    tensor = memory.tensors[k]
    old = memory.blocks.inputs[k]
    shift = tensor.storage_offset() * old.width - old.start(memory.numbers)  # the block's first byte, in its storage
    offset = (place.start(memory.numbers) + shift) // place.width
    with torch.no_grad():
        tensor.as_strided_(place.shape, place.strides, offset)


def _rebuild(place: Place, memory: Memory, first: dict[int, torch.Tensor], cut: Cut) -> torch.Tensor:
    """A view of the argument that holds the place, or of the block's first output: as in eager they share a version.

    It is made in the caller's own grad mode: one made without it could not be written under it later.
    """
    if not memory.blocks.fresh[place.block]:
        owner = off(memory.tensors[_owner(memory, place)], cut)
        storage = owner.untyped_storage()
        shift = memory.address(place.block) - storage.data_ptr() if storage.nbytes() else 0
        return view_of(owner, place.start(memory.numbers) + shift, place)
    base = first.get(place.block)
    if base is None:
        base = first[place.block] = _first(place, memory)
        return base
    return view_of(base, place.start(memory.numbers), place)


def off(tensor: torch.Tensor, cut: Cut) -> torch.Tensor:
    """What a view is taken of, so that it is cut off like eager's."""
    if not cut:
        return tensor
    return tensor.detach() if cut == "detach" else tensor.data


def _odd_outputs(ending: Ending, memory: Memory) -> dict[int, torch.Tensor]:
    """Results of library calls with other strides than recorded, where one output is just that: what eager gives.

    Outputs that share such a block keep the recorded strides, which say how they overlap.
    """
    held = [leaf.place for leaf in ending.returned if leaf.place is not None and leaf.twin is None]
    found: dict[int, torch.Tensor] = {}
    for block, (place, tensor) in memory.odd.items():
        here = [leaf for leaf in held if leaf.block == block]
        if len(here) == 1 and here[0][1:-1] == place[1:-1]:
            found[block] = tensor.copy_(memory.tensor(place))
    return found


def _first(place: Place, memory: Memory) -> torch.Tensor:
    """The tensor that the block was made as, where it is this one, else a new one on the block's bytes."""
    address = memory.address(place.block)
    made = memory.made[place.block]
    return made if is_at(made, place, address, memory.numbers) else memory.tensor(place)


def whole_outputs(ending: Ending, blocks: Blocks) -> dict[int, Place]:
    """Blocks that the program makes and that one output fills from the first byte to the last."""
    found: dict[int, Place] = {}
    for leaf in ending.returned:
        place = leaf.place
        if place is None or not blocks.fresh[place.block]:
            continue
        if place.fixed == 0 == place.low and place.high == blocks.nbytes[place.block] > 0:
            found.setdefault(place.block, place)
    return found


def view_of(tensor: torch.Tensor, start: int, place: Place) -> torch.Tensor:
    """The view at byte ``start`` of the tensor's storage that has the shape, strides and dtype of ``place``."""
    if tensor.dtype == place.dtype:
        return tensor.as_strided(place.shape, place.strides, start // place.width)
    count = tensor.untyped_storage().nbytes()
    whole = tensor.detach().as_strided((count // tensor.element_size(),), (1,), 0)
    if count % max(place.width, tensor.element_size()):
        return torch.empty(0, dtype=place.dtype, device=tensor.device).set_(
            tensor.untyped_storage(), start // place.width, place.shape, place.strides
        )
    return whole.view(place.dtype).as_strided(place.shape, place.strides, start // place.width)
