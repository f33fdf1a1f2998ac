"""The short way of a call: a plan of kernels only is one loop over tables made beforehand.

Nothing here looks at a layout: addresses in, launches, tensors out. What needs more (library calls, outputs that are no
whole block, arguments with new metadata) takes the general way through Memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple

import torch

from fusekit.run.decode import Leaves, Scalar
from fusekit.run.memory import Blocks, Place
from fusekit.run.outputs import Cut, Ending, Returned, off, step_versions

Cells = list[int | float]  # addresses of blocks by number, then the graph's numbers
Maker = Callable[[Sequence[torch.Tensor], Sequence[Scalar], Leaves, Sequence[object], Sequence[object]], object]


class Launch(NamedTuple):
    """A compiled kernel; ``takes``: (is it a block's address?, which number); blocks that nobody needs after it."""

    function: Callable[..., int | None]
    takes: tuple[tuple[bool, int], ...]
    dying: tuple[int, ...]


class Direct(NamedTuple):
    """``addresses``: (block, input in it, the input's first byte in the block). ``launches``: (blocks to allocate,
    kernel, its arguments from the cells, blocks to let go). ``rest``: blocks that outputs hold and no kernel touches.
    ``written``: inputs whose versions step; ``stored``: those among them that each launch writes.
    """

    blocks: int
    addresses: tuple[tuple[int, int, int], ...]
    launches: tuple[tuple[tuple[tuple[int, Callable[[], torch.Tensor]], ...], Callable, Callable, tuple[int, ...]], ...]
    rest: tuple[tuple[int, Callable[[], torch.Tensor]], ...]
    written: tuple[int, ...]
    stored: tuple[tuple[int, ...], ...]
    outputs: tuple[Maker, ...]

    def __call__(self, tensors: Sequence[torch.Tensor], numbers: Sequence[Scalar], leaves: Leaves) -> list[object]:
        """Run on the tensors of ``fk.input``; the output leaves."""
        cells: list = [0] * self.blocks
        made: list = cells.copy()
        cells += numbers
        for block, k, start in self.addresses:
            cells[block] = tensors[k].data_ptr() - start
        try:
            for fresh, function, arguments, dying in self.launches:
                for block, make in fresh:
                    tensor = made[block] = make()
                    cells[block] = tensor.data_ptr()
                function(*arguments(cells))
                for block in dying:
                    made[block] = None
        except BaseException:  # what stands in front of the failed launch was done, as in eager
            done = [row[2] for row in self.launches].index(arguments)
            step_versions([tensors[k] for k in dict.fromkeys(k for some in self.stored[:done] for k in some)])
            raise
        if self.written:
            step_versions([tensors[k] for k in self.written])
        for block, make in self.rest:
            made[block] = make()
        out: list[object] = []
        for output in self.outputs:
            out.append(output(tensors, numbers, leaves, made, out))
        return out


def direct(
    blocks: Blocks, ending: Ending, launches: Sequence[Launch], stored: Sequence[frozenset[int]]
) -> Direct | None:
    """The short way; None where the plan needs the general one. Launches of the plan are all of these; ``stored``: the
    numbers of the blocks that each of them writes."""
    if ending.relayout or any(place.home is None for place in ending.written):
        return None
    outputs = _outputs(blocks, ending)
    addresses = _addresses(blocks)
    if outputs is None or addresses is None:
        return None
    known = {block for block, _, _ in addresses}
    rows = []
    for launch in launches:
        needs = dict.fromkeys(k for is_address, k in launch.takes if is_address and k not in known)
        if any(not blocks.fresh[block] for block in needs):
            return None
        known = (known | set(needs)) - set(launch.dying)
        fresh = tuple((block, _allocator(blocks, block)) for block in needs)
        rows.append((fresh, launch.function, _arguments(launch.takes, len(blocks.fresh)), launch.dying))
    held = dict.fromkeys(leaf.place.block for leaf in ending.returned if leaf.place is not None)
    rest = tuple((block, _allocator(blocks, block)) for block in held if blocks.fresh[block] and block not in known)
    written = tuple(dict.fromkeys(place.home for place in ending.written if place.home is not None))
    homes = [(place.home, place.block) for place in ending.written if place.home is not None]
    each = tuple(tuple(dict.fromkeys(home for home, block in homes if block in some)) for some in stored)
    return Direct(len(blocks.fresh), addresses, tuple(rows), rest, written, each, outputs)


def _addresses(blocks: Blocks) -> tuple[tuple[int, int, int], ...] | None:
    """An input of each block that tells where the block is: one with elements (torch says 0 for the others)."""
    found: dict[int, tuple[int, int, int]] = {}
    for k, place in enumerate(blocks.inputs):
        if place.fixed is None:
            return None
        if place.high > place.low and place.block not in found:
            found[place.block] = place.block, k, place.fixed
    return tuple(found.values())


def _arguments(takes: Sequence[tuple[bool, int]], blocks: int) -> Callable[[Cells], Sequence[int | float]]:
    cells = [k if is_address else blocks + k for is_address, k in takes]
    if len(cells) > 1:
        return itemgetter(*cells)
    return lambda values: [values[k] for k in cells]


def _allocator(blocks: Blocks, block: int) -> Callable[[], torch.Tensor]:
    place, device = blocks.whole.get(block), blocks.devices[block]
    if place is None:
        nbytes = blocks.nbytes[block]
        return lambda: torch.empty(nbytes, dtype=torch.uint8, device=device)
    shape, strides, dtype = place.shape, place.strides, place.dtype
    if device.type == "cpu":  # a device argument takes time to read
        return lambda: torch.empty_strided(shape, strides, dtype=dtype, device="cpu")
    return lambda: torch.empty_strided(shape, strides, dtype=dtype, device=device)


def _outputs(blocks: Blocks, ending: Ending) -> tuple[Maker, ...] | None:
    makers: list[Maker] = []
    seen: set[int] = set()
    for leaf in ending.returned:
        made = _output(blocks, leaf, seen)
        if made is None:
            return None
        makers.append(made)
    return tuple(makers)


def _output(blocks: Blocks, leaf: Returned, seen: set[int]) -> Maker | None:
    if (k := leaf.input) is not None:
        return lambda tensors, numbers, leaves, made, out: tensors[k]
    if (constant := leaf.constant) is not None:
        return lambda tensors, numbers, leaves, made, out: constant((), numbers, leaves)
    if (twin := leaf.twin) is not None:
        return lambda tensors, numbers, leaves, made, out: out[twin]
    place = leaf.place
    if place is None or place.fixed is None:
        return None
    if not blocks.fresh[place.block]:
        return _view_of_input(blocks, place, leaf.cut)
    if place.block in seen or blocks.whole.get(place.block) != place:
        return None
    seen.add(place.block)
    block = place.block
    return lambda tensors, numbers, leaves, made, out: made[block]


def _view_of_input(blocks: Blocks, place: Place, cut: Cut) -> Maker | None:
    """A view at so many elements from the start of the input that it is a view of."""
    home = place.home
    if home is None or place.fixed is None:
        return None
    base = blocks.inputs[home]
    apart = place.fixed - (base.fixed or 0)
    if base.dtype != place.dtype or apart % place.width:
        return None
    shape, strides, shift = place.shape, place.strides, apart // place.width

    def view(tensors: Sequence[torch.Tensor], *_: object) -> torch.Tensor:
        owner = off(tensors[home], cut)
        return owner.as_strided(shape, strides, owner.storage_offset() + shift)

    return view
