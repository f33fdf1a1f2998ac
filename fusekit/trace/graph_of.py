"""Recorded calls as a graph of the program stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from fusekit.ids import NodeId
from fusekit.index import Form, number_var
from fusekit.ir import (
    PROGRAM,
    Block,
    Draft,
    Graph,
    Layout,
    Number,
    Op,
    Operand,
    Symbol,
    Tensor,
    core,
    empty_graph,
)
from fusekit.torch_types import FROM_TORCH
from fusekit.trace.blocks import Joined, joined_blocks, separate_blocks
from fusekit.trace.naming import clean, result_name
from fusekit.trace.program import Call, ObjectRef, Place, Program, Ref
from fusekit.trace.schema import bound, is_written
from fusekit.trace.sites import Site, is_absolute, parent_of, sites_of

aten = torch.ops.aten
Parameters = Mapping[tuple[int, str], Number]  # (call number, schema argument) -> the graph's number there


def graph_of(program: Program, parameters: Parameters | None = None, *, apart: bool = False) -> Graph:
    """The program as a graph; numbers named by ``parameters`` become Numbers, and view offsets index forms of them.

    ``apart``: inputs that share memory are blocks of their own all the same.
    """
    return _Builder(program, parameters or {}).build(separate_blocks(program) if apart else joined_blocks(program))


class _Builder:
    """Follows every tensor object: its newest node, its place, and its offset in its block as a form."""

    def __init__(self, program: Program, parameters: Parameters):
        self.program, self.parameters = program, parameters
        self.draft: Draft = empty_graph(program.name).draft("trace")
        self.now: dict[int, Place] = {}
        self.node: dict[int, NodeId] = {}
        self.name: dict[int, str] = {}
        self.offset: dict[int, Form] = {}
        self.home: dict[int, tuple[NodeId, int]] = {}  # object -> (block, bytes from its start to the storage)
        self.fresh: dict[int, NodeId] = {}  # storage that the program made -> block

    def build(self, joined: Joined) -> Graph:
        blocks = [self.draft.add_block(block) for block in joined.blocks]
        nodes = []
        for (number, name, _), (block, start) in zip(self.program.inputs, joined.where, strict=True):
            self.home[number] = (blocks[block], start)
            nodes.append(self._input(number, clean(name)))
        self.draft.add_op(Op(core.Input()), (), nodes)
        for number, call in enumerate(self.program.calls):
            self._call(number, call)
        self._return()
        return self.draft.finish(PROGRAM).graph

    # ---- tensors

    def _input(self, number: int, name: str) -> NodeId:
        place = self.program.first[number]
        self.offset[number] = Form.of(self._bytes(number, place))
        return self._add(number, place, name, "input")

    def _bytes(self, number: int, place: Place) -> int:
        """Recorded offset of an object in its block."""
        return self.home[number][1] + place.offset * place.dtype.itemsize

    def _add(self, number: int, place: Place, name: str, role: str) -> NodeId:
        dtype = FROM_TORCH[place.dtype]
        strides = tuple(stride * dtype.width for stride in place.strides)
        layout = Layout(self.offset[number], place.sizes, strides, dtype)
        tensor = Tensor(dtype, place.sizes, name)
        block = self.home[number][0]
        node = self.draft.add_tensor(tensor, id=f"%{name}", block=block, layout=layout, role=role)
        self.now[number], self.node[number] = place, node
        self.name.setdefault(number, node[1:])
        return node

    def _result(self, call: Call, number: int, place: Place, site: tuple[Site, Number] | None) -> NodeId:
        parent = parent_of(call, number, place, self.now)
        role = "alias" if parent is not None or place.storage in self.fresh else "new"
        if role == "new":
            room = self.program.rooms[place.storage]
            self.fresh[place.storage] = self.draft.add_block(Block(room.nbytes, str(room.device), "fresh"))
        self.home[number] = self.home[parent] if parent is not None else (self.fresh[place.storage], 0)
        self.offset[number] = self._offset(call, number, parent, place, site)
        return self._add(number, place, self.name.get(number) or result_name(str(call.target)), role)

    def _offset(
        self, call: Call, number: int, parent: int | None, place: Place, site: tuple[Site, Number] | None
    ) -> Form:
        """The parent's offset, and what the view adds: as recorded, or ``stride`` bytes for each step of a number."""
        form = Form.of(self._bytes(number, place))
        if parent is not None and not is_absolute(call):
            form = self.offset[parent] + (form.const - self._bytes(parent, self.now[parent]))
        if site is not None and site[0].extent is not None:
            where, parameter = site
            form = form + _variable(where, parameter) * where.stride - where.stride * int(where.value)
        return form

    # ---- ops

    def _call(self, number: int, call: Call) -> None:
        values = _Arguments(self, call, self._numbers(number, call))
        args, kwargs = values.lowered()
        offsets = [pair for pair in values.numbers.values() if pair[0].extent is not None]
        site = offsets[0] if offsets else None
        pairs = zip(call.results, call.places, strict=True)
        same = tuple(
            (k, values.objects.index(number)) for k, number in enumerate(call.results) if number in values.objects
        )
        results = [self._result(call, number, place, site) for number, place in pairs]
        what = core.Call(str(call.target), args, kwargs, tuple(values.writes), same)
        self.draft.add_op(Op(what, call.origin), values.operands, results)

    def _numbers(self, number: int, call: Call) -> dict[str, tuple[Site, Number]]:
        if not self.parameters:
            return {}
        found = {}
        for site in sites_of(call, self.now):
            if which := self.parameters.get((number, site.argument)):
                found[site.argument] = (site, which)
        return found

    def _return(self) -> None:
        operands: list[NodeId] = []

        def operand(number: int) -> Operand:
            operands.append(self.node[number])
            return Operand(len(operands) - 1)

        args = tuple(
            operand(leaf.index) if type(leaf) is Ref else _plain(leaf, k) for k, leaf in enumerate(self.program.outputs)
        )
        moved = tuple(
            (k, operand(number))
            for k, (number, _, _) in enumerate(self.program.inputs)
            if self.now[number] != self.program.first[number]
        )
        self.draft.add_op(Op(core.Return(args, moved)), operands)


class _Arguments:
    """The arguments of one call as payload values; ``operands`` and ``writes`` fill up on the way."""

    def __init__(self, builder: _Builder, call: Call, numbers: dict[str, tuple[Site, Number]]):
        self.builder, self.call, self.numbers = builder, call, numbers
        self.operands: list[NodeId] = []
        self.objects: list[int] = []
        self.writes: list[int] = []

    def lowered(self) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
        positional: list[Any] = []
        named: list[tuple[str, Any]] = []
        for position, (argument, value) in enumerate(bound(self.call.target, self.call.args, self.call.kwargs)):
            before = len(self.operands)
            found = self._argument(argument.name, value)
            if is_written(self.call.target, self.call.args, position, argument):
                self.writes += range(before, len(self.operands))
            if position < len(self.call.args):
                positional.append(found)
            else:
                named.append((argument.name, found))
        return tuple(positional), tuple(named)

    def _argument(self, name: str, value: Any) -> Any:
        if name in self.numbers:
            return self.numbers[name][1]
        if name == "end" and "start" in self.numbers:  # the view keeps its length
            site, number = self.numbers["start"]
            size = self.call.places[0].sizes[self._dim()]
            step = self.call.args[4] if len(self.call.args) > 4 else self.call.kwargs.get("step", 1)
            return _variable(site, number) + max((size - 1) * step + 1, 0) * bool(size)
        return self._value(value)

    def _dim(self) -> int:
        return self.call.args[1] if len(self.call.args) > 1 else self.call.kwargs.get("dim", 0)

    def _value(self, value: Any) -> Any:
        match value:
            case Ref(index):
                self.operands.append(self.builder.node[index])
                self.objects.append(index)
                return Operand(len(self.operands) - 1)
            case ObjectRef(symbol):
                return Symbol(symbol)
            case list() | tuple():
                return tuple(self._value(item) for item in value)
            case torch.dtype():
                return FROM_TORCH.get(value, Symbol(str(value)))
            case torch.device():
                return Symbol(f"device:{value}")
            case torch.layout() | torch.memory_format():
                return Symbol(str(value))
        return value


def _variable(site: Site, number: Number) -> Form:
    """The number of a view's offset, as index forms name it."""
    return Form.of(number_var(number.index, site.extent or 0))


PLAIN = (bool, int, float, complex, str, type(None))


def _plain(leaf: Any, position: int) -> Any:
    """An output that is no tensor: as it is where the textual IR can say it, else named by its position."""
    if type(leaf) in PLAIN:
        return leaf
    if isinstance(leaf, torch.dtype) and leaf in FROM_TORCH:
        return FROM_TORCH[leaf]
    return Symbol(f"output:{position}")
