"""Real bytes: where the memory blocks of a graph are while the graph, or a plan made from it, runs."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from fusekit.errors import FusekitError, UnsupportedError
from fusekit.ids import NodeId
from fusekit.index import Form
from fusekit.ir import Block, Graph, Layout
from fusekit.run.decode import Scalar, value_of
from fusekit.run.lines import Lines
from fusekit.torch_types import TO_TORCH
from fusekit.trace.told import Answer, Question, results_in


class LayoutMismatch(FusekitError):
    """A library call answered with other tensors than were recorded, and no copy can make up for it.

    ``told``: the call, and what it gave: a new recording may believe it.
    """

    told: tuple[Question, Answer] | None = None


RECORD_AGAIN = "its result hangs on data: run this op outside of the compiled function, or explore it anew"


class Place(NamedTuple):
    """A layout prepared for torch: ``block`` by number, strides in elements.

    ``low`` and ``high`` are bytes from the offset: what the elements span. ``fixed`` is the offset in bytes where it is
    the same on every call, else None and ``offset`` is evaluated. ``home``: the number of the input that it is or is a
    view of, where the graph still tells.
    """

    block: int
    offset: Form
    fixed: int | None
    low: int
    high: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    width: int
    home: int | None = None

    def start(self, numbers: Sequence[Scalar]) -> int:
        """Byte of the block where element (0, 0, ...) is."""
        return value_of(self.offset, numbers) if self.fixed is None else self.fixed


class Piece(NamedTuple):
    """One storage object in a block: bytes ``start`` to ``end``, and the number of an input that it belongs to."""

    start: int
    end: int
    storage: torch.UntypedStorage
    input: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """What a graph says about its memory, prepared once: blocks by number, and the place of every input."""

    number: Mapping[NodeId, int]
    nbytes: tuple[int, ...]
    devices: tuple[torch.device, ...]
    fresh: tuple[bool, ...]
    inputs: tuple[Place, ...]
    whole: Mapping[int, Place] = field(default_factory=dict)  # blocks that one output place fills: made as that tensor
    grown: frozenset[int] = frozenset()  # blocks of callers' storages without a byte, which the program resizes

    @staticmethod
    def of(graph: Graph) -> Blocks:
        blocks = graph.blocks()
        number = {block: k for k, block in enumerate(blocks)}
        payloads, lines = [_payload(graph, block) for block in blocks], Lines(graph)
        return Blocks(
            number,
            tuple(block.nbytes for block in payloads),
            tuple(torch.device(block.device) for block in payloads),
            tuple(block.kind == "fresh" for block in payloads),
            tuple(place_of(graph, number, tensor, lines) for tensor in graph.inputs()),
            grown=frozenset(number[block] for block in _grown(graph)),
        )


def _grown(graph: Graph) -> Iterator[NodeId]:
    """Blocks of arguments that have no element, in which other tensors have some."""
    inputs = {block for t in graph.inputs() if (block := graph.block_of(t)) is not None}
    full = {graph.block_of(t) for t in graph.tensors() if not graph.is_value(t) and graph.layout(t).numel}
    held = {graph.block_of(t) for t in graph.inputs() if graph.layout(t).numel}
    yield from (inputs & full) - held  # type: ignore[operator]


def _payload(graph: Graph, block: NodeId) -> Block:
    payload = graph[block]
    assert isinstance(payload, Block)
    return payload


def place_of(graph: Graph, number: Mapping[NodeId, int], tensor: NodeId, lines: Lines | None = None) -> Place:
    """The place of a tensor of the graph, by block number. ``lines``: those of the graph, where many are asked for."""
    block = graph.block_of(tensor)
    assert block is not None, f"{tensor} is a value and has no place"
    home = None if _payload(graph, block).kind == "fresh" else (lines or Lines(graph)).home(tensor)
    return prepare(number[block], graph.layout(tensor))._replace(home=home)


def prepare(block: int, layout: Layout) -> Place:
    """A layout of a block as a place."""
    width = layout.dtype.width
    low = sum(min(0, s * (n - 1)) for n, s in zip(layout.shape, layout.strides, strict=True)) if layout.numel else 0
    high = low
    if layout.numel:
        high = width + sum(max(0, s * (n - 1)) for n, s in zip(layout.shape, layout.strides, strict=True))
    return Place(
        block,
        layout.offset,
        layout.offset.const if layout.offset.is_constant else None,
        low,
        high,
        layout.shape,
        tuple(s // width for s in layout.strides),
        TO_TORCH[layout.dtype],
        width,
    )


class Memory:
    """The bytes of every block during one run.

    Blocks of arguments and captures are the storages of the actual tensors (several, where several storage objects
    share one address range); blocks that the program makes are allocated when they are first asked for.
    """

    __slots__ = ("_keep", "_pieces", "_storages", "addresses", "blocks", "made", "numbers", "odd", "tensors")

    def __init__(self, blocks: Blocks, tensors: Sequence[torch.Tensor], numbers: Sequence[Scalar] = ()):
        self.blocks, self.tensors, self.numbers = blocks, tensors, numbers
        self.addresses: list[int | None] = [None] * len(blocks.nbytes)
        self.made: dict[int, torch.Tensor] = {}  # the tensor whose storage a block is, where there is one
        self.odd: dict[int, tuple[Place, torch.Tensor]] = {}  # results of library calls that were copied to their place
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._pieces: dict[int, list[Piece]] = {}
        self._keep: list[torch.Tensor] = []
        for tensor, place in zip(tensors, blocks.inputs, strict=True):
            if place.block in blocks.grown and not tensor.untyped_storage().nbytes():
                tensor.untyped_storage().resize_(blocks.nbytes[place.block])
            if self.addresses[place.block] is None:
                self.addresses[place.block] = _base(tensor, place.start(numbers), place.width)

    def address(self, block: int) -> int:
        """Address of byte 0 of a block; allocates it where the program makes it."""
        address = self.addresses[block]
        if address is None:
            place, device = self.blocks.whole.get(block), self.blocks.devices[block]
            if place is not None:
                tensor = torch.empty_strided(place.shape, place.strides, dtype=place.dtype, device=device)
            else:
                tensor = torch.empty(self.blocks.nbytes[block], dtype=torch.uint8, device=device)
            self.made[block] = tensor
            address = self.addresses[block] = tensor.data_ptr()
        return address

    def release(self, block: int) -> None:
        """Give back a block that the program made and needs no more."""
        self.addresses[block] = None
        self.made.pop(block, None)
        self._storages.pop(block, None)

    def has(self, block: int) -> bool:
        """Has the block bytes yet? (Always, for blocks of arguments and captures.)"""
        return self.addresses[block] is not None

    def adopt(self, block: int, tensor: torch.Tensor) -> None:
        """Take the storage of ``tensor``, a library call's result, as the bytes of a block that has none yet."""
        self.made[block] = tensor
        storage = self._storages[block] = tensor.untyped_storage()
        if storage.nbytes() < self.blocks.nbytes[block]:  # the program resizes the result later on
            storage.resize_(self.blocks.nbytes[block])
        self.addresses[block] = storage.data_ptr()

    def _storage(self, block: int) -> torch.UntypedStorage:
        """The storage of a block that the program makes."""
        self.address(block)
        found = self._storages.get(block)
        if found is None:
            found = self._storages[block] = self.made[block].untyped_storage()
        return found

    def tensor(self, place: Place) -> torch.Tensor:
        """A tensor on the block's own bytes. It has a version counter of its own and never requires grad."""
        start = place.start(self.numbers)
        if self.blocks.fresh[place.block]:
            storage, begin = self._storage(place.block), 0
        elif (piece := self.piece(place, start)) is not None:
            storage, begin = piece.storage, piece.start
        else:
            storage, begin = self._across(place, start)
        self._check(place, start - begin, storage)
        empty = torch.empty(0, dtype=place.dtype, device=self.blocks.devices[place.block])
        return empty.set_(storage, (start - begin) // place.width, place.shape, place.strides)

    def _check(self, place: Place, start: int, storage: torch.UntypedStorage) -> None:
        """``set_`` would silently grow a storage that is too small."""
        if place.high > place.low and not 0 <= start + place.low <= start + place.high <= storage.nbytes():
            raise IndexError(f"bytes {start + place.low} to {start + place.high} of a storage of {storage.nbytes()}")

    def piece(self, place: Place, start: int) -> Piece | None:
        """The storage object of a block of arguments that holds all of a place: its home's, or the only one."""
        pieces = self.pieces(place.block)
        if place.home is not None:
            key = self.tensors[place.home].untyped_storage()._cdata
            pieces = [piece for piece in pieces if piece.storage._cdata == key]
        elif len(pieces) > 1:
            return None
        low, high = start + place.low, start + place.high
        for piece in pieces:
            if piece.start <= low and high <= piece.end and (start - piece.start) % place.width == 0:
                return piece
        return None

    def pieces(self, block: int) -> list[Piece]:
        """The storage objects in a block of arguments, each once, in the order of the arguments."""
        known = self._pieces.get(block)
        if known is None:
            known = self._pieces[block] = []
            base, seen = self.address(block), set()
            for k, (tensor, place) in enumerate(zip(self.tensors, self.blocks.inputs, strict=True)):
                storage = tensor.untyped_storage()
                if place.block == block and storage._cdata not in seen:
                    seen.add(storage._cdata)
                    start = storage.data_ptr() - base if storage.nbytes() else 0
                    known.append(Piece(start, start + storage.nbytes(), storage, k))
        return known

    def _across(self, place: Place, start: int) -> tuple[torch.UntypedStorage, int]:
        """A storage object for one place, where it isn't known which holds it, or none does; and the byte it begins at.

        Of its own for each place: torch refuses overlaps within one storage that it does not see across two.
        """
        pieces = self.pieces(place.block)
        low, high = start + place.low, start + place.high
        if high == low:
            return torch.empty(0, dtype=torch.uint8, device=self.blocks.devices[place.block]).untyped_storage(), start
        if low < min(piece.start for piece in pieces) or max(piece.end for piece in pieces) < high:
            raise IndexError(f"bytes {low} to {high} reach outside every argument of their memory block")
        if self.blocks.devices[place.block].type != "cpu":
            raise UnsupportedError("a tensor that lies across two storage objects on a GPU")
        buffer = (ctypes.c_char * (high - low)).from_address(self.address(place.block) + low)
        view = torch.frombuffer(buffer, dtype=torch.uint8)
        self._keep.append(view)
        return view.untyped_storage(), low


def too_small(graph: Graph, tensors: Sequence[torch.Tensor], numbers: Sequence[Scalar]) -> str | None:
    """What is wrong where storages of actual ``tensors`` of fk.input end before bytes that the graph's places touch: a
    tensor with the layout that was recorded may lie in a smaller buffer."""
    blocks = Blocks.of(graph)
    spans: dict[int, list[tuple[int, int]]] = {}
    for tensor, place in zip(tensors, blocks.inputs, strict=True):
        storage = tensor.untyped_storage()
        if storage.nbytes():
            start = storage.data_ptr() - _base(tensor, place.start(numbers), place.width)
            spans.setdefault(place.block, []).append((start, start + storage.nbytes()))
    for tensor in graph.tensors():
        block = graph.block_of(tensor)
        if block is None or blocks.number[block] not in spans:
            continue
        place = prepare(blocks.number[block], graph.layout(tensor))
        low, high = (place.start(numbers) + end for end in (place.low, place.high))
        here = spans[place.block]
        if low < high and not min(start for start, _ in here) <= low <= high <= max(end for _, end in here):
            return f"bytes {low} to {high} of {block} are used, and its storage has {here[0][1] - here[0][0]}"
    return None


def is_read(graph: Graph, result: NodeId) -> bool:
    """May anybody read a library call's result, by an op or through a view? Else it may be whatever it is."""
    block = graph.block_of(result)
    return bool(graph.users(result)) or any(t != result and graph.block_of(t) == block for t in graph.tensors())


def settle_all(
    memory: Memory, places: Sequence[Place], read: Sequence[bool], out: object, what: str = "a library call"
) -> None:
    """Make the places hold what a library call gave; where nobody may read a result, it is not looked at.

    Raises LayoutMismatch.
    """
    found = results_in(out)
    if len(found) != len(places):  # some calls give None for results that were not asked for
        found = [tensor for tensor in found if tensor is not None]
    if len(found) != len(places):
        raise LayoutMismatch(f"{what} gave {len(found)} tensors, recorded were {len(places)}", None, RECORD_AGAIN)
    for place, tensor, wanted in zip(places, found, read, strict=True):
        if not wanted:
            continue
        if tensor is None:
            raise LayoutMismatch(f"{what} gave no tensor where one was recorded", None, RECORD_AGAIN)
        settle(memory, place, tensor.clone() if tensor._is_zerotensor() else tensor, what)


def settle(memory: Memory, place: Place, tensor: torch.Tensor, what: str = "a library call") -> bool:
    """Make ``place`` hold a library call's result; True where its elements had to be copied.

    A fresh result brings its storage, unless its strides are not those recorded (they may hang on data): then its
    elements are copied to where everybody will look for them. A result in memory that is known must already be there.
    """
    fresh = not memory.has(place.block)
    if fresh:
        memory.adopt(place.block, tensor)
    if is_at(tensor, place, memory.address(place.block), memory.numbers):
        return False
    if not fresh or tuple(tensor.shape) != place.shape or tensor.dtype != place.dtype:
        got = f"{tensor.dtype} {list(tensor.shape)} with strides {list(tensor.stride())}"
        want = f"{place.dtype} {list(place.shape)} with strides {list(place.strides)}"
        known = "" if fresh else " in memory that is known"
        raise LayoutMismatch(f"{what} gave {got}, recorded was {want}{known}", None, RECORD_AGAIN)
    memory.release(place.block)
    memory.odd[place.block] = place, tensor
    memory.tensor(place).copy_(tensor)
    return True


def _base(tensor: torch.Tensor, start: int, width: int) -> int:
    """Address of byte 0 of the block in which ``tensor`` begins at byte ``start``."""
    address = tensor.data_ptr()
    if address:
        return address - start
    # a tensor without elements says 0, wherever it is
    return tensor.untyped_storage().data_ptr() + int(tensor.storage_offset()) * width - start


def is_at(tensor: torch.Tensor, place: Place, address: int, numbers: Sequence[Scalar]) -> bool:
    """Is ``tensor`` the place in a block that begins at ``address``? Strides of one-element dimensions do not count."""
    if tuple(tensor.shape) != place.shape or tensor.dtype != place.dtype:
        return False
    if place.high == place.low:
        return True
    if any(n > 1 and s != t for n, s, t in zip(place.shape, place.strides, tensor.stride(), strict=True)):
        return False
    return tensor.data_ptr() == address + place.start(numbers)
