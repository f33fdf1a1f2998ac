"""Segments to schedule, built by hand."""

from collections.abc import Sequence

from fusekit.dtypes import F32, DType
from fusekit.ids import NodeId
from fusekit.index import loop_vars
from fusekit.ir import Block, Draft, Graph, Guard, Layout, Op, Operand, Segment, Tensor, core, empty_graph
from fusekit.ir.core_text import read_op

Shape = tuple[int, ...]


class Sample:
    """One segment under construction; every method gives the value that it adds."""

    def __init__(self, dtype: DType = F32) -> None:
        self.draft: Draft = empty_graph("f").draft("sample")
        self.dtype = dtype
        self.ops: list[NodeId] = []

    def _place(self, shape: Shape, strides: Sequence[int] | None) -> NodeId:
        layout = Layout.contiguous(shape, self.dtype)
        if strides is not None:
            layout = Layout.of(0, shape, [s * self.dtype.width for s in strides], self.dtype)
        block = self.draft.add_block(Block(max(layout.extent[1], 0), "cpu", "argument"))
        return self.draft.add_tensor(Tensor(self.dtype, shape), id="%p", block=block, layout=layout, role="input")

    def op(self, target: str, takes: Sequence[NodeId], shape: Shape, **kwargs: object) -> NodeId:
        value = self.draft.add_tensor(Tensor(self.dtype, shape), id="%v")
        args = tuple(Operand(k) for k in range(len(takes)))
        self.ops.append(self.draft.add_op(Op(read_op(target, args, tuple(kwargs.items()))), takes, (value,)))
        return value

    def load(self, shape: Shape, strides: Sequence[int] | None = None) -> NodeId:
        return self.op("fk.load", (self._place(shape, strides),), shape)

    def store(self, value: NodeId, shape: Shape, strides: Sequence[int] | None = None) -> None:
        place = self._place(shape, strides)
        op = Op(core.Store())
        self.ops.append(self.draft.add_op(op, (value, place)))

    def reduce(self, value: NodeId, shape: Shape, dims: Shape, kind: str = "sum") -> NodeId:
        """Keeps the reduced dimensions, as eager's keepdim does."""
        left = tuple(n for k, n in enumerate(shape) if k not in dims)
        made = self.op("fk.reduce", (value,), left, kind=kind, dims=dims)
        whole = tuple(1 if k in dims else n for k, n in enumerate(shape))
        forms = loop_vars(whole)
        return self.op("fk.window", (made,), whole, index=tuple(forms[k] for k in range(len(shape)) if k not in dims))

    def done(self, space: Shape, scheduler: str = "pointwise") -> Graph:
        self.draft.add_segment(Segment(scheduler, space), self.ops, id="$0")
        return self.draft.finish().graph


def bias_add(shape: Shape = (128, 512), dtype: DType = F32) -> Graph:
    s = Sample(dtype)
    total = s.op("aten.add.Tensor", (s.load(shape), s.load(shape[-1:])), shape)
    s.store(total, shape)
    return s.done(shape)


def dense_add(shape: Shape = (128, 512), dtype: DType = F32) -> Graph:
    s = Sample(dtype)
    s.store(s.op("aten.add.Tensor", (s.load(shape), s.load(shape)), shape), shape)
    return s.done(shape)


def transposed_add(rows: int = 256, columns: int = 512) -> Graph:
    s = Sample()
    shape = (rows, columns)
    s.store(s.op("aten.add.Tensor", (s.load(shape), s.load(shape, (1, rows))), shape), shape)
    return s.done(shape)


def total(shape: Shape, dims: Shape) -> Graph:
    s = Sample()
    left = tuple(n for k, n in enumerate(shape) if k not in dims)
    value = s.op("fk.reduce", (s.load(shape),), left, kind="sum", dims=dims)
    s.store(value, left)
    return s.done(left)


def softmax(shape: Shape = (64, 4096), dims: Shape = (1,), dtype: DType = F32) -> Graph:
    s = Sample(dtype)
    x = s.load(shape)
    powers = s.op("aten.exp.default", (s.op("aten.sub.Tensor", (x, s.reduce(x, shape, dims, "max")), shape),), shape)
    s.store(s.op("aten.div.Tensor", (powers, s.reduce(powers, shape, dims)), shape), shape)
    return s.done(shape)


def both_ways(shape: Shape = (64, 32)) -> Graph:
    """Row sums and column sums in one segment."""
    s = Sample()
    x = s.load(shape)
    s.store(s.op("fk.reduce", (x,), shape[:1], kind="sum", dims=(1,)), shape[:1])
    s.store(s.op("fk.reduce", (x,), shape[1:], kind="sum", dims=(0,)), shape[1:])
    return s.done(shape)


def padded(shape: Shape = (128, 500), pad: int = 6) -> Graph:
    s = Sample()
    wide = (shape[0], shape[1] + 2 * pad)
    row, column = loop_vars(wide)
    where = (Guard(column - pad, shape[1]),)
    zeros = s.op("fk.fill", (), wide, value=0.0)
    s.store(s.op("fk.overlay", (zeros, s.load(shape)), wide, index=(row, column - pad), where=where), wide)
    return s.done(wide)


def nothing_stored() -> Graph:
    s = Sample()
    s.load((4,))
    return s.done((4,))
