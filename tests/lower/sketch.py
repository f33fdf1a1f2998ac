"""Small functional graphs written by hand, and their run: by the interpreter, as plain Python, compiled."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fusekit.dtypes import F32, U8, DType
from fusekit.ids import NodeId
from fusekit.index import Form, loop_vars
from fusekit.ir import Block, Draft, Graph, Guard, Layout, Op, Operand, Tensor, core, empty_graph
from fusekit.ir.core_text import read_op
from fusekit.lower import Kernel, lower_segment
from fusekit.run.compile import compile_kernel, plain_kernel
from fusekit.run.interpret import interpret


class Sketch:
    """Grows one graph: blocks of bytes, places in them, values. Shapes of values are given where they do not follow."""

    def __init__(self) -> None:
        self.draft: Draft = empty_graph("sketch").draft("test")
        self.blocks: list[NodeId] = []
        self.inputs: list[NodeId] = []
        self.payloads: dict[NodeId, Tensor] = {}
        self.ops: list[tuple[Op, Sequence[NodeId], Sequence[NodeId]]] = []

    def block(self, nbytes: int) -> NodeId:
        block = self.draft.add_block(Block(nbytes, "cpu", "argument"))
        whole = Layout.contiguous((nbytes,), U8)
        self.inputs.append(
            self.draft.add_tensor(Tensor(U8, (nbytes,), "bytes"), block=block, layout=whole, role="input")
        )
        self.blocks.append(block)
        return block

    def place(
        self,
        block: NodeId,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        offset: int | Form = 0,
        dtype: DType = F32,
        name: str = "a",
    ) -> NodeId:
        """Strides and offset count elements; dense without strides."""
        if strides is None:
            strides = [s // dtype.width for s in Layout.contiguous(shape, dtype).strides]
        layout = Layout.of(Form.of(offset) * dtype.width, shape, [s * dtype.width for s in strides], dtype)
        return self._tensor(Tensor(dtype, tuple(shape), name), block, layout)

    def fresh(self, shape: Sequence[int], dtype: DType = F32, name: str = "out") -> NodeId:
        """A dense place in a block of its own."""
        return self.place(self.block(Layout.contiguous(shape, dtype).nbytes), shape, dtype=dtype, name=name)

    def _tensor(self, payload: Tensor, block: NodeId | None = None, layout: Layout | None = None) -> NodeId:
        node = self.draft.add_tensor(payload, block=block, layout=layout)
        self.payloads[node] = payload
        return node

    def op(
        self,
        target: str,
        operands: Sequence[NodeId],
        shape: Sequence[int],
        dtype: DType,
        *args: object,
        **kwargs: object,
    ) -> NodeId:
        result = self._tensor(Tensor(dtype, tuple(shape), ""))
        arguments = (*(Operand(k) for k in range(len(operands))), *args)
        self.ops.append((Op(read_op(target, arguments, tuple(kwargs.items()))), operands, (result,)))
        return result

    def apply(self, target: str, *operands: NodeId | object, dtype: DType | None = None, **kwargs: object) -> NodeId:
        """A pointwise aten op over values and numbers, broadcast."""
        nodes = [x for x in operands if isinstance(x, str)]
        shape = torch.broadcast_shapes(*(self.payloads[node].shape for node in nodes))
        numbers = iter(range(len(nodes)))
        args = tuple(Operand(next(numbers)) if isinstance(x, str) else x for x in operands)
        result = self._tensor(Tensor(dtype or self.payloads[nodes[0]].dtype, tuple(shape), ""))
        self.ops.append((Op(read_op(target, args, tuple(kwargs.items()))), nodes, (result,)))
        return result

    def load(self, place: NodeId) -> NodeId:
        payload = self.payloads[place]
        return self.op("fk.load", [place], payload.shape, payload.dtype)

    def window(self, value: NodeId, shape: Sequence[int], *index: Form | int) -> NodeId:
        return self.op("fk.window", [value], shape, self.payloads[value].dtype, index=tuple(map(Form.of, index)))

    def overlay(
        self, base: NodeId, value: NodeId, index: Sequence[Form | int], where: Sequence[tuple[Form, int]]
    ) -> NodeId:
        payload = self.payloads[base]
        guards = tuple(Guard(form, n) for form, n in where)
        forms = tuple(map(Form.of, index))
        return self.op("fk.overlay", [base, value], payload.shape, payload.dtype, index=forms, where=guards)

    def fill(self, number: object, shape: Sequence[int], dtype: DType = F32) -> NodeId:
        return self.op("fk.fill", [], shape, dtype, value=number)

    def cast(self, value: NodeId, dtype: DType) -> NodeId:
        return self.op("fk.cast", [value], self.payloads[value].shape, dtype)

    def add(self, a: NodeId | object, b: NodeId | object) -> NodeId:
        return self.apply("aten.add.Tensor", a, b)

    def store(self, value: NodeId, place: NodeId) -> None:
        self.ops.append((Op(core.Store()), (value, place), ()))

    def finish(self) -> Graph:
        self.draft.add_op(Op(core.Input()), (), self.inputs, id="^in")
        for op, operands, results in self.ops:
            self.draft.add_op(op, operands, results)
        self.draft.add_op(Op(core.Return()), (), (), id="^out")
        return self.draft.finish().graph


def at(*shape: int) -> tuple[Form, ...]:
    """Index forms of an element of a tensor of this shape."""
    return loop_vars(shape)


def stores(graph: Graph) -> tuple[NodeId, ...]:
    return tuple(op for op in graph.ops() if graph.op(op).target == "fk.store")


def buffers(graph: Graph, seed: int = 0, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Bytes for every block: small numbers, so that sums are exact."""
    generator = torch.Generator().manual_seed(seed)
    out = []
    for block in graph.blocks():
        nbytes = graph.block(block).nbytes
        width = torch.empty(0, dtype=dtype).element_size()
        numbers = torch.randint(
            0 if dtype == torch.bool else -9,
            2 if dtype == torch.bool else 10,
            (-(-nbytes // width),),
            generator=generator,
        )
        out.append(numbers.to(dtype).view(torch.uint8)[:nbytes].clone())
    return out


def call(
    kernel: Kernel, graph: Graph, memory: Sequence[torch.Tensor], how: str, numbers: Sequence[int | float] = ()
) -> None:
    """Run a kernel on bytes. ``how``: compiled, plain, or shuffled (plain, every loop in random order)."""
    function = {
        "compiled": compile_kernel,
        "plain": plain_kernel,
        "shuffled": lambda kernel: plain_kernel(kernel, shuffle=1),
    }[how](kernel)
    blocks = graph.blocks()
    args = [
        numbers[p.number.index] if p.number is not None else memory[blocks.index(p.node)].data_ptr()  # type: ignore[arg-type]
        for p in kernel.params
    ]
    function(*args)


def check(
    graph: Graph,
    how: Sequence[str] = ("compiled", "plain"),
    numbers: Sequence[int | float] = (),
    dtype: torch.dtype = torch.float32,
    exact: bool = True,
) -> Kernel:
    """One kernel of all stores gives the interpreter's bytes; where the record needs no order, in any order too."""
    before = buffers(graph, dtype=dtype)
    expected = [b.clone() for b in before]
    interpret(graph, expected, numbers)
    kernel = lower_segment(graph, stores(graph))
    loose = lower_segment(graph, stores(graph), ordered=False)
    runs = [(kernel, word) for word in how] + [(loose, "shuffled")]
    if kernel.order == "any":
        runs.append((kernel, "shuffled"))
    for one, word in runs:
        memory = [b.clone() for b in before]
        call(one, graph, memory, word, numbers)
        for found, wanted in zip(memory, expected, strict=True):
            if exact:
                assert torch.equal(found, wanted), f"{word}\n{one.source}"
            else:
                torch.testing.assert_close(found.view(dtype), wanted.view(dtype), msg=one.source)
    return kernel
